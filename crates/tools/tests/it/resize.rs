//! `uext4 resize`: lengths of files, refusals, devices, and resize2fs and the kernel afterwards.

use crate::places::{judge, partitioned};
use crate::rig::{Rig, bytes};
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use uext4_testkit::oracle::{self, KernelMount, LoopDevice};
use uext4_testkit::skip;
use uext4_testkit::tree::{Shape, TreeSpec};

const MIB: u64 = 1 << 20;

fn length(rig: &Rig) -> u64 {
    std::fs::metadata(rig.image()).unwrap().len()
}

fn by_resize2fs(rig: &Rig, size: &str) {
    let output = Command::new("resize2fs")
        .arg(rig.image())
        .arg(size)
        .output();
    let output = output.unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}");
    rig.assert_clean();
}

#[test]
fn a_file_grows_and_stays_sparse() {
    let rig = Rig::new(&[]);
    let start = length(&rig);
    rig.ok(&["mkdir", "disk.img", "/dir"]);
    let planned = rig.json(&["resize", "disk.img", "1T", "--dry-run", "--json"]);
    assert_eq!(planned["dry_run"], true);
    assert_eq!(length(&rig), start);
    let grown = rig.json(&["resize", "disk.img", "1T", "--json"]);
    assert_eq!(grown["after"], planned["after"]);
    assert_eq!(grown["before"]["size_bytes"], start);
    assert_eq!(length(&rig), 1 << 40);
    let used = std::fs::metadata(rig.image()).unwrap().blocks() * 512;
    assert!(used < 128 * MIB, "{used} bytes in use");
    rig.assert_clean();
    assert!(rig.ok(&["ls", "disk.img", "/"]).contains("dir"));
    let said = rig.ok(&["resize", "disk.img"]);
    assert!(said.contains("already"), "{said}");
}

#[test]
fn a_growth_does_not_reach_into_the_next_partition() {
    for (label, script) in [
        ("dos", "2048,131072,L\n133120,65536,L\n"),
        ("gpt", "2048,131072\n133120,65536\n"),
    ] {
        let rig = Rig::empty();
        if !partitioned(&rig, label, script) {
            return;
        }
        rig.ok(&["mkfs", "disk.img", "-q", "--offset", "1M", "--size", "32M"]);
        let before = bytes(&rig.image());
        let at = ["--offset", "1M"];
        for (size, word) in [
            ("65M", "bound of partition 1"),
            ("100M", "partition"),
            ("+1T", "partition"),
        ] {
            rig.fails(1, word, &[&["resize", "disk.img", size], &at[..]].concat());
            rig.fails(
                1,
                word,
                &[&["resize", "disk.img", size, "-n"], &at[..]].concat(),
            );
            assert!(bytes(&rig.image()) == before, "{label} {size}: written");
        }
        if skip::fuse_or_skip("a growth on a mount of a partition") {
            std::fs::create_dir(rig.path("mnt")).unwrap();
            rig.ok(&["mount", "-o", "offset=1M", "disk.img", "mnt"]);
            let refused = rig.run(&["resize", "mnt", "65M"]);
            rig.ok(&["umount", "mnt"]);
            assert_eq!(refused.status.code(), Some(1), "{label}: {refused:?}");
        }
        rig.ok(&[&["resize", "disk.img"], &at[..]].concat());
        let after = bytes(&rig.image());
        assert!(after[65 << 20..] == before[65 << 20..], "{label}: written");
        let info = rig.json(&[&["info", "--json", "disk.img"], &at[..]].concat());
        assert_eq!(info["size_bytes"], 64 << 20, "{label}: {info}");
    }
}

/// Output of a program of util-linux or gdisk on the disk, which must agree.
fn judged(rig: &Rig, name: &'static str, args: &[&str]) -> String {
    let program = oracle::Program::new(name).unwrap().args(args);
    program.arg(rig.image()).run_ok().unwrap().all()
}

