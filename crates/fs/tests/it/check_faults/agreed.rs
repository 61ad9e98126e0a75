//! Hand-made faults that e2fsck reports, often with exit status 0, and oddities that it accepts.
//! Our check must agree with e2fsck.

use super::image::{ENTRY, Image, MAP};
use crate::check::checked;
use std::path::Path;
use std::sync::Arc;
use uext4::check::Limits;
use uext4::device::{Access, FileDevice};
use uext4::{Caller, Filesystem, MountOptions};
use uext4_testkit::oracle::{self, KernelMount};

const EROFS: i32 = 30;
const SPARE: &[&str] = &["-b", "1024", "-O", "^has_journal,^resize_inode"];
const PLAIN: &[&str] = &["-b", "1024", "-O", "ea_inode,^metadata_csum"];
const EMPTY: &str = "\"/wide/a name in a directory with an index 1\"";

/// True if e2fsck and our check, which must agree, report nothing.
fn is_sound(path: &Path, what: &str) -> bool {
    let verdict = oracle::e2fsck(path).expect("e2fsck runs");
    let report = checked(path, &Limits::default()).expect("it can be read");
    assert_eq!(
        report.is_clean(),
        verdict.is_silent(),
        "{what}: {:?} {:?}",
        report.findings,
        verdict.problems()
    );
    verdict.is_silent()
}

/// The debugfs commands in `odd` create oddities, those in `wrong` faults.
fn judge(options: &[&str], first: &[&str], odd: &[&str], wrong: &[&str]) {
    let dir = oracle::scratch_dir().expect("there is room");
    let path = dir.path().join("image");
    let all = odd.iter().map(|one| (one, true));
    for (command, is_odd) in all.chain(wrong.iter().map(|one| (one, false))) {
        oracle::mke2fs(&path, 16 << 20, options).expect("mke2fs");
        let commands: Vec<&str> = first.iter().chain([command]).copied().collect();
        oracle::debugfs(&path, oracle::Access::Write, &commands).expect("debugfs writes");
        assert_eq!(is_sound(&path, command), is_odd, "{command}");
        std::fs::remove_file(&path).expect("it goes");
    }
}

#[test]
fn inodes_with_a_number_of_their_own() {
    let odd = [
        "set_inode_field <1> generation 7",
        "set_inode_field <3> block[1] 5",
        "set_inode_field <3> mode 07",
        "set_inode_field <5> mode 07",
        "set_inode_field <8> mode 07",
        "set_inode_field <9> size 5",
        "set_inode_field <10> flags 0x280000",
    ];
    let wrong = [
        "set_inode_field <1> uid 5",
        "set_inode_field <1> flags 0x40000000",
        "set_inode_field <3> block[0] 5",
        "set_inode_field <3> links_count 1",
        "set_inode_field <4> blocks 4",
        "set_inode_field <5> mode 040755",
        "set_inode_field <6> dtime 5",
        "set_inode_field <7> block[3] 77",
        "set_inode_field <8> block[0] 5",
        "set_inode_field <9> size 0x10000000000",
        "set_inode_field <9> file_acl 77",
        "set_inode_field <10> mode 0100644",
    ];
    judge(SPARE, &[], &odd, &wrong);
}

#[test]
fn inodes_that_were_deleted() {
    let first = ["symlink gone target", "rm gone"];
    let odd = [
        "set_inode_field <12> dtime 4096",
        "set_inode_field <12> flags 0x10000000",
        "set_inode_field <12> extra_isize 3",
    ];
    let wrong = [
        "set_inode_field <12> dtime 0",
        "set_inode_field <12> dtime 4095",
    ];
    judge(SPARE, &first, &odd, &wrong);
}

#[test]
fn files_without_data() {
    for first in ["mknod it c 1 3", "mknod it p"] {
        let odd = [
            "set_inode_field it flags 0x40",
            "set_inode_field it block[0] 0x300",
            "set_inode_field it block[5] 7",
        ];
        let wrong = [
            "set_inode_field it size 1",
            "set_inode_field it flags 0x80000",
            "set_inode_field it flags 0x10",
            "set_inode_field it flags 0x20",
            "set_inode_field it blocks 2",
            "set_inode_field it flags 0x1000",
        ];
        judge(SPARE, &[first], &odd, &wrong);
    }
    let wrong = [
        "set_inode_field it flags 0x10",
        "set_inode_field it flags 0x20",
    ];
    judge(SPARE, &["symlink it target"], &[], &wrong);
}

