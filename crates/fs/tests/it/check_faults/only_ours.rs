//! Faults that our check reports and e2fsck does not. The kernel, as the judge, refuses the mount,
//! the inode or its attributes.

use super::image::{ENTRY, Image, MAP};
use super::lists::explain;
use crate::check::checked;
use std::path::Path;
use std::process::Command;
use uext4::check::Limits;
use uext4_testkit::oracle::{self, KernelMount};

const EUCLEAN: i32 = 117;
const EIO: i32 = 5;
/// Without checksums, so that a changed byte is not hidden by a checksum error.
const PLAIN: &[&str] = &["-b", "1024", "-O", "ea_inode,^metadata_csum"];
/// Byte offsets of inode fields.
const FILE_ACL: u64 = 0x68;
const EXTRA_SIZE: u64 = 0x80;
const DEPTH: u64 = MAP + 6;

/// A sound image; `None` without a kernel to judge.
fn image(test: &str) -> Option<Image> {
    KernelMount::available_or_skip(test).then(|| Image::new(PLAIN))
}

impl Image {
    /// Only our check reports it, with this problem and its consequences.
    fn assert_only_ours(&self, structure: &str, problem: &str) {
        let verdict = oracle::e2fsck(&self.path).expect("e2fsck runs");
        assert!(verdict.is_silent(), "{problem}: {verdict}");
        let report = checked(&self.path, &Limits::default()).expect("it can be read");
        let mut findings = report.findings.iter().map(|finding| &finding.corrupt);
        let is_said =
            findings.any(|found| (found.structure, found.problem.phrase()) == (structure, problem));
        assert!(is_said, "{structure}: {problem}: {report:?}");
        assert_eq!(explain(&report), Ok(vec![problem]), "{problem}");
    }

    fn assert_no_mount(&self) {
        let mounted = KernelMount::new(&self.path, "");
        assert!(mounted.is_err(), "the kernel mounts it");
    }

    /// The kernel mounts the image and reports `name` as damaged.
    fn assert_refused<T>(
        &self,
        name: &str,
        try_it: impl Fn(&Path) -> Result<T, rustix::io::Errno>,
    ) {
        let mounted = KernelMount::new(&self.path, "").expect("the kernel mounts it");
        let tried = try_it(&mounted.path().join(name)).map(drop);
        mounted.unmount().expect("it unmounts");
        let errno = tried.expect_err("the kernel takes it").raw_os_error();
        // Errors of page cache reads are EIO.
        assert!([EUCLEAN, EIO].contains(&errno), "{name}: {errno}");
    }
}

fn stat(path: &Path) -> Result<(), rustix::io::Errno> {
    rustix::fs::lstat(path).map(drop)
}

fn read(path: &Path) -> Result<(), rustix::io::Errno> {
    let read = std::fs::read(path).map(drop);
    read.map_err(|error| rustix::io::Errno::from_io_error(&error).expect("an errno"))
}

fn list(path: &Path) -> Result<(), rustix::io::Errno> {
    rustix::fs::listxattr(path, &mut [0_u8; 4096][..]).map(drop)
}

fn large_value(path: &Path) -> Result<(), rustix::io::Errno> {
    rustix::fs::getxattr(path, "user.large", &mut [0_u8; 10_000][..]).map(drop)
}

#[test]
fn logs_that_begin_outside_are_refused() {
    for (field, feature, problem) in [
        (0x14, "-needs_recovery", "first block is outside the log"),
        (0x1C, "needs_recovery", "start is outside the log"),
    ] {
        let Some(image) = image("logs_that_begin_outside_are_refused") else {
            return;
        };
        let recovery = format!("feature {feature}");
        oracle::debugfs(&image.path, oracle::Access::Write, &[&recovery]).expect("debugfs writes");
        image.put(image.block("<8>") + field, &[0x7F]);
        image.assert_only_ours("journal superblock", problem);
        image.assert_no_mount();
    }
}