#[test]
fn a_partition_of_a_gpt_grows_with_its_file_system() {
    let rig = Rig::empty();
    std::fs::create_dir(rig.path("tree")).unwrap();
    std::fs::write(rig.path("tree/greeting"), "hello").unwrap();
    rig.ok(&[
        "build",
        "disk.img",
        "tree",
        "-q",
        "--partition",
        "gpt",
        "-s",
        "64M",
    ]);
    let before = bytes(&rig.image());
    let planned = rig.ok(&["resize", "disk.img", "+1G", "--partition", "1", "-n"]);
    assert!(
        planned.contains("partition 1 from 64 MiB to 1.1 GiB"),
        "{planned}"
    );
    assert!(bytes(&rig.image()) == before, "a dry run");
    rig.ok(&["resize", "disk.img", "+1G", "--partition", "1"]);
    assert!(length(&rig) > 1088 * MIB && length(&rig).is_multiple_of(MIB));
    let said = judged(&rig, "sgdisk", &["-v"]);
    assert!(said.contains("No problems found"), "{said}");
    let said = judged(&rig, "sfdisk", &["--verify"]);
    assert!(said.contains("No errors detected"), "{said}");
    let info = rig.json(&["info", "--json", "disk.img", "--partition", "1"]);
    assert_eq!(info["size_bytes"], 1088 * MIB);
    assert_eq!(
        rig.ok(&["cat", "disk.img", "--partition", "1", "/greeting"]),
        "hello"
    );
    judge(&rig, 2048, 1088 * 2048);
    // Within the partition, the table stays.
    rig.ok(&["resize", "disk.img", "32M", "--partition", "1", "-q"]);
    let table = bytes(&rig.image())[..1 << 20].to_vec();
    rig.ok(&["resize", "disk.img", "--partition", "1", "-q"]);
    assert!(bytes(&rig.image())[..1 << 20] == table);
    assert_eq!(
        rig.json(&["info", "--json", "disk.img", "--partition", "1"])["size_bytes"],
        1088 * MIB
    );
}

#[test]
fn a_partition_without_room_stays_and_the_steps_are_named() {
    for (label, script, word) in [
        (
            "dos",
            "2048,131072,L\n",
            "of an MBR, whose partitions are not made longer here; `truncate` makes a file longer, \
             `echo ,+ | sfdisk -N 1 disk.img` the partition",
        ),
        (
            "gpt",
            "2048,131072\n133120,65536\n",
            "partition 1 can have 67108864 bytes: behind it is partition 2",
        ),
    ] {
        let rig = Rig::empty();
        if !partitioned(&rig, label, script) {
            return;
        }
        rig.ok(&["mkfs", "disk.img", "-q", "--partition", "1"]);
        let before = bytes(&rig.image());
        rig.fails(1, word, &["resize", "disk.img", "+1M", "--partition", "1"]);
        assert!(bytes(&rig.image()) == before, "{label}");
        let said = rig.ok(&["resize", "disk.img", "--partition", "1"]);
        assert!(said.contains("already"), "{said}");
    }
}

#[test]
fn a_growth_that_brings_few_inodes_says_so() {
    let rig = Rig::empty();
    std::fs::create_dir(rig.path("tree")).unwrap();
    let built = rig.ok(&["build", "disk.img", "tree"]);
    assert!(built.contains(" inodes free"), "{built}");
    let said = rig.ok(&["resize", "disk.img", "4G"]);
    assert!(
        said.contains("note: ") && said.contains("mke2fs would give them"),
        "{said}"
    );
    let usual = Rig::new(&[]);
    let said = usual.ok(&["resize", "disk.img", "4G"]);
    assert!(!said.contains("note: "), "{said}");
}

#[test]
fn resize2fs_and_the_kernel_go_on_from_there() {
    let rig = Rig::new(&[]);
    let start = length(&rig);
    rig.ok(&["resize", "disk.img", "+200M"]);
    assert_eq!(length(&rig), start + 200 * MIB);
    rig.assert_clean();
    by_resize2fs(&rig, "500M");
    rig.ok(&["resize", "disk.img", "700M"]);
    rig.assert_clean();
    if KernelMount::available_or_skip("resize") {
        let kernel = KernelMount::new(&rig.image(), "").unwrap();
        let written = std::fs::write(kernel.path().join("large"), vec![7; 400 << 20]);
        written.unwrap();
        kernel.unmount().unwrap();
        rig.assert_clean();
    }
}

