//! Images that are damaged, foreign, or need their journal replayed.

use crate::rig::{Rig, bytes};
use std::sync::Arc;
use uext4::device::{Access, FileDevice};
use uext4::{Filesystem, MountOptions};
use uext4_testkit::oracle;

/// An image whose journal holds the file `/late`.
fn crashed() -> Rig {
    let rig = Rig::new(&[]);
    let device = Arc::new(FileDevice::open(rig.image(), Access::ReadWrite).expect("opens"));
    let fs = Filesystem::mount(device, MountOptions::default()).expect("mounts");
    fs.paths().write("/late", "in the journal").expect("writes");
    fs.sync().expect("commits");
    fs.abandon();
    rig
}

#[test]
fn reading_replays_in_memory_only() {
    let rig = crashed();
    let before = bytes(&rig.image());
    assert_eq!(rig.ok(&["cat", "disk.img", "/late"]), "in the journal");
    assert!(rig.ok(&["ls", "-l", "disk.img"]).contains("late"));
    rig.ok(&["stat", "disk.img", "/late"]);
    rig.ok(&["extents", "disk.img", "/late"]);
    rig.ok(&["get", "disk.img", "/late", "late"]);
    let info = rig.json(&["info", "--json", "disk.img"]);
    assert_eq!(info["journal"]["needs_recovery"], true);
    assert!(
        bytes(&rig.image()) == before,
        "commands that read do not write"
    );
    assert!(rig.ok(&["replay", "disk.img"]).contains("recovered"));
    rig.assert_clean();
    assert!(rig.debugfs("cat /late").contains("in the journal"));
    let after = bytes(&rig.image());
    assert!(
        rig.ok(&["replay", "disk.img"])
            .contains("nothing to replay")
    );
    assert!(bytes(&rig.image()) == after);
}

#[test]
fn what_is_no_ext4_is_told_apart_from_damage() {
    let rig = Rig::new(&[]);
    std::fs::write(rig.path("zero.img"), vec![0; 1 << 20]).unwrap();
    std::fs::write(rig.path("tiny.img"), "x").unwrap();
    for command in ["ls", "info", "replay"] {
        rig.fails(3, "ext4", &[command, "zero.img"]);
        rig.fails(3, "ext4", &[command, "tiny.img"]);
        rig.fails(1, "No such file", &[command, "nothing.img"]);
    }
    let mut image = bytes(&rig.image());
    image[1024 + 0x68] ^= 1;
    std::fs::write(rig.image(), &image).unwrap();
    rig.fails(4, "superblock", &["ls", "disk.img"]);
}

#[test]
fn a_damaged_directory_is_named() {
    let rig = Rig::new(&[]);
    rig.ok(&["mkdir", "-p", "disk.img", "/dir/sub"]);
    let block: usize = rig
        .debugfs("bmap /dir 0")
        .split_whitespace()
        .last()
        .unwrap()
        .parse()
        .unwrap();
    let mut image = bytes(&rig.image());
    image[block * 1024 + 30] ^= 0x55;
    std::fs::write(rig.image(), &image).unwrap();
    rig.fails(4, "e2fsck", &["ls", "disk.img", "/dir"]);
    assert!(
        rig.ok(&["ls", "disk.img"]).contains("dir"),
        "the rest is readable"
    );
}

#[test]
fn an_unsupported_feature_is_named() {
    let rig = Rig::empty();
    oracle::mke2fs(&rig.image(), 64 << 20, &["-O", "encrypt"]).expect("mke2fs");
    rig.fails(3, "encrypt", &["ls", "disk.img"]);
    assert!(
        rig.ok(&["info", "disk.img"]).contains("encrypt"),
        "info tells about it all the same"
    );
}

#[test]
fn an_image_in_use_is_not_written() {
    let rig = Rig::new(&[]);
    let holder = FileDevice::open(rig.image(), Access::ReadWrite).expect("opens");
    let before = bytes(&rig.image());
    let writers: [&[&str]; 5] = [
        &["mkdir", "disk.img", "/x"],
        &["rm", "disk.img", "/x"],
        &["put", "disk.img", "disk.img", "/x"],
        &["mkfs", "--force", "disk.img"],
        &["chmod", "700", "disk.img", "/"],
    ];
    for args in writers {
        rig.fails(5, "in use", args);
    }
    rig.ok(&["ls", "disk.img"]);
    assert!(bytes(&rig.image()) == before);
    drop(holder);
    rig.ok(&["mkdir", "disk.img", "/x"]);
}
