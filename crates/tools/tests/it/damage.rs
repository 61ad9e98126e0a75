//! Damaged images, images without ext4, and images that need a journal replay.

use crate::rig::{Rig, bytes};
use std::sync::Arc;
use uext4::device::{Access, FileDevice};
use uext4::{Filesystem, MountOptions};
use uext4_testkit::{oracle, skip};

/// An image whose journal holds the file `/late`.
pub(crate) fn crashed() -> Rig {
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
    if !skip::root_or_skip("reading_replays_in_memory_only") {
        return;
    }
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
    rig.fails(4, "uext4 fsck", &["ls", "disk.img", "/dir"]);
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

/// Directory entries of free and reserved inodes: every reading command reports them.
#[test]
fn names_of_free_and_reserved_inodes_are_damage() {
    let rig = Rig::new(&[]);
    rig.ok(&["mkdir", "disk.img", "/dir"]);
    std::fs::write(rig.path("src"), "x").unwrap();
    rig.ok(&["put", "disk.img", "src", "/file"]);
    let stat = rig.json(&["stat", "--json", "disk.img", "/file"]);
    rig.ok(&["rm", "disk.img", "/file"]);
    let image = rig.image();
    for (nr, word) in [(stat["inode"].as_u64().unwrap(), "block"), (8, "itself")] {
        let link = format!("link <{nr}> /dir/evil");
        oracle::debugfs(&image, oracle::Access::Write, &[link]).expect("debugfs writes");
        for command in ["cat", "stat", "rm", "ls"] {
            rig.fails(4, word, &[command, "disk.img", "/dir/evil"]);
        }
        rig.fails(4, word, &["ls", "-l", "disk.img", "/dir"]);
        rig.fails(4, "evil", &["check", "disk.img"]);
        for options in ["untrusted", "untrusted,rw"] {
            std::fs::create_dir_all(rig.path("mnt")).unwrap();
            rig.fails(
                4,
                "directory entry",
                &["mount", "-o", options, "disk.img", "mnt"],
            );
        }
        oracle::debugfs(&image, oracle::Access::Write, &["unlink /dir/evil"]).unwrap();
        oracle::e2fsck_repair(&image, oracle::Repair::Everything).expect("e2fsck runs");
    }
}

/// The error names the content found instead, and a remedy.
#[test]
fn what_holds_no_ext4_is_told_by_its_name() {
    let rig = Rig::new(&[]);
    let run = |program: &str, args: &[&str]| {
        let done = std::process::Command::new(program)
            .current_dir(rig.path(""))
            .args(args)
            .output();
        let done = done.unwrap_or_else(|error| panic!("{program}: {error}"));
        assert!(done.status.success(), "{program} {args:?}");
    };
    run("gzip", &["-k1", "disk.img"]);
    run("truncate", &["-s", "4M", "swap.img"]);
    run("mkswap", &["swap.img"]);
    run("truncate", &["-s", "16M", "none.img"]);
    for (image, word) in [
        ("disk.img.gz", "gunzip"),
        ("swap.img", "swap space"),
        ("none.img", "zeroes only"),
    ] {
        for command in ["ls", "info", "check", "replay"] {
            rig.fails(3, word, &[command, image]);
        }
    }
    // A disk with a partition, and an image of several groups without its primary superblock.
    let mut disk = vec![0_u8; 1 << 20];
    disk.extend(bytes(&rig.image()));
    disk[510..512].copy_from_slice(&[0x55, 0xAA]);
    disk[446 + 4] = 0x83;
    disk[446 + 8..446 + 12].copy_from_slice(&2048_u32.to_le_bytes());
    disk[446 + 12..446 + 16].copy_from_slice(&(64 * 2048_u32).to_le_bytes());
    std::fs::write(rig.path("disk"), disk).unwrap();
    rig.fails(3, "--partition 1", &["ls", "disk"]);
    rig.ok(&["ls", "--partition", "1", "disk"]);
    run(
        "mke2fs",
        &["-q", "-F", "-t", "ext4", "-b", "1024", "lost.img", "32M"],
    );
    let mut lost = bytes(&rig.path("lost.img"));
    lost[1024..2048].fill(0);
    std::fs::write(rig.path("lost.img"), lost).unwrap();
    let advice = "uext4 fsck -y -b 8193 -B 1024";
    rig.fails(3, advice, &["ls", "lost.img"]);
    let words: Vec<&str> = advice.split(' ').skip(1).chain(["lost.img"]).collect();
    assert_eq!(rig.run(&words).status.code(), Some(1));
    rig.ok(&["ls", "lost.img"]);
}

/// The place of a finding is where debugfs made the damage.
#[test]
fn findings_name_their_place() {
    for (command, place, number) in [
        ("set_bg 1 free_blocks_count 7", "group", 1),
        ("set_inode_field <11> links_count 5", "inode", 11),
        ("set_super_value inodes_count 5", "block", 0),
    ] {
        let rig = Rig::new(&[]);
        oracle::debugfs(&rig.image(), oracle::Access::Write, &[command]).expect("debugfs writes");
        let output = rig.run(&["check", "--json", "disk.img"]);
        let told: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        for name in ["block", "group", "inode"] {
            let is_place = told["findings"][0][name] == number;
            assert_eq!(is_place, name == place, "{command}: {told}");
        }
    }
    // Used in the bitmap, and empty: two findings, of which one is shown.
    let rig = Rig::new(&[]);
    oracle::debugfs(&rig.image(), oracle::Access::Write, &["seti <20>"]).expect("debugfs writes");
    let output = rig.run(&["check", "--max", "1", "disk.img"]);
    let told = String::from_utf8(output.stdout).expect("text");
    assert!(
        told.starts_with("inode 20: ") && told.ends_with("and 1 more\n"),
        "{told}"
    );
    let said = String::from_utf8(output.stderr).expect("text");
    assert!(
        said.contains("damaged, 2 findings, the first: inode 20: "),
        "{said}"
    );
}