#[test]
fn a_file_becomes_as_short_as_its_file_system() {
    let rig = Rig::new(&[]);
    let start = length(&rig);
    rig.ok(&["mkdir", "disk.img", "/dir"]);
    let planned = rig.json(&["resize", "disk.img", "min", "--dry-run", "--json"]);
    assert_eq!((length(&rig), &planned["dry_run"]), (start, &true.into()));
    let least = planned["after"]["size_bytes"].as_u64().unwrap();
    let less = format!("{}K", least / 1024 - 4);
    rig.fails(1, "cannot be smaller", &["resize", "disk.img", &less]);
    assert_eq!(length(&rig), start);
    let between = (least + (start - least) / 2) / MIB;
    rig.ok(&["resize", "disk.img", &format!("{between}M")]);
    assert_eq!(length(&rig), between * MIB);
    rig.assert_clean();
    let planned = rig.json(&["resize", "disk.img", "min", "--dry-run", "--json"]);
    let done = rig.json(&["resize", "disk.img", "min", "--json"]);
    assert_eq!(done["after"], planned["after"]);
    assert_eq!(done["after"]["size_bytes"], length(&rig));
    // On another way the map of the journal may have a block more.
    assert!(length(&rig) <= least + least / 1000);
    rig.assert_clean();
    assert!(rig.ok(&["ls", "disk.img", "/"]).contains("dir"));
    rig.ok(&["resize", "disk.img", &format!("{}K", start / 1024)]);
    rig.assert_clean();
}

#[test]
fn a_refused_growth_keeps_the_length() {
    let rig = Rig::new(&["-O", "^64bit,^metadata_csum"]);
    let start = length(&rig);
    rig.fails(1, "cannot be smaller than", &["resize", "disk.img", "16K"]);
    rig.fails(1, "32 bits", &["resize", "disk.img", "17T"]);
    rig.fails(
        2,
        "too large",
        &["resize", "disk.img", "+18446744073709551615"],
    );
    let debugfs = Command::new("debugfs")
        .args(["-w", "-R", "set_super_value state 3"])
        .arg(rig.image())
        .output();
    assert!(debugfs.unwrap().status.success());
    rig.fails(4, "marked with errors", &["resize", "disk.img", "100M"]);
    assert_eq!(length(&rig), start);
}

#[test]
fn a_device_must_be_large_enough() {
    if !KernelMount::available_or_skip("resize of a device") {
        return;
    }
    let rig = Rig::new(&[]);
    let start = length(&rig);
    let file = std::fs::OpenOptions::new().write(true).open(rig.image());
    file.unwrap().set_len(start + 64 * MIB).unwrap();
    let device = LoopDevice::attach(&rig.image()).unwrap();
    let name = device.path().to_owned();
    rig.fails(1, "are needed", &["resize", &name, "+65M"]);
    let said = rig.ok(&["resize", &name]);
    assert!(said.contains(" to "), "{said}");
    drop(device);
    oracle::assert_clean(&rig.image());
    let info = rig.json(&["resize", "disk.img", "--dry-run", "--json"]);
    assert_eq!(info["after"]["size_bytes"], start + 64 * MIB);
}

/// An image that was used in between becomes as small as a new one of the same tree, within 1 %.
#[test]
fn the_minimum_is_that_of_a_new_image() {
    if !skip::root_or_skip("the_minimum_is_that_of_a_new_image") {
        return;
    }
    for seed in 0..4 {
        let rig = Rig::empty();
        let tree = rig.path("top/tree");
        std::fs::create_dir_all(&tree).unwrap();
        let spec = TreeSpec::generate(seed, &Shape::new(400));
        spec.apply(&tree).unwrap();
        rig.ok(&[
            "build",
            "disk.img",
            "top",
            "--size",
            "min",
            "--journal",
            "4M",
        ]);
        let new = length(&rig);
        rig.ok(&["resize", "disk.img", "+160M", "-q"]);
        rig.ok(&["put", "-r", "disk.img", "top/tree", "/again"]);
        rig.ok(&["rm", "-r", "disk.img", "/tree"]);
        rig.ok(&["resize", "disk.img", "min", "-q"]);
        rig.assert_clean();
        let used = length(&rig);
        eprintln!("seed {seed}: {new} bytes new, {used} after use");
        assert!(used <= new + new / 100, "seed {seed}: {used}, not {new}");
    }
}
