//! Hash trees, judged by veritysetup.

use std::path::Path;

use uext4_image::{Format, Options, PartitionKind, Table, Tree, Verity, VerityPlace};
use uext4_testkit::oracle::Program;

use crate::support::{Rig, SIZE, hex, judge, verity, writes};

/// Whether veritysetup finds the tree right.
fn is_verified(data: &Path, tree_file: &Path, tree: &Tree) -> bool {
    let offset = format!("--hash-offset={}", tree.start_bytes);
    let verify = Program::new("veritysetup").unwrap();
    let verify = verify.arg("verify").arg(data).arg(tree_file);
    let ended = verify.args([&hex(&tree.root_hash), &offset]).run().unwrap();
    ended.code == Some(0)
}

#[test]
fn veritysetup_makes_the_same_tree() {
    for (seed, salt) in [(1, None), (2, Some(vec![])), (3, Some(vec![7; 256]))] {
        let (rig, writes) = (Rig::new(), writes(seed));
        let place = VerityPlace::File(rig.path("tree"));
        let asked = Verity { place, salt };
        let options = Options {
            verity: Some(asked),
            ..Options::default()
        };
        let tree = rig.make("disk", options, &writes).verity.unwrap();
        assert!(is_verified(&rig.path("disk"), &rig.path("tree"), &tree));
        let salt = match tree.salt.is_empty() {
            true => "--salt=-".to_owned(),
            false => format!("--salt={}", hex(&tree.salt)),
        };
        let uuid = format!("--uuid={}", uuid::Uuid::from_bytes(tree.uuid));
        let files = [&*rig.path("disk"), &*rig.path("theirs")];
        let said = judge("veritysetup", &["format", &salt, &uuid], &files);
        assert!(said.contains(&hex(&tree.root_hash)), "{said}");
        assert!(rig.bytes("tree") == rig.bytes("theirs"), "seed {seed}");
    }
}

#[test]
fn a_changed_byte_is_found() {
    let (rig, writes) = (Rig::new(), writes(4));
    let made = rig.make("disk", verity(VerityPlace::Append), &writes);
    let (disk, tree) = (rig.path("disk"), made.verity.unwrap());
    assert!(is_verified(&disk, &disk, &tree));
    assert_eq!(made.disk_bytes, rig.bytes("disk").len() as u64);
    for at in [0, SIZE - 1, SIZE + 4096 + 5, made.disk_bytes - 4096] {
        let mut bytes = rig.bytes("disk");
        bytes[at as usize] ^= 1;
        std::fs::write(rig.path("bad"), bytes).unwrap();
        assert!(
            !is_verified(&rig.path("bad"), &rig.path("bad"), &tree),
            "{at}"
        );
    }
}

#[test]
fn one_tree_in_every_container() {
    let (rig, writes) = (Rig::new(), writes(5));
    let file = |name: &str| verity(VerityPlace::File(rig.path(name)));
    let plain = rig.make("plain", file("a"), &writes).verity;
    let qcow2 = Options {
        format: Format::Qcow2,
        ..file("b")
    };
    let qcow2 = rig.make("qcow2", qcow2, &writes).verity;
    let sparse = Options {
        format: Format::AndroidSparse,
        ..file("c")
    };
    let sparse = rig.make("sparse", sparse, &writes).verity;
    let part = Options {
        table: Some(Table::one(PartitionKind::RootX86_64)),
        ..file("d")
    };
    let part = rig.make("part", part, &writes).verity;
    assert_eq!([&plain; 3], [&qcow2, &sparse, &part]);
    for name in ["b", "c", "d"] {
        assert!(rig.bytes("a") == rig.bytes(name), "{name}");
    }
    let appended = rig.make("behind", verity(VerityPlace::Append), &writes);
    let appended = appended.verity.unwrap();
    assert_eq!(Some(appended.root_hash), plain.map(|tree| tree.root_hash));
}
