//! Random operations through the mount against a model validated with the kernel's ext4: the same
//! errno for each, the same tree at the end.

use crate::support::Mounted;
use std::os::unix::fs::PermissionsExt;
use uext4_testkit::manifest::{Field, Manifest, Policy};
use uext4_testkit::model::Model;
use uext4_testkit::ops::{HostTarget, Palette, Stream, Target};

const OPS: usize = 3000;

fn compare(seed: u64, block_size: &str) {
    let mut mounted = Mounted::with(&["-b", block_size], &[]);
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(mounted.root(), mode).expect("it is ours");
    std::fs::remove_dir(mounted.path("lost+found")).expect("it is empty");
    let mut mount = HostTarget::new(&mounted.root());
    let mut model = Model::new();
    let mut done = 0;
    for (index, op) in Stream::new(seed, Palette::default()).take(OPS).enumerate() {
        let (expected, found) = (model.run(&op), mount.run(&op));
        assert_eq!(expected, found, "seed {seed}, operation {index}: {op:?}");
        done += usize::from(found.is_ok());
    }
    assert!(done > OPS / 8, "only {done} operations succeeded");
    let policy = Policy::default().ignore(Field::Mtime);
    let expected = model.manifest();
    expected.assert_same(
        &Manifest::of_dir(&mounted.root()).expect("it reads"),
        &policy,
    );
    std::fs::create_dir(mounted.path("lost+found")).expect("its name is free");
    mounted.unmount();
    mounted.mount(&[]);
    let policy = policy.ignore(Field::Root);
    expected.assert_same(
        &Manifest::of_dir(&mounted.root()).expect("it reads"),
        &policy,
    );
    mounted.unmount();
}

#[test]
fn the_mount_answers_like_the_model() {
    for seed in 101..=103 {
        compare(seed, "4096");
    }
}

#[test]
fn the_mount_of_small_blocks_answers_like_the_model() {
    compare(104, "1024");
}
