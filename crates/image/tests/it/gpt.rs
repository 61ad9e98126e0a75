//! Partition tables, judged by sfdisk, sgdisk and partx.

use uext4_image::{Options, PartitionKind, Table, VerityPlace};
use uext4_testkit::oracle::Program;

use crate::support::{Rig, SIZE, judge, verity, writes};

fn options(kind: PartitionKind) -> Options {
    Options {
        table: Some(Table::one(kind)),
        ..Options::default()
    }
}

#[test]
fn sgdisk_and_sfdisk_find_no_fault() {
    let kinds = [
        (PartitionKind::Linux, "0FC63DAF-8483-4772-8E79-3D69D8477DE4"),
        (
            PartitionKind::RootX86_64,
            "4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709",
        ),
        (
            PartitionKind::RootArm64,
            "B921B045-1DF0-41C3-AF44-4C6F280D3FAE",
        ),
    ];
    for (kind, guid) in kinds {
        let (rig, writes) = (Rig::new(), writes(1));
        let raw = rig.raw("raw", &writes);
        let made = rig.make("disk", options(kind), &writes);
        let disk = rig.path("disk");
        let said = judge("sgdisk", &["-v"], &[&disk]);
        assert!(said.contains("No problems found"), "{said}");
        let said = judge("sfdisk", &["--verify"], &[&disk]);
        assert!(said.contains("No errors detected"), "{said}");
        let said = judge("sgdisk", &["-i", "1"], &[&disk]);
        let own = &made.partitions[0].uuid;
        assert!(
            said.contains(guid) && said.contains(&own.to_uppercase()),
            "{said}"
        );
        let bytes = rig.bytes("disk");
        assert!(bytes[1 << 20..][..raw.len()] == raw);
        assert_eq!(
            (bytes.len() as u64, bytes.len() % (1 << 20)),
            (made.disk_bytes, 0)
        );
        rig.make("again", options(kind), &writes);
        assert!(rig.bytes("again") == bytes);
    }
}

#[test]
fn a_changed_table_is_found() {
    let rig = Rig::new();
    rig.make("disk", options(PartitionKind::Linux), &[]);
    let mut bytes = rig.bytes("disk");
    bytes[1024 + 40] ^= 1;
    std::fs::write(rig.path("bad"), bytes).unwrap();
    let said = Program::new("sgdisk")
        .unwrap()
        .arg("-v")
        .arg(rig.path("bad"));
    let said = said.run().unwrap().all();
    assert!(!said.contains("No problems found"), "{said}");
}

/// As the kernel would: `partx` tells it the partitions.
#[test]
fn partx_finds_the_partition() {
    let rig = Rig::new();
    rig.make("disk", options(PartitionKind::Linux), &writes(2));
    let args = ["--raw", "--noheadings", "--output", "NR,START,SECTORS,NAME"];
    let said = judge("partx", &args, &[&rig.path("disk")]);
    assert_eq!(said.trim(), format!("1 2048 {} root", SIZE / 512));
}

#[test]
fn a_tree_behind_the_file_system_is_in_the_partition() {
    let (rig, writes) = (Rig::new(), writes(3));
    let plain = rig.make("plain", verity(VerityPlace::Append), &writes);
    let both = Options {
        table: Some(Table::one(PartitionKind::Linux)),
        ..verity(VerityPlace::Append)
    };
    let made = rig.make("disk", both, &writes);
    assert_eq!(made.partitions[0].size_bytes, plain.disk_bytes);
    assert!(rig.bytes("disk")[1 << 20..].starts_with(&rig.bytes("plain")));
}
