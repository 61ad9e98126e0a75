//! Base images for the faults: with new features, with inline data, and with the oldest formats.

use crate::check::checked;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use uext4::check::Limits;
use uext4::device::{Access, FileDevice};
use uext4::{Caller, FileType, Filesystem, InodeRef, MountOptions, SetMode, Threads, WriteContext};
use uext4_testkit::oracle;

pub(crate) const MODERN: &[&str] = &["-b", "1024", "-O", "ea_inode,quota,project,orphan_file"];
pub(crate) const INLINE: &[&str] = &["-b", "4096", "-O", "ea_inode,inline_data"];
const DRAWN: &str = "0dd5eed0-c0de-4bad-8bad-feedc0ffee00";
pub(crate) const OLD: &[&str] = &["-b", "1024", "-O", "^extents,^metadata_csum,^64bit"];

fn fill(fs: &Filesystem) -> uext4::Result<()> {
    let (root, caller) = (fs.root()?, Caller::root());
    let wide = fs.mkdir(&root, b"wide", 0o755, &caller)?;
    for i in 0..150 {
        let name = format!("a name in a directory with an index {i}");
        fs.create(&wide, name.as_bytes(), 0o644, &caller)?;
        if i % 4 == 0 {
            fs.unlink(&wide, name.as_bytes(), &caller)?;
        }
    }
    let holes = fs.create(&root, b"holes", 0o644, &caller)?;
    for i in 0..500 {
        fs.write(&holes, i * 8192, &[i as u8; 600], &WriteContext::ROOT)?;
    }
    fs.symlink(&root, b"fast", b"wide", &caller)?;
    fs.symlink(&root, b"slow", &[b's'; 300], &caller)?;
    fs.mknod(&root, b"node", FileType::CharDevice, 0o600, (1, 3), &caller)?;
    let with_values = |dir: &InodeRef, name: &[u8], bytes: &[usize]| -> uext4::Result<()> {
        let file = fs.create(dir, name, 0o644, &caller)?;
        for (at, len) in bytes.iter().enumerate() {
            let name = format!("user.attribute{at}");
            let value = vec![at as u8 + 1; *len];
            fs.set_xattr(&file, name.as_bytes(), &value, SetMode::Any, &caller)?;
        }
        fs.write(&file, 0, b"data", &WriteContext::ROOT)?;
        Ok(())
    };
    let sub = fs.mkdir(&root, b"sub", 0o755, &caller)?;
    with_values(&sub, b"few", &[5, 20])?;
    with_values(&sub, b"many", &[70; 7])?;
    with_values(&sub, b"as many", &[70; 7])?;
    Ok(())
}

fn values_in_inodes(fs: &Filesystem) -> uext4::Result<()> {
    let (root, caller) = (fs.root()?, Caller::root());
    for name in [&b"large"[..], b"larger"] {
        let file = fs.create(&root, name, 0o644, &caller)?;
        fs.set_xattr(&file, b"user.large", &[9; 9000], SetMode::Any, &caller)?;
        fs.set_xattr(&file, b"user.small", &[3; 30], SetMode::Any, &caller)?;
    }
    Ok(())
}

/// Creates a sound image. UUID and hash seed are fixed, so that a test seed reproduces.
pub(crate) fn base(path: &Path, options: &[&str]) {
    let drawn = ["-U", DRAWN, "-E", &format!("hash_seed={DRAWN}")].map(String::from);
    let all: Vec<&str> = options
        .iter()
        .copied()
        .chain(drawn.iter().map(String::as_str))
        .collect();
    oracle::mke2fs(path, 16 << 20, &all).expect("mke2fs");
    let device = Arc::new(FileDevice::open(path, Access::ReadWrite).expect("it is there"));
    let mount = MountOptions {
        threads: Threads::Inline,
        ..MountOptions::default()
    };
    let fs = Filesystem::mount(device, mount).expect("it is sound");
    fill(&fs).expect("there is room");
    if options != OLD {
        values_in_inodes(&fs).expect("the feature is there");
    }
    fs.unmount().expect("it closes");
    if options == MODERN {
        let tune2fs = Command::new("tune2fs")
            .args(["-O", "mmp"])
            .arg(path)
            .output();
        assert!(tune2fs.expect("tune2fs runs").status.success());
    }
    oracle::assert_clean(path);
    let report = checked(path, &Limits::default()).expect("it can be read");
    assert!(report.is_clean(), "{options:?}: {report:#?}");
}
