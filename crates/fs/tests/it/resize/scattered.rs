//! File systems whose inodes and blocks lie up to their end.

use super::kind::Image;
use uext4::{Caller, Destination, Filesystem, SetMode};
use uext4_testkit::rng::Rng;

/// A value that needs an inode of its own, where the file system has such.
const LONG_VALUE: usize = 5000;

/// Files, directories, attributes and links in fragments up to the end of the file system, with
/// inodes of all groups.
pub(super) fn scatter(image: &Image, seed: u64) {
    let size = image.blocks() * u64::from(image.kind.block_size);
    let mut rng = Rng::new(seed);
    image.mounted(|fs| scatter_inodes(fs, &mut rng).expect("room for inodes"));
    let free = image.mounted(|fs| fs.statfs().blocks_free) * u64::from(image.kind.block_size);
    image.fill("/filler", free * 6 / 10, seed);
    image.mounted(|fs| add_kinds(fs, &mut rng).expect("room for kinds"));
    image.mounted(|fs| fs.paths().remove_dir_all("/filler").expect("removes"));
    image.fill("/files", free / 10, seed + 1);
    image.mounted(|fs| {
        spread(fs, "/files", size, &mut rng).expect("moves");
        spread(fs, "/many", size, &mut rng).expect("moves");
    });
}

/// Takes most inodes, and frees most of these again.
fn scatter_inodes(fs: &Filesystem, rng: &mut Rng) -> uext4::Result<()> {
    let (paths, caller) = (fs.paths(), Caller::root());
    let (mut left, mut dirs) = (fs.statfs().inodes_free / 2, Vec::new());
    while left > 40 {
        let dir = format!("/many/{}", dirs.len());
        paths.create_dir_all(format!("{dir}/below/it"))?;
        for at in 0..30 {
            let len = if at % 15 == 0 { rng.below(60_000) } else { 0 };
            paths.write(format!("{dir}/{at}"), rng.bytes(len as usize))?;
        }
        paths.hard_link(format!("{dir}/1"), format!("{dir}/below/it/too"))?;
        let value = vec![b'v'; LONG_VALUE];
        let inode = paths.inode(format!("{dir}/2"))?;
        // Most file systems have no space for it.
        let _may_not_fit = fs.set_xattr(&inode, b"user.long", &value, SetMode::Any, &caller);
        (left, dirs) = (left - 33, [dirs, vec![dir]].concat());
    }
    for dir in dirs {
        if rng.chance(75) {
            paths.remove_dir_all(&dir)?;
            continue;
        }
        for at in (3..30).filter(|at| at % 15 != 0) {
            if rng.chance(80) {
                paths.remove_file(format!("{dir}/{at}"))?;
            }
        }
    }
    Ok(())
}

/// A directory with an index, long links, and attributes in blocks.
fn add_kinds(fs: &Filesystem, rng: &mut Rng) -> uext4::Result<()> {
    let (paths, caller) = (fs.paths(), Caller::root());
    paths.create_dir_all("/odd/dir")?;
    for at in 0..fs.statfs().inodes_free.min(400) / 5 {
        let name = format!("/odd/dir/{at:03} with a name that is not short at all");
        paths.write(&name, b"")?;
    }
    for at in 0..fs.statfs().inodes_free.min(200) / 10 {
        let file = format!("/odd/attributes {at}");
        paths.write(&file, rng.bytes(3000))?;
        let value = vec![b'a' + (at % 3) as u8; 700];
        let inode = paths.inode(&file)?;
        fs.set_xattr(&inode, b"user.value", &value, SetMode::Any, &caller)?;
        paths.symlink("long/".repeat(40), format!("/odd/link {at}"))?;
    }
    Ok(())
}

/// Moves parts of the files in `dir` to random places.
fn spread(fs: &Filesystem, dir: &str, size: u64, rng: &mut Rng) -> uext4::Result<()> {
    for sub in fs.paths().read_dir(dir)? {
        let sub = format!("{dir}/{}", String::from_utf8_lossy(&sub?.name));
        for file in fs.paths().read_dir(&sub)? {
            let path = format!("{sub}/{}", String::from_utf8_lossy(&file?.name));
            let found = fs.paths().symlink_metadata(&path)?;
            let inode = fs.paths().symlink_inode(&path)?;
            let step = 40_000;
            for at in (0..found.len()).step_by(step).filter(|_| found.is_file()) {
                let to = Destination::Near(rng.below(size));
                fs.relocate(&inode, at..at + step as u64 / 2, to)?;
            }
        }
    }
    Ok(())
}
