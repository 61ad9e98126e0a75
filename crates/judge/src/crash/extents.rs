//! Check: no file has written blocks behind its end.
//!
//! It runs on every recovered image. e2fsck sees only a sample, and with blocks smaller than 4 KiB
//! it accepts blocks in the same 4 KiB as the end. A test compares both.

use anyhow::{Context, Result, anyhow, ensure};
use uext4::{Extent, Filesystem};
use uext4_testkit::manifest::{FileKind, Manifest};

use crate::EngineTarget;

/// Checks all files of the tree.
///
/// # Errors
/// A file whose last written block is behind its size.
pub(super) fn end_with_their_files(fs: &Filesystem, tree: &Manifest) -> Result<()> {
    let files = tree.entries.iter();
    let files = files.filter(|(_, entry)| entry.kind == FileKind::File);
    for (path, entry) in files {
        ends_with_its_file(fs, path, entry.size_bytes)
            .with_context(|| format!("\"{}\"", path.escape_ascii()))?;
    }
    Ok(())
}

fn ends_with_its_file(fs: &Filesystem, path: &[u8], size_bytes: u64) -> Result<()> {
    let inode = EngineTarget::new(fs).find(path);
    let inode = inode.map_err(|errno| anyhow!("lookup answers errno {}", errno.0))?;
    let end_bytes = size_bytes.next_multiple_of(fs.statfs().block_size.into());
    let extents = fs.fiemap(&inode, 0, u64::MAX)?;
    for extent in extents
        .iter()
        .filter(|extent| extent.flags & Extent::UNWRITTEN == 0)
    {
        let end = extent.logical_bytes + extent.len_bytes;
        ensure!(
            end <= end_bytes,
            "blocks are written up to byte {end}, and the file has {size_bytes} bytes"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use uext4::device::MemDevice;
    use uext4::{Caller, WriteContext};
    use uext4_testkit::oracle::{Access, debugfs, e2fsck, scratch_dir};

    use super::*;
    use crate::crash::config::Config;
    use crate::crash::disk::Disk;
    use crate::crash::record::{clock, options};
    use crate::crash::recover::by_us;

    #[test]
    fn a_size_in_front_of_written_blocks_is_seen_by_e2fsck_and_here() {
        let config = Config::named("ext4").expect("a known configuration");
        let disk = config.make().expect("mkfs");
        let fs = disk
            .mount(config.mounted(options(clock())))
            .expect("mounts");
        let root = fs.root().expect("the root");
        let file = fs.create(&root, b"f", 0o644, &Caller::root());
        let file = file.expect("a new file");
        fs.write(&file, 0, &[1; 8192], &WriteContext::ROOT)
            .expect("writes");
        fs.unmount().expect("unmounts");
        let scratch = scratch_dir().expect("a scratch directory");
        let path = scratch.path().join("image");
        std::fs::write(&path, disk.main.to_bytes()).expect("the image");
        // Verdicts of e2fsck and of this check, with blocks of 1 KiB.
        let sizes = [
            (8192, true, true),
            (7169, true, true),
            (7168, true, false),
            (4096, false, false),
            (1, false, false),
        ];
        for (size, for_e2fsck, for_us) in sizes {
            let set = format!("set_inode_field /f size {size}");
            debugfs(&path, Access::Write, &[set]).expect("debugfs sets the size");
            let verdict = e2fsck(&path).expect("e2fsck runs");
            assert_eq!(verdict.is_clean(), for_e2fsck, "{size}: {verdict}");
            let bytes = std::fs::read(&path).expect("the image");
            let main = Arc::new(MemDevice::from_bytes(&bytes));
            let found = by_us(
                &config,
                Disk {
                    main,
                    journal: None,
                },
            )
            .expect("mounts");
            let ours = end_with_their_files(&found.fs, &found.tree);
            assert_eq!(ours.is_ok(), for_us, "{size}: {ours:?}");
        }
    }
}
