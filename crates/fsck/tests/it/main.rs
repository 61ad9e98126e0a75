//! The examples run, and e2fsck judges what they leave.

#[path = "../../examples/check_image.rs"]
#[allow(dead_code, reason = "its main function")]
mod check_image;
#[path = "../../examples/repair_image.rs"]
#[allow(dead_code, reason = "its main function")]
mod repair_image;

mod places;

use std::fs::{self, File};
use std::path::Path;
use uext4_device::{Access, FileDevice};
use uext4_fsck::undo::{UndoOptions, undo};
use uext4_testkit::oracle;

const WRONG_LINKS: &str = "set_inode_field <2> links_count 77";

fn damaged(image: &Path) {
    oracle::mke2fs(image, 32 << 20, &[]).expect("an image");
    oracle::debugfs(image, oracle::Access::Write, &[WRONG_LINKS]).expect("a link count");
}

#[test]
fn a_check_says_what_a_repair_would_do() {
    let dir = oracle::scratch_dir().expect("there is room");
    let image = dir.path().join("image");
    damaged(&image);
    let before = fs::read(&image).expect("an image");
    let mut said = Vec::new();
    check_image::run(&image, &mut said).expect("it can be read");
    let said = String::from_utf8(said).expect("text");
    assert!(said.starts_with("inode.links-wrong: inode 2"), "{said}");
    assert!(said.contains("repaired without a question"), "{said}");
    assert!(said.ends_with("directories\n"), "{said}");
    assert!(
        fs::read(&image).expect("an image") == before,
        "it was changed"
    );
}

#[test]
fn a_repair_is_sound_and_can_be_undone() {
    let dir = oracle::scratch_dir().expect("there is room");
    let (image, kept) = (dir.path().join("image"), dir.path().join("undo"));
    damaged(&image);
    let before = fs::read(&image).expect("an image");
    assert!(repair_image::run(&image, &kept).expect("it can be repaired"));
    oracle::assert_clean(&image);
    assert!(fs::read(&image).expect("an image") != before);
    assert!(repair_image::run(&image, &kept).is_err(), "the file exists");
    let device = FileDevice::open(&image, Access::ReadWrite).expect("the image");
    let file = File::open(&kept).expect("the file");
    undo(&file, &device, UndoOptions::default()).expect("it is complete");
    assert!(
        fs::read(&image).expect("an image") == before,
        "not all of it"
    );
}
