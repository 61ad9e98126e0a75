//! The kernel's ext4 validates the model.

use std::os::unix::fs::PermissionsExt;

use uext4_testkit::manifest::{Field, Manifest, Policy};
use uext4_testkit::model::Model;
use uext4_testkit::ops::{HostTarget, Op, Palette, RenameHow, Stream, Target, from_json, to_json};
use uext4_testkit::oracle::{KernelMount, assert_clean, mke2fs_image};

const OPS: usize = 4_000;

#[test]
fn the_model_answers_like_the_kernel() {
    if !KernelMount::available_or_skip("the_model_answers_like_the_kernel") {
        return;
    }
    for seed in 1..=12 {
        compare_stream(seed);
    }
}

fn compare_stream(seed: u64) {
    let (_owner, image) = mke2fs_image(64 << 20, &["-b", "1024"]).unwrap();
    let mount = KernelMount::new(&image, "").unwrap();
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(mount.path(), mode).unwrap();
    std::fs::remove_dir(mount.path().join("lost+found")).unwrap();
    let mut kernel = HostTarget::new(mount.path());
    let mut model = Model::new();
    let mut done = 0;
    for (index, op) in Stream::new(seed, Palette::default()).take(OPS).enumerate() {
        let (expected, found) = (model.run(&op), kernel.run(&op));
        assert_eq!(expected, found, "seed {seed}, operation {index}: {op:?}");
        done += usize::from(found.is_ok());
    }
    assert!(done > OPS / 8, "only {done} operations succeeded");
    let policy = Policy::default().ignore(Field::Mtime);
    model
        .manifest()
        .assert_same(&Manifest::of_dir(mount.path()).unwrap(), &policy);
    mount.unmount().unwrap();
    assert_clean(&image);
}

#[test]
fn operations_survive_json() {
    let ops: Vec<Op> = Stream::new(9, Palette::default()).take(500).collect();
    assert_eq!(from_json(&to_json(&ops)).unwrap(), ops);
    let again: Vec<Op> = Stream::new(9, Palette::default()).take(500).collect();
    assert_eq!(ops, again);
}

/// A directory cannot move below itself; an existing name is reported before that.
#[test]
fn the_model_tells_errors_of_a_rename_in_the_order_of_the_kernel() {
    if !KernelMount::available_or_skip("errors of a rename") {
        return;
    }
    let (_owner, image) = mke2fs_image(16 << 20, &["-b", "1024"]).unwrap();
    let mount = KernelMount::new(&image, "").unwrap();
    let mut kernel = HostTarget::new(mount.path());
    let mut model = Model::new();
    let mode = 0o755;
    for path in ["a", "a/b", "a/b/c", "d"] {
        let path = path.into();
        let made = Op::Mkdir { path, mode };
        kernel.run(&made).unwrap();
        model.run(&made).unwrap();
    }
    use RenameHow::{Exchange, NoReplace, Replace, Whiteout, WhiteoutNoReplace};
    let pairs = [
        "a a/a",
        "a a/b",
        "a/b a",
        "a a/b/c",
        "a/b/c a",
        "a/b a/b/c",
        "a a/b/x",
        "a a",
    ];
    for pair in pairs {
        let (from, to) = pair.split_once(' ').unwrap();
        for how in [Replace, NoReplace, Exchange, Whiteout, WhiteoutNoReplace] {
            let (from, to) = (from.into(), to.into());
            let op = Op::Rename { from, to, how };
            assert_eq!(model.run(&op), kernel.run(&op), "{pair}: {op:?}");
        }
    }
    mount.unmount().unwrap();
}
