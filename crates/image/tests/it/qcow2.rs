//! qcow2, judged by qemu-img.

use uext4_device::{BlockDevice, NewFile};
use uext4_image::{Format, Options, PartitionKind, Qcow2, Table};
use uext4_testkit::oracle::Program;

use crate::support::{Rig, format, judge, writes};

#[test]
fn qemu_finds_no_fault_and_the_same_bytes() {
    for seed in 1..8 {
        let (rig, writes) = (Rig::new(), writes(seed));
        rig.raw("raw", &writes);
        rig.make("disk", format(Format::Qcow2), &writes);
        let (disk, raw) = (rig.path("disk"), rig.path("raw"));
        let said = judge("qemu-img", &["check", "-f", "qcow2"], &[&disk]);
        assert!(said.contains("No errors were found"), "seed {seed}: {said}");
        let said = judge("qemu-img", &["compare"], &[&disk, &raw]);
        assert!(said.contains("identical"), "seed {seed}: {said}");
    }
}

#[test]
fn qemu_sees_a_changed_byte_and_a_lost_reference() {
    let (rig, writes) = (Rig::new(), writes(9));
    rig.raw("raw", &writes);
    rig.make("disk", format(Format::Qcow2), &writes);
    let whole = rig.bytes("disk");
    let damaged = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        std::fs::write(rig.path("bad"), bytes).unwrap();
        let (bad, raw) = (rig.path("bad"), rig.path("raw"));
        let run = |args: &[&str], files: &[&std::path::Path]| {
            let program = Program::new("qemu-img").unwrap().args(args).args(files);
            program.run().unwrap().code
        };
        (
            run(&["check", "-f", "qcow2"], &[&bad]),
            run(&["compare"], &[&bad, &raw]),
        )
    };
    let data = whole
        .iter()
        .skip(65536)
        .position(|byte| *byte == 1)
        .unwrap();
    assert_eq!(damaged(65536 + data), (Some(0), Some(1)));
    // The table of refcount blocks is the last cluster.
    let refcounts = whole.len() - 2 * 65536;
    assert_ne!(damaged(refcounts + 1).0, Some(0));
}

#[test]
fn the_same_writes_give_the_same_bytes_and_holes_take_no_place() {
    let (rig, writes) = (Rig::new(), writes(3));
    rig.make("a", format(Format::Qcow2), &writes);
    rig.make("b", format(Format::Qcow2), &writes);
    assert!(rig.bytes("a") == rig.bytes("b"));
    rig.make("empty", format(Format::Qcow2), &[]);
    // Header, L1, refcounts and their table.
    assert_eq!(rig.bytes("empty").len(), 4 << 16);
    judge("qemu-img", &["check", "-q"], &[&rig.path("empty")]);
}

/// Tables that fill more than a cluster, and more than one block of refcounts.
#[test]
fn large_disks() {
    let rig = Rig::new();
    let size: u64 = 6 << 40;
    let disk = Qcow2::new(NewFile::create(&rig.path("disk"), 1 << 60).unwrap());
    // 33,000 clusters: one byte each.
    for nr in 0..33_000 {
        disk.write_at(nr * 65_536 + 7, &[9]).unwrap();
    }
    disk.write_at(size - 4, &[1; 4]).unwrap();
    let mut read = [0; 10];
    disk.read_at(size - 10, &mut read).unwrap();
    assert_eq!(read, [0, 0, 0, 0, 0, 0, 1, 1, 1, 1]);
    disk.keep(size).unwrap();
    let path = rig.path("disk");
    judge("qemu-img", &["check", "-q"], &[&path]);
    let map = judge("qemu-img", &["map", "--output=human"], &[&path]);
    assert!(map.lines().count() >= 3, "{map}");
    let read = ["-r", "-f", "qcow2", "-c", "read -P 1 6597069766652 4"];
    let said = judge("qemu-io", &read, &[&path]);
    assert!(said.contains("read 4/4 bytes"), "{said}");
}

#[test]
fn a_partition_in_qcow2_is_that_of_raw() {
    let (rig, writes) = (Rig::new(), writes(4));
    let options = |format| Options {
        format,
        table: Some(Table::one(PartitionKind::Linux)),
        ..Options::default()
    };
    rig.make("raw", options(Format::Raw), &writes);
    rig.make("disk", options(Format::Qcow2), &writes);
    let (disk, raw) = (rig.path("disk"), rig.path("raw"));
    judge("qemu-img", &["check", "-q"], &[&disk]);
    let said = judge("qemu-img", &["compare"], &[&disk, &raw]);
    assert!(said.contains("identical"), "{said}");
}
