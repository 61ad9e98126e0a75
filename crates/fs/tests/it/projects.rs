//! Directories with inherited projects: accepted renames and links, and their `statfs`.

use crate::image;
use std::sync::Arc;
use uext4::device::MemDevice;
use uext4::format::quota::{QuotaEntry, QuotaKind};
use uext4::{Caller, Error, Filesystem, InodeRef, RenameFlags, SetAttr, WriteContext};

const ROOT: Caller = Caller::root();
const PROJECT: u32 = 77;
const INHERIT: u32 = 0x2000_0000;

fn mount() -> (Arc<MemDevice>, Filesystem) {
    let device = image::mke2fs(64, &["-I", "256", "-O", "quota,project"]);
    let fs = image::mount_with(&device, "prjquota").unwrap();
    (device, fs)
}

/// A directory in the root with this project and the inherit flag.
fn project_dir(fs: &Filesystem, name: &[u8], project: u32) -> InodeRef {
    let dir = fs.mkdir(&fs.root().unwrap(), name, 0o755, &ROOT).unwrap();
    let set = SetAttr {
        project: Some(project),
        flags: Some(fs.attr(&dir).flags | INHERIT),
        ..SetAttr::default()
    };
    fs.set_attr(&dir, &set, &ROOT).unwrap();
    dir
}

#[test]
fn names_do_not_cross_projects() {
    let (device, fs) = mount();
    let root = fs.root().unwrap();
    let [one, two] = [(&b"one"[..], PROJECT), (b"two", PROJECT + 1)]
        .map(|(name, project)| project_dir(&fs, name, project));
    let outside = fs.create(&root, b"outside", 0o644, &ROOT).unwrap();
    let inside = fs.create(&one, b"inside", 0o644, &ROOT).unwrap();
    assert_eq!(fs.attr(&inside).project, PROJECT);
    let crosses = |done| assert!(matches!(done, Err(Error::CrossDevice)), "{done:?}");
    let replace = RenameFlags::Replace;
    crosses(fs.link(&outside, &one, b"x", &ROOT));
    crosses(fs.link(&inside, &two, b"x", &ROOT));
    crosses(fs.rename(&root, b"outside", &one, b"x", replace, &ROOT));
    crosses(fs.rename(&one, b"inside", &two, b"x", replace, &ROOT));
    crosses(fs.rename(&root, b"two", &one, b"x", replace, &ROOT));
    let other = fs.create(&two, b"other", 0o644, &ROOT).unwrap();
    let exchange = RenameFlags::Exchange;
    crosses(fs.rename(&one, b"inside", &two, b"other", exchange, &ROOT));
    crosses(fs.rename(&two, b"other", &root, b"outside", exchange, &ROOT));
    // An existing name is reported first.
    let taken = fs.link(&outside, &one, b"inside", &ROOT);
    assert!(matches!(taken, Err(Error::Exists)), "{taken:?}");
    // Out of a project, and within it.
    fs.rename(&two, b"other", &root, b"x", replace, &ROOT)
        .unwrap();
    fs.link(&inside, &one, b"y", &ROOT).unwrap();
    fs.rename(&one, b"y", &one, b"z", replace, &ROOT).unwrap();
    assert_eq!(fs.attr(&other).project, PROJECT + 1);
    drop((root, one, two, outside, inside, other));
    fs.unmount().unwrap();
    image::assert_clean(&device);
}

#[test]
fn statfs_shows_what_a_project_may_use() {
    let (_device, fs) = mount();
    let dir = project_dir(&fs, b"dir", PROJECT);
    let all = fs.statfs();
    assert_eq!(fs.statfs_at(&dir), fs.statfs(), "no limits");
    let limits = QuotaEntry {
        id: PROJECT,
        space_soft_kib: 400,
        space_hard_kib: 800,
        inodes_hard: 50,
        ..QuotaEntry::default()
    };
    fs.set_quota(QuotaKind::Project, &limits).unwrap();
    let file = fs.create(&dir, b"file", 0o644, &ROOT).unwrap();
    fs.write(&file, 0, &[7; 40 << 10], &WriteContext::ROOT)
        .unwrap();
    fs.fsync(&file).unwrap();
    let seen = fs.statfs_at(&dir);
    let block = u64::from(seen.block_size);
    assert_eq!(seen.blocks, 400 * 1024 / block);
    // The directory uses one block.
    assert_eq!(seen.blocks_free, seen.blocks - 40 * 1024 / block - 1);
    assert_eq!(seen.blocks_available, seen.blocks_free);
    assert_eq!((seen.inodes, seen.inodes_free), (50, 48));
    assert_eq!(fs.statfs().blocks, all.blocks);
    assert_eq!(fs.statfs_at(&fs.root().unwrap()).blocks, all.blocks);
    drop((dir, file));
    fs.unmount().unwrap();
}