#[test]
fn numbers_in_the_superblock() {
    let odd = [
        "set_super_value desc_size 64",
        "set_super_value min_extra_isize 28",
        "set_super_value usr_quota_inum 4",
    ];
    let wrong = [
        "set_super_value rev_level 2",
        "set_super_value desc_size 48",
        "set_super_value desc_size 2048",
        "set_super_value min_extra_isize 30",
        "set_super_value want_extra_isize 132",
        "set_super_value usr_quota_inum 8",
        "set_super_value feature_compat 0x7c",
        "set_super_value log_cluster_size 1",
    ];
    judge(
        &["-b", "1024", "-O", "^64bit,^metadata_csum"],
        &[],
        &odd,
        &wrong,
    );
    let old = &["-b", "1024", "-O", "^extents,^64bit,^metadata_csum"];
    let clusters = "set_super_value feature_ro_compat 0x26b";
    judge(old, &[], &[], &[clusters]);
    let both = "set_super_value feature_ro_compat 0x47b";
    judge(&["-b", "1024"], &[], &[], &[both]);
    judge(
        &["-b", "4096"],
        &[],
        &[],
        &["set_super_value log_cluster_size 0"],
    );
}

#[test]
fn fields_that_nothing_uses() {
    let wrong = ["set_inode_field it faddr 5"];
    judge(&["-b", "1024"], &["mkdir it"], &[], &wrong);
    let uuid = "set_super_value journal_uuid 01234567-89ab-cdef-0123-456789abcdef";
    judge(&["-b", "1024"], &[], &[], &[uuid]);
    judge(SPARE, &[], &[], &["feature needs_recovery"]);
}

#[test]
fn a_log_of_version_1() {
    let put = |at: u8, byte: u8| format!("zap_block -f <8> -o {at} -l 1 -p {byte} 0");
    let (version, users) = (put(7, 3), put(67, 0));
    let first = [version.as_str(), users.as_str()];
    let wrong = [put(67, 1), put(39, 1), put(43, 1)];
    let wrong: Vec<&str> = wrong.iter().map(String::as_str).collect();
    judge(&["-b", "1024"], &first, &["stat <8>"], &wrong);
}

/// The size of the journal's inode may exceed its mapped blocks; the kernel accepts it.
#[test]
fn maps_of_the_file_system_itself() {
    let odd = ["set_inode_field <8> size 0x80100000"];
    // One additional entry in a block reserved for descriptors.
    let wrong = [
        "zap_block -p 0x06 -o 400 -l 1 100",
        "set_inode_field <7> size 274432",
    ];
    judge(&["-b", "1024"], &[], &odd, &wrong);
    let old = &["-b", "1024", "-O", "^extents,^64bit,^metadata_csum"];
    judge(old, &[], &odd, &[]);
}

#[test]
fn nodes_and_extents() {
    let cases: [(u64, u8, bool); 3] = [(4, 2, true), (4, 1, false), (17, 0x80, false)];
    for (at, byte, is_odd) in cases {
        let image = Image::new(PLAIN);
        image.put(image.inode("/sub") + MAP + at, &[byte]);
        assert_eq!(is_sound(&image.path, "a directory's node"), is_odd, "{at}");
    }
}

/// One flag bit is accepted although the hash is unknown; the other bits are invalid.
#[test]
fn flags_of_an_index() {
    for (byte, is_odd) in [(0x80, true), (1, false)] {
        let image = Image::new(PLAIN);
        image.put(image.block("/wide") + 0x1F, &[byte]);
        assert_eq!(is_sound(&image.path, "a flag"), is_odd, "{byte}");
    }
}

/// An empty value has no offset. e2fsck rejects an offset past the end where it parses attributes
/// itself.
#[test]
fn values_without_bytes() {
    let inline = &["-b", "1024", "-O", "ea_inode,inline_data,^metadata_csum"];
    for (byte, is_odd) in [(0, true), (1, false)] {
        let image = Image::new(inline);
        image.put(image.inode(EMPTY) + ENTRY + 3, &[byte]);
        assert_eq!(is_sound(&image.path, "an offset"), is_odd, "{byte}");
    }
    let image = Image::new(inline);
    image.put(image.inode(EMPTY) + 0x6D, &[0x10]);
    assert!(!is_sound(&image.path, "the size of inline data"));
}

/// An unknown revision: the kernel mounts it read-only, and so does our mount.
#[test]
fn a_later_revision_is_not_written() {
    let dir = oracle::scratch_dir().expect("there is room");
    let path = dir.path().join("image");
    oracle::mke2fs(&path, 16 << 20, &["-b", "1024"]).expect("mke2fs");
    let later = "set_super_value rev_level 2";
    oracle::debugfs(&path, oracle::Access::Write, &[later]).expect("debugfs writes");
    let device = Arc::new(FileDevice::open(&path, Access::ReadWrite).expect("it is there"));
    let fs = Filesystem::mount(device, MountOptions::default()).expect("it mounts");
    let (root, caller) = (fs.root().expect("a root"), Caller::root());
    let made = fs.create(&root, b"new", 0o644, &caller);
    assert_eq!(made.map(drop).expect_err("it is written").errno(), EROFS);
    fs.unmount().expect("it closes");
    if KernelMount::available_or_skip("a_later_revision_is_not_written") {
        let mounted = KernelMount::new(&path, "").expect("the kernel mounts it");
        let made = std::fs::File::create(mounted.path().join("new"));
        let errno = made.map(drop).expect_err("it is written").raw_os_error();
        mounted.unmount().expect("it unmounts");
        assert_eq!(errno, Some(EROFS));
    }
}
