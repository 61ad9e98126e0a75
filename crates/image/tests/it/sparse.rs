//! Android's sparse format, judged by simg2img.

use uext4_image::{Format, Options, PartitionKind, Table, VerityPlace};

use crate::support::{Rig, SIZE, format, judge, verity, writes};

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// Types of the chunks.
fn chunks(bytes: &[u8]) -> Vec<u16> {
    let mut kinds = Vec::new();
    let mut at = 28;
    while at < bytes.len() {
        kinds.push(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
        at += word(bytes, at + 8) as usize;
    }
    assert_eq!((at, kinds.len()), (bytes.len(), word(bytes, 20) as usize));
    kinds
}

#[test]
fn simg2img_gives_the_raw_image() {
    for seed in 1..8 {
        let (rig, writes) = (Rig::new(), writes(seed));
        let raw = rig.raw("raw", &writes);
        rig.make("sparse", format(Format::AndroidSparse), &writes);
        judge("simg2img", &[], &[&rig.path("sparse"), &rig.path("back")]);
        assert!(rig.bytes("back") == raw, "seed {seed}");
        let kinds = chunks(&rig.bytes("sparse"));
        assert!(
            kinds.contains(&0xCAC1) && kinds.contains(&0xCAC2),
            "{kinds:x?}"
        );
    }
}

/// The chunks follow from the bytes, not from the holes.
#[test]
fn written_zeroes_are_holes() {
    let (rig, mut writes) = (Rig::new(), writes(5));
    rig.make("sparse", format(Format::AndroidSparse), &writes);
    let zeroes = (0..SIZE / 4096).map(|nr| (nr * 4096, vec![0; 4096]));
    let zeroes: Vec<(u64, Vec<u8>)> = zeroes.collect();
    writes.splice(0..0, zeroes);
    rig.make("full", format(Format::AndroidSparse), &writes);
    assert!(rig.bytes("sparse") == rig.bytes("full"));
    rig.make("empty", format(Format::AndroidSparse), &[]);
    assert_eq!(rig.bytes("empty").len(), 28 + 12 + 4);
}

#[test]
fn a_tree_behind_the_file_system_is_inside() {
    let (rig, writes) = (Rig::new(), writes(6));
    rig.make("raw", verity(VerityPlace::Append), &writes);
    let options = Options {
        format: Format::AndroidSparse,
        ..verity(VerityPlace::Append)
    };
    rig.make("sparse", options, &writes);
    judge("simg2img", &[], &[&rig.path("sparse"), &rig.path("back")]);
    assert!(rig.bytes("back") == rig.bytes("raw"));
}

#[test]
fn a_partition_table_is_refused() {
    let rig = Rig::new();
    let options = Options {
        table: Some(Table::one(PartitionKind::Linux)),
        ..format(Format::AndroidSparse)
    };
    let refused = uext4_image::Container::create(&rig.path("disk"), options);
    let said = refused.err().unwrap().to_string();
    assert!(said.contains("no partition table"), "{said}");
    assert!(rig.names().is_empty());
}
