//! Mounts of a file system in a part of an image.

use crate::places::{judge, partitioned};
use crate::rig::{Rig, bytes};
use std::fs;
use uext4_testkit::skip;

const SECTOR_BYTES: u64 = 512;
const START_SECTORS: u64 = 67584;
const LEN_SECTORS: u64 = 65536;

const MBR: &str = "2048,65536,L\n67584,65536,L\n133120,,E\n135168,65536,L\n";
const GPT: &str = "2048,65536\n67584,65536\n133120,65536\n";

fn can_mount() -> bool {
    skip::fuse_or_skip("partitions")
}

/// A disk with a file system in its second partition; `None` without sfdisk or FUSE.
fn disk(label: &str, script: &str) -> Option<Rig> {
    let rig = Rig::empty();
    if !can_mount() || !partitioned(&rig, label, script) {
        return None;
    }
    rig.ok(&["mkfs", "disk.img", "-q", "--partition", "2"]);
    fs::create_dir(rig.path("mnt")).unwrap();
    Some(rig)
}

/// All bytes outside the partition.
fn around(rig: &Rig) -> Vec<u8> {
    let mut all = bytes(&rig.image());
    let part = [START_SECTORS, START_SECTORS + LEN_SECTORS].map(|at| (at * SECTOR_BYTES) as usize);
    all.drain(part[0]..part[1]);
    all
}

#[test]
fn a_partition_is_mounted_by_number_or_place() {
    for (label, script) in [("dos", MBR), ("gpt", GPT)] {
        let Some(rig) = disk(label, script) else {
            return;
        };
        let before = around(&rig);
        let offset = format!("offset={}", START_SECTORS * SECTOR_BYTES);
        for (nr, how) in [
            ["--partition", "2"],
            ["-o", "partition=2"],
            ["-o", &offset],
            ["--offset", "33M"],
        ]
        .into_iter()
        .enumerate()
        {
            rig.ok(&[&["mount"], &how[..], &["disk.img", "mnt"]].concat());
            let greeting = rig.path("mnt/greeting");
            let read = fs::read_to_string(&greeting);
            let written = fs::write(&greeting, "hello".repeat(nr + 1));
            rig.ok(&["umount", "mnt"]);
            written.unwrap();
            assert_eq!(
                read.ok(),
                (nr > 0).then(|| "hello".repeat(nr)),
                "{label} {how:?}"
            );
            judge(&rig, START_SECTORS, LEN_SECTORS);
        }
        assert!(around(&rig) == before, "{label}: it wrote outside");
    }
}

#[test]
fn what_is_left_of_a_disk_that_was_cut_short_is_mounted() {
    for (label, script, cut) in [("dos", MBR, "5"), ("gpt", GPT, "3")] {
        let Some(rig) = disk(label, script) else {
            return;
        };
        let image = fs::File::options().write(true).open(rig.image());
        image.unwrap().set_len(134_000 * SECTOR_BYTES).unwrap();
        rig.ok(&["mount", "--partition", "2", "disk.img", "mnt"]);
        let written = fs::write(rig.path("mnt/greeting"), "hello");
        rig.ok(&["umount", "mnt"]);
        written.unwrap();
        judge(&rig, START_SECTORS, LEN_SECTORS);

        let output = rig.run(&["mount", "--partition", cut, "disk.img", "mnt"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let told = said.contains("past the end of the device") && said.lines().count() == 1;
        assert!(told && output.status.code() == Some(3), "{label}: {said}");
    }
}

#[test]
fn a_wrong_place_is_refused_in_one_sentence() {
    let Some(rig) = disk("gpt", GPT) else {
        return;
    };
    rig.ok(&["mkfs", "plain.img", "--size", "64M", "-q"]);
    let before = bytes(&rig.image());
    for (status, word, options, image) in [
        (3, "no partition 9", "partition=9", "disk.img"),
        (3, "no partition 0", "partition=0", "disk.img"),
        (
            2,
            "-o partition=two: not a number",
            "partition=two",
            "disk.img",
        ),
        (2, "cannot both be", "partition=2,offset=1M", "disk.img"),
        // Places that exist but have no file system.
        (3, "no ext4 file system", "partition=1", "disk.img"),
        (3, "no ext4 file system", "offset=12345", "disk.img"),
        (3, "no ext4 file system", "ro", "disk.img"),
        (2, "past the end", "offset=1G", "disk.img"),
        (2, "-o offset=x", "offset=x", "disk.img"),
        (3, "partition table", "partition=1", "plain.img"),
    ] {
        let output = rig.run(&["mount", "-o", options, image, "mnt"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let what = format!("{options} {image}: {said}");
        assert!(said.contains(word) && said.lines().count() == 1, "{what}");
        assert_eq!(output.status.code(), Some(status), "{what}");
    }
    // An extended partition contains no file system.
    let Some(mbr) = disk("dos", MBR) else {
        return;
    };
    mbr.fails(
        3,
        "disk.img",
        &["mount", "-o", "partition=3", "disk.img", "mnt"],
    );
    assert!(bytes(&rig.image()) == before);
}