#[test]
fn nodes_of_a_wrong_depth_are_refused() {
    let Some(image) = image("nodes_of_a_wrong_depth_are_refused") else {
        return;
    };
    let name = "wide/a name in a directory with an index 1";
    let empty = image.inode(&format!("\"/{name}\"")) + DEPTH;
    image.put(empty, &[1]);
    image.assert_only_ours("extent header", "inner node without entries");
    image.assert_refused(name, stat);
    image.put(empty, &[0]);
    image.put(image.child("/holes") + DEPTH - MAP, &[7]);
    image.assert_only_ours("extent header", "unexpected depth");
    image.assert_refused("holes", read);
}

#[test]
fn values_that_no_inode_may_hold_are_refused() {
    let Some(image) = image("values_that_no_inode_may_hold_are_refused") else {
        return;
    };
    image.put(image.inode(&image.value_inode()) + FILE_ACL, &[0xFF; 4]);
    image.assert_only_ours("value inode", "it has attributes of its own");
    image.assert_refused("large", large_value);
}

#[test]
fn values_in_inodes_without_the_feature_are_refused() {
    let Some(image) = image("values_in_inodes_without_the_feature_are_refused") else {
        return;
    };
    let without = "feature -ea_inode";
    oracle::debugfs(&image.path, oracle::Access::Write, &[without]).expect("debugfs writes");
    image.assert_only_ours("xattr entry", "no inode can hold its value");
    image.assert_refused("large", large_value);
}

#[test]
fn a_value_of_another_size_is_refused() {
    let Some(image) = image("a_value_of_another_size_is_refused") else {
        return;
    };
    image.put(image.inode("/large") + ENTRY + 8, &[0x27]);
    image.assert_only_ours("xattr entry", "the value has another size");
    image.assert_refused("large", large_value);
}

#[test]
fn entries_that_do_not_end_are_refused() {
    // The first name, and the end of the list after two entries of 24 bytes.
    let cases: [(&str, u64, u8, &str); 3] = [
        ("sub/few", 16, 0, "zero byte in the name"),
        ("large", 50, 1, "entry goes past the end"),
        ("large", 48, 8, "no end of the entries"),
    ];
    for (name, at, byte, problem) in cases {
        let Some(image) = image("entries_that_do_not_end_are_refused") else {
            return;
        };
        image.put(image.inode(&format!("/{name}")) + ENTRY + at, &[byte]);
        image.assert_only_ours("extended attribute", problem);
        image.assert_refused(name, list);
    }
}

/// The kernel opens the journal's inode as any other; e2fsck ignores its attributes.
#[test]
fn a_journal_with_attributes_outside_is_refused() {
    let Some(image) = image("a_journal_with_attributes_outside_is_refused") else {
        return;
    };
    image.put(image.inode("<8>") + FILE_ACL, &[0xFF; 4]);
    image.assert_only_ours("xattr block", "it is outside the data area");
    image.assert_no_mount();
}

/// Error of resize2fs when it grows the mounted file system by 8 MiB; `None` on success.
fn growth_error(path: &Path) -> Option<String> {
    let file = std::fs::File::options().write(true).open(path);
    let file = file.expect("it is there");
    let len = file.metadata().expect("it has a size").len();
    file.set_len(len + (8 << 20)).expect("there is room");
    let mounted = KernelMount::new(path, "").expect("the kernel mounts it");
    let grown = Command::new("resize2fs")
        .arg(mounted.loop_device())
        .output();
    mounted.unmount().expect("it unmounts");
    let grown = grown.expect("resize2fs runs");
    let said = String::from_utf8_lossy(&grown.stderr).into_owned();
    (!grown.status.success()).then_some(said)
}

/// The kernel opens the resize inode for an online resize, which not every root may do.
#[test]
fn a_resize_inode_of_a_wrong_size_is_refused() {
    let Some(image) = image("a_resize_inode_of_a_wrong_size_is_refused") else {
        return;
    };
    let sound = growth_error(&image.path);
    image.put(image.inode("<7>") + EXTRA_SIZE, &[0x21]);
    image.assert_only_ours("inode", "extra size is wrong");
    match sound {
        Some(said) if said.contains("Permission denied") => {
            eprintln!("the kernel was not asked to grow it: {said}");
        }
        Some(said) => panic!("it is sound: {said}"),
        None => assert!(growth_error(&image.path).is_some(), "the kernel takes it"),
    }
}
