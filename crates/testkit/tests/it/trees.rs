//! Generator, walk and tar against the kernel's ext4.

use std::fs;

use uext4_testkit::manifest::{Field, FileKind, Manifest, Policy};
use uext4_testkit::oracle::{KernelMount, assert_clean, mke2fs_image, scratch_dir};
use uext4_testkit::skip;
use uext4_testkit::tree::{NodeKind, Privilege, Shape, TreeSpec, pack, unpack};

const SEED: u64 = 20_260_721;

#[test]
fn a_seed_gives_one_tree_with_every_oddity() {
    let shape = Shape::new(2_000);
    let spec = TreeSpec::generate(SEED, &shape);
    assert_eq!(spec, TreeSpec::generate(SEED, &shape));
    assert_ne!(spec, TreeSpec::generate(SEED + 1, &shape));
    assert_eq!(spec.nodes.len(), 2_000);
    let manifest = spec.manifest();
    assert_eq!(manifest.entries.len(), 2_000, "paths are unique");
    for kind in [
        FileKind::File,
        FileKind::Directory,
        FileKind::Symlink,
        FileKind::CharDevice,
        FileKind::BlockDevice,
        FileKind::Fifo,
        FileKind::Socket,
    ] {
        assert!(
            manifest.entries.values().any(|entry| entry.kind == kind),
            "no {kind:?}"
        );
    }
    let has = |prefix: &str| {
        let mut names = manifest
            .entries
            .values()
            .flat_map(|entry| entry.xattrs.keys());
        names.any(|name| name.starts_with(prefix.as_bytes()))
    };
    for prefix in [
        "user.",
        "trusted.",
        "security.",
        "system.posix_acl_a",
        "system.posix_acl_d",
    ] {
        assert!(has(prefix), "no {prefix}");
    }
    assert!(
        spec.nodes
            .iter()
            .any(|node| matches!(node.kind, NodeKind::HardLink(_)))
    );
    assert!(
        spec.nodes
            .iter()
            .any(|node| node.attributes.mtime.seconds < 0)
    );
    assert!(
        spec.nodes
            .iter()
            .any(|node| node.attributes.mtime.seconds > u32::MAX.into())
    );
    assert!(
        spec.nodes
            .iter()
            .any(|node| node.path.split(|b| *b == b'/').any(|n| n.len() == 255))
    );
}

#[test]
fn the_kernel_holds_the_tree_and_tar_carries_it() {
    if !KernelMount::available_or_skip("the_kernel_holds_the_tree_and_tar_carries_it") {
        return;
    }
    let spec = TreeSpec::generate(SEED, &Shape::new(2_000));
    let expected = spec.manifest();
    let policy = Policy::default().ignore(Field::Root);
    let (first_owner, first) = mke2fs_image(256 << 20, &["-b", "4096"]).unwrap();
    let (_second_owner, second) = mke2fs_image(256 << 20, &["-b", "4096"]).unwrap();
    let archive = first_owner.path().join("tree.tar");

    let mount = KernelMount::new(&first, "").unwrap();
    spec.apply(mount.path()).unwrap();
    let atime = policy.clone().check(Field::Atime);
    expected.assert_same(&Manifest::of_dir(mount.path()).unwrap(), &policy);
    mount.unmount().unwrap();
    assert_clean(&first);
    let mount = KernelMount::new(&first, "ro,noatime").unwrap();
    let found = Manifest::of_dir(mount.path()).unwrap();
    expected.assert_same(&found, &policy);
    assert!(
        !expected.diff(&found, &atime).is_empty(),
        "the first walk changed access times"
    );
    pack(mount.path(), &archive).unwrap();
    mount.unmount().unwrap();

    let mount = KernelMount::new(&second, "").unwrap();
    unpack(&archive, mount.path()).unwrap();
    let copy = Manifest::of_dir(mount.path()).unwrap();
    found.assert_same(&copy, &Policy::archived());
    mount.unmount().unwrap();
    assert_clean(&second);
}

#[test]
fn small_blocks_hold_a_tree_made_for_them() {
    if !KernelMount::available_or_skip("small_blocks_hold_a_tree_made_for_them") {
        return;
    }
    let spec = TreeSpec::generate(SEED, &Shape::new(500).for_block_size(1024));
    let (_owner, image) = mke2fs_image(128 << 20, &["-b", "1024"]).unwrap();
    let mount = KernelMount::new(&image, "").unwrap();
    spec.apply(mount.path()).unwrap();
    let policy = Policy::default().ignore(Field::Root);
    spec.manifest()
        .assert_same(&Manifest::of_dir(mount.path()).unwrap(), &policy);
    mount.unmount().unwrap();
    assert_clean(&image);
}

#[test]
fn differences_are_seen_and_told() {
    if !skip::root_or_skip("differences_are_seen_and_told") {
        return;
    }
    let dir = scratch_dir().unwrap();
    let shape = Shape {
        privilege: Privilege::User,
        ..Shape::new(200)
    };
    let spec = TreeSpec::generate(SEED, &shape);
    spec.apply(dir.path()).unwrap();
    let before = Manifest::of_dir(dir.path()).unwrap();
    fs::write(dir.path().join("wide/new"), "x").unwrap();
    fs::write(dir.path().join("wide/entry with number 0000003"), "other").unwrap();
    let after = Manifest::of_dir(dir.path()).unwrap();
    let words: Vec<_> = before
        .diff(&after, &Policy::default())
        .iter()
        .map(ToString::to_string)
        .collect();
    assert!(
        words
            .iter()
            .any(|word| word == "\"wide/new\": should not be there"),
        "{words:?}"
    );
    assert!(
        words
            .iter()
            .any(|word| word.contains("0000003\": content hash")),
        "{words:?}"
    );
    assert!(after.diff(&after, &Policy::everything()).is_empty());
}
