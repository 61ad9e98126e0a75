//! Each oracle accepts a sound image and rejects a damaged one.

use std::fs;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use uext4_testkit::oracle::{
    Access, KernelMount, Repair, assert_clean, debugfs, debugfs_one, dumpe2fs, e2fsck,
    e2fsck_repair, mke2fs_image,
};
use uext4_testkit::wait;

const SIZE_BYTES: u64 = 16 << 20;

#[test]
fn fresh_image_is_clean_and_described() {
    let (_owner, image) = mke2fs_image(SIZE_BYTES, &["-b", "1024", "-L", "kit"]).unwrap();
    assert_clean(&image);
    let header = dumpe2fs(&image).unwrap();
    assert_eq!(header.number("Block size").unwrap(), 1024);
    assert_eq!(header.text("Filesystem volume name").unwrap(), "kit");
    assert!(header.has_feature("metadata_csum"));
}

#[test]
fn e2fsck_sees_and_repairs_damage() {
    let (_owner, image) = mke2fs_image(SIZE_BYTES, &[]).unwrap();
    debugfs(
        &image,
        Access::Write,
        &["set_inode_field <2> links_count 77"],
    )
    .unwrap();
    let verdict = e2fsck(&image).unwrap();
    assert!(
        !verdict.is_clean() && !verdict.problems().is_empty(),
        "{verdict}"
    );
    assert!(
        e2fsck_repair(&image, Repair::Everything)
            .unwrap()
            .is_repaired()
    );
    assert_clean(&image);
}

#[test]
fn e2fsck_cannot_judge_without_a_superblock() {
    let (_owner, image) = mke2fs_image(SIZE_BYTES, &[]).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&image).unwrap();
    file.set_len(0).unwrap();
    file.set_len(SIZE_BYTES).unwrap();
    assert!(e2fsck(&image).unwrap().is_operational_error());
}

#[test]
fn debugfs_answers() {
    let (_owner, image) = mke2fs_image(SIZE_BYTES, &[]).unwrap();
    assert!(
        debugfs_one(&image, "stat <2>")
            .unwrap()
            .contains("Type: directory")
    );
    let missing = tempfile::NamedTempFile::new().unwrap();
    assert!(debugfs_one(missing.path(), "stat <2>").is_err());
}

#[test]
fn kernel_mount_lets_go_also_in_a_panic() {
    if !KernelMount::available_or_skip("kernel_mount_lets_go_also_in_a_panic") {
        return;
    }
    let (_owner, image) = mke2fs_image(SIZE_BYTES, &[]).unwrap();
    let mount = KernelMount::new(&image, "").unwrap();
    fs::write(mount.path().join("file"), "content").unwrap();
    mount.unmount().unwrap();
    assert_clean(&image);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let mount = KernelMount::new(&image, "ro").unwrap();
        assert_eq!(fs::read(mount.path().join("file")).unwrap(), b"content");
        std::panic::resume_unwind(Box::new(mount.path().to_path_buf()));
    }));
    let dir = *outcome
        .unwrap_err()
        .downcast::<std::path::PathBuf>()
        .unwrap();
    assert!(!dir.exists());
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    assert!(!mounts.contains(dir.to_str().unwrap()));
}

#[test]
fn kernel_refuses_what_is_no_file_system() {
    if !KernelMount::available_or_skip("kernel_refuses_what_is_no_file_system") {
        return;
    }
    let (_owner, image) = mke2fs_image(SIZE_BYTES, &[]).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&image).unwrap();
    file.write_all_at(&[0; 1024], 1024).unwrap();
    assert!(KernelMount::new(&image, "").is_err());
}

#[test]
fn a_busy_kernel_mount_is_detached_lazily() {
    if !KernelMount::available_or_skip("a_busy_kernel_mount_is_detached_lazily") {
        return;
    }
    let (_owner, image) = mke2fs_image(SIZE_BYTES, &[]).unwrap();
    let mount = KernelMount::new(&image, "").unwrap();
    let backing = format!("/sys/block/{}/loop/backing_file", &mount.loop_device()[5..]);
    let dir = mount.path().to_path_buf();
    let file = fs::File::create(mount.path().join("open")).unwrap();
    assert!(mount.unmount().is_err(), "a busy mount must be told");
    assert!(!dir.exists());
    assert!(
        fs::read_to_string(&backing)
            .unwrap()
            .contains(image.to_str().unwrap())
    );
    drop(file);
    let is_ours = |text: String| text.contains(image.to_str().unwrap());
    let is_free = || !fs::read_to_string(&backing).is_ok_and(is_ours);
    wait::until_true("the loop device is free", is_free);
    assert_clean(&image);
}
