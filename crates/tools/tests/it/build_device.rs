//! `uext4 build` onto a block device, in place.

use crate::rig::Rig;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};
use uext4_testkit::oracle::{self, KernelMount, LoopDevice};
use uext4_testkit::wait;

const BYTES: u64 = 48 << 20;
/// Offset and bytes of the mark of a superblock.
const MAGIC: (u64, [u8; 2]) = (1080, [0x53, 0xEF]);

/// A loop device of noise, and a tree of some files.
fn device(rig: &Rig) -> LoopDevice {
    std::fs::write(rig.image(), vec![0xB3; BYTES as usize]).unwrap();
    std::fs::create_dir_all(rig.path("tree/d")).unwrap();
    for nr in 0..200 {
        std::fs::write(rig.path(&format!("tree/d/{nr}")), vec![7; 97 * nr]).unwrap();
    }
    LoopDevice::attach(&rig.image()).expect("a loop device")
}

fn has_superblock(device: &LoopDevice) -> bool {
    device.forget().unwrap();
    let mut found = [0; 2];
    let file = File::open(device.path()).unwrap();
    file.read_exact_at(&mut found, MAGIC.0).unwrap();
    found == MAGIC.1
}

fn blocks(device: &LoopDevice) -> u64 {
    device.forget().unwrap();
    let header = oracle::dumpe2fs(Path::new(device.path())).unwrap();
    header.text("Block count").unwrap().parse().unwrap()
}

fn assert_same_tree(rig: &Rig, device: &LoopDevice) {
    oracle::assert_clean(&rig.image());
    let mount = device.mount("ro").expect("the kernel mounts it");
    let diff = Command::new("diff")
        .args(["-r", "-x", "lost+found"])
        .args([rig.path("tree"), mount.path().to_owned()])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&diff.stdout).into_owned();
    assert!(diff.status.success(), "{said}");
}

#[test]
fn a_block_device_is_written_in_place() {
    if !KernelMount::available_or_skip("a_block_device_is_written_in_place") {
        return;
    }
    let rig = Rig::empty();
    let device = device(&rig);
    let out = device.path();
    rig.ok(&["build", out, "tree", "-q"]);
    assert_same_tree(&rig, &device);
    assert_eq!(blocks(&device), BYTES >> 12, "all of the device");
    rig.fails(1, "holds an ext2", &["build", out, "tree", "-q"]);
    for (size, block_size) in [("24M", "1K"), ("min", "4K"), ("24M", "4K")] {
        rig.ok(&[
            "build",
            out,
            "tree",
            "-q",
            "-F",
            "-s",
            size,
            "-b",
            block_size,
            "-O",
            "inline_data",
        ]);
        assert_same_tree(&rig, &device);
        assert!(blocks(&device) <= 24 << 10, "{size}");
    }
    rig.fails(
        2,
        "does not fit",
        &["build", out, "tree", "-q", "-F", "-s", "1G"],
    );
    rig.fails(1, "missing", &["build", out, "missing", "-q", "-F"]);
    assert!(has_superblock(&device), "refused before the first write");
}

#[test]
fn a_device_in_use_is_refused() {
    if !KernelMount::available_or_skip("a_device_in_use_is_refused") {
        return;
    }
    let rig = Rig::empty();
    let device = device(&rig);
    rig.ok(&["build", device.path(), "tree", "-q"]);
    let mount = device.mount("rw").expect("the kernel mounts it");
    rig.fails(5, "in use", &["build", device.path(), "tree", "-q", "-F"]);
    drop(mount);
    assert_same_tree(&rig, &device);
}

#[test]
fn a_failed_or_killed_build_leaves_no_superblock() {
    if !KernelMount::available_or_skip("a_failed_or_killed_build_leaves_no_superblock") {
        return;
    }
    let rig = Rig::empty();
    let device = device(&rig);
    let out = device.path();
    std::fs::create_dir(rig.path("large")).unwrap();
    std::fs::write(rig.path("large/file"), vec![9; BYTES as usize]).unwrap();
    for block_size in ["1K", "4K"] {
        rig.ok(&["build", out, "tree", "-q", "-F", "-b", block_size]);
        rig.fails(
            1,
            "larger size",
            &["build", out, "large", "-q", "-F", "-b", block_size],
        );
        assert!(!has_superblock(&device), "failed, {block_size}");
        rig.ok(&["build", out, "tree", "-q", "-F", "-b", block_size]);
        assert!(has_superblock(&device));
        let args = ["build", out, "-", "-q", "-F", "-b", block_size];
        let mut child = rig.start(&args, Stdio::piped());
        wait::until_true("the old superblock is gone", || !has_superblock(&device));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!has_superblock(&device), "killed, {block_size}");
    }
}
