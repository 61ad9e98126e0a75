//! Only regular files with extents have records: changes of anything else take a full commit.

use crate::fast_commit_replays::replays_agree;
use crate::fast_commit_writes::Rig;
use crate::image;
use uext4::mkfs::{MkfsOptions, Preset};
use uext4::{Caller, Filesystem, InodeRef, MountOptions, RenameFlags, SetAttr, resize};
use uext4_format::FileType;

const USER: Caller = Caller::root();

fn assert_layout(rig: &Rig, synced: &InodeRef, what: &str, change: impl FnOnce(&Filesystem)) {
    let reasons = rig.full(synced, change);
    assert!(reasons.contains(&"layout"), "{what}: {reasons:?}");
}

/// Changes owner, mode, times and names of an inode, with an fsync after each.
fn change_each(rig: &Rig, inode: &InodeRef, name: &str) {
    let root = &rig.root;
    let [first, other] = ["", ".other"].map(|end| format!("{name}{end}").into_bytes());
    let owner = SetAttr {
        uid: Some(7),
        ..SetAttr::default()
    };
    assert_layout(rig, inode, name, |fs| {
        fs.set_attr(inode, &owner, &USER).unwrap();
    });
    assert_layout(rig, inode, name, |fs| {
        fs.link(inode, root, &other, &USER).unwrap();
    });
    assert_layout(rig, root, name, |fs| {
        fs.unlink(root, &first, &USER).unwrap()
    });
    assert_layout(rig, root, name, |fs| {
        let flags = RenameFlags::NoReplace;
        fs.rename(root, &other, root, &first, flags, &USER).unwrap();
    });
}

#[test]
fn special_files_take_full_commits() {
    let rig = Rig::new("fast_commit");
    let (fs, root) = (&rig.fs, &rig.root);
    let node = |name: &[u8], kind| fs.mknod(root, name, kind, 0o600, (5, 300), &USER).unwrap();
    let (short, long) = (b"there".to_vec(), vec![b'x'; 200]);
    let files = [
        ("short", fs.symlink(root, b"short", &short, &USER).unwrap()),
        ("long", fs.symlink(root, b"long", &long, &USER).unwrap()),
        ("fifo", node(b"fifo", FileType::Fifo)),
        ("socket", node(b"socket", FileType::Socket)),
        ("char", node(b"char", FileType::CharDevice)),
        ("block", node(b"block", FileType::BlockDevice)),
    ];
    fs.sync().unwrap();
    for (name, file) in &files {
        change_each(&rig, file, name);
    }
    // The last name of one takes a full commit as well.
    let (last, links) = files[0..2].split_at(1);
    assert_layout(&rig, root, "unlink", |fs| {
        fs.unlink(root, last[0].0.as_bytes(), &USER).unwrap();
    });
    // A read of the link sets its access time.
    let read = |fs: &Filesystem| _ = fs.read_link(&links[0].1).unwrap();
    read(fs);
    let file = rig.file(b"file");
    fs.fsync(&file).unwrap();
    replays_agree(&rig);
}

#[test]
fn block_mapped_files_take_full_commits() {
    let rig = Rig::new("fast_commit,^extent,^64bit,^metadata_csum,^orphan_file");
    let file = rig.file(b"mapped");
    rig.write(&file, 0, 100_000);
    rig.fs.sync().unwrap();
    change_each(&rig, &file, "mapped");
    assert_layout(&rig, &file, "append", |_| rig.write(&file, 100_000, 5000));
    replays_agree(&rig);
}

/// Their inodes have no number of fields, which e2fsck looks for in the record of each inode.
#[test]
fn inodes_from_before_a_wider_table_take_full_commits() {
    let mut made = MkfsOptions::new(Preset::Ext4);
    made.inode_size = Some(128);
    made.features.apply_list("fast_commit").unwrap();
    let device = image::fresh(64, &made);
    let fs = image::mount(&device);
    for name in ["/old", "/other"] {
        fs.paths().write(name, b"content").unwrap();
    }
    fs.unmount().unwrap();
    drop(fs);
    resize::set_inode_size(device.clone(), MountOptions::default(), 256).unwrap();
    let rig = Rig::on(device);
    let [old, other] = [&b"old"[..], b"other"].map(|name| {
        let found = rig.fs.lookup(&rig.root, name, &USER);
        found.unwrap()
    });
    assert_layout(&rig, &other, "append", |fs| {
        let flags = RenameFlags::NoReplace;
        let (root, to) = (&rig.root, b"renamed");
        fs.rename(root, b"old", root, to, flags, &USER).unwrap();
        rig.write(&other, 0, 3000);
    });
    drop(old);
    replays_agree(&rig);
}
