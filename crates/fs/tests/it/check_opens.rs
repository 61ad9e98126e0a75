//! Checks of file systems that a mount refuses: of what the superblock names, and beside it.

use crate::check::checked;
use std::collections::HashSet;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use uext4::check::{CheckReport, Finding, Limits, check};
use uext4::device::{BlockDevice, MemDevice};
use uext4::format::{CorruptKind, DamageLocation, InodeNr};
use uext4::repair::{RepairAll, repair};
use uext4::{Caller, Error, Filesystem, MountOptions, WriteContext};
use uext4_testkit::oracle;

/// The inode of the orphan file that mke2fs makes.
const ORPHAN_FILE: u32 = 12;

fn made(path: &Path, features: &str) {
    oracle::mke2fs(path, 64 << 20, &["-b", "4096", "-O", features]).expect("an image");
}

fn changed(path: &Path, commands: &[&str]) {
    oracle::debugfs(path, oracle::Access::Write, commands).expect("debugfs writes");
}

fn report(path: &Path) -> CheckReport {
    checked(path, &Limits::default()).expect("it can be read")
}

fn problems(report: &CheckReport) -> impl Iterator<Item = &CorruptKind> {
    report
        .findings
        .iter()
        .map(|finding| &finding.corrupt.problem)
}

fn is_refused(path: &Path) -> bool {
    let device = MemDevice::from_bytes(&std::fs::read(path).expect("the image"));
    let mounted = Filesystem::mount(Arc::new(device), MountOptions::default());
    matches!(mounted.map(drop), Err(Error::Corrupt(_)))
}

/// Damage that a mount refuses does not hide other damage, and is reported once.
#[test]
fn damage_that_a_mount_refuses_hides_no_other() {
    let dir = oracle::scratch_dir().expect("there is room");
    let path = dir.path().join("image");
    let other = "set_inode_field /lost+found links_count 7";
    for (refused, nr) in [
        ("set_inode_field <8> block[0] 0", 8),
        ("set_inode_field <8> size 1000", 8),
        ("set_inode_field <2> mode 0100644", 2),
        ("set_inode_field <12> block[0] 0", ORPHAN_FILE),
        ("set_inode_field <12> size 100", ORPHAN_FILE),
        ("set_inode_field <12> links_count 0", ORPHAN_FILE),
    ] {
        made(&path, "orphan_file");
        changed(&path, &[other, refused]);
        assert!(is_refused(&path), "{refused}");
        let report = report(&path);
        let of_nr =
            |finding: &&Finding| finding.corrupt.place == DamageLocation::Inode(InodeNr(nr));
        let problems = report.findings.iter().filter(of_nr);
        let problems: Vec<_> = problems.map(|finding| &finding.corrupt.problem).collect();
        let n = problems.iter().collect::<HashSet<_>>().len();
        assert!(n > 0 && problems.len() == n, "{refused}: {report:#?}");
        let others = CorruptKind::LinksWrong;
        let mut findings = report.findings.iter();
        let is_named = findings.any(|finding| finding.corrupt.problem == others);
        assert!(is_named, "{refused}: {report:#?}");
    }
}

/// Numbers in the superblock that lead to no file, or to one of another purpose.
#[test]
fn what_the_superblock_names_is_in_use() {
    let dir = oracle::scratch_dir().expect("there is room");
    let path = dir.path().join("image");
    let feature = "feature orphan_file";
    for (commands, problem) in [
        (&[feature][..], CorruptKind::NumberRange),
        (
            &[feature, "set_super_value orphan_file_inum 999999"],
            CorruptKind::NumberRange,
        ),
        (
            &[feature, "set_super_value orphan_file_inum 2"],
            CorruptKind::SpecialNamed,
        ),
        (
            &["set_super_value orphan_file_inum 2"],
            CorruptKind::SpecialNamed,
        ),
        (
            &[feature, "set_super_value orphan_file_inum 500"],
            CorruptKind::BadSize,
        ),
    ] {
        made(&path, "^orphan_file");
        changed(&path, commands);
        let report = report(&path);
        let mut found = problems(&report);
        assert!(found.any(|met| *met == problem), "{commands:?}: {report:?}");
        assert!(is_refused(&path), "{commands:?}");
        // e2fsck accepts an orphan file that is not in use.
        let verdict = oracle::e2fsck(&path).expect("e2fsck runs");
        let is_accepted = problem == CorruptKind::BadSize;
        assert_eq!(verdict.is_clean(), is_accepted, "{commands:?}");
    }
    // tune2fs leaves the file there.
    made(&path, "orphan_file");
    let tuned = Command::new("tune2fs")
        .args(["-O", "^has_journal"])
        .arg(&path)
        .output();
    assert!(tuned.expect("tune2fs is installed").status.success());
    let mut found = problems(&report(&path)).copied().collect::<Vec<_>>();
    found.retain(|met| *met == CorruptKind::OrphanFileWithoutJournal);
    assert_eq!(found.len(), 1);
    assert!(!oracle::e2fsck(&path).expect("e2fsck runs").is_clean());
}

/// Writes the first slot of the orphan file, with a valid checksum.
fn set_first_slot(path: &Path, nr: u32) {
    let bmap = oracle::debugfs_one(path, "bmap <12> 0").expect("debugfs reads");
    let block: u64 = bmap.trim().parse().expect("a block");
    let device = MemDevice::from_bytes(&std::fs::read(path).expect("the image"));
    let mut bytes = vec![0; 4096];
    device.read_at(block * 4096, &mut bytes).expect("a read");
    let ino = (nr != 0).then_some(InodeNr(nr));
    uext4::format::orphan_file::set_orphan_slot(&mut bytes, 0, ino);
    let at = uext4::format::BlockNr(block);
    uext4::format::orphan_file::seal_orphan_block(&mut bytes, at, None);
    device.write_at(block * 4096, &bytes).expect("a write");
    std::fs::write(path, device.to_bytes()).expect("there is room");
}

#[test]
fn slots_of_the_orphan_file_are_compared() {
    let dir = oracle::scratch_dir().expect("there is room");
    let path = dir.path().join("image");
    let plain = "orphan_file,^metadata_csum";
    // The root is no orphan, with and without links.
    for commands in [
        &["feature orphan_present"][..],
        &[
            "feature orphan_present",
            "set_inode_field <2> links_count 0",
        ],
    ] {
        made(&path, plain);
        changed(&path, commands);
        set_first_slot(&path, 2);
        let report = report(&path);
        let mut found = problems(&report);
        assert!(
            found.any(|met| *met == CorruptKind::NumberRange),
            "{report:?}"
        );
    }
    made(&path, plain);
    changed(&path, &["feature orphan_present"]);
    let claimed = report(&path);
    let found = claimed
        .findings
        .iter()
        .map(|finding| &finding.corrupt.problem);
    assert!(found.eq([&CorruptKind::OrphansClaimed]), "{claimed:?}");
    assert!(!oracle::e2fsck(&path).expect("e2fsck runs").is_clean());
    made(&path, plain);
    oracle::assert_clean(&path);
    assert!(report(&path).is_clean());
}

/// The last extent goes beyond the size: as many blocks as the size has, and one of them missing.
#[test]
fn a_hole_in_the_orphan_file_is_found() {
    let dir = oracle::scratch_dir().expect("there is room");
    let path = dir.path().join("image");
    made(&path, "orphan_file,^metadata_csum");
    let stat = oracle::debugfs_one(&path, "stat <12>").expect("debugfs reads");
    assert!(stat.contains("EXTENTS:"), "{stat}");
    let bmap = oracle::debugfs_one(&path, "bmap <12> 0").expect("debugfs reads");
    let start: u32 = bmap.trim().parse().expect("a block");
    let size = stat
        .split("Size: ")
        .nth(1)
        .and_then(|rest| rest.split_whitespace().next());
    let blocks = size
        .and_then(|size| size.parse::<u32>().ok())
        .expect("a size")
        / 4096;
    assert!(blocks > 2, "{stat}");
    // Header with two entries; then logical block, length and start of each.
    let words = [
        (0, 0x0002_F30A),
        (3, 0),
        (4, 1),
        (5, start),
        (6, 2),
        (7, blocks - 1),
        (8, start + 1),
    ];
    let set = words.map(|(at, value)| format!("set_inode_field <12> block[{at}] {value}"));
    changed(&path, &set.each_ref().map(String::as_str));
    let report = report(&path);
    let mut found = report
        .findings
        .iter()
        .map(|finding| &finding.corrupt.problem);
    assert!(
        found.any(|problem| *problem == CorruptKind::Hole),
        "{report:?}"
    );
}

/// A device that takes writes gets none, also where the log is replayed.
#[test]
fn a_check_writes_nothing() {
    let device = crate::image::ext4(32);
    let fs = crate::image::mount(&device);
    let file = fs
        .create(&fs.root().unwrap(), b"file", 0o644, &Caller::root())
        .unwrap();
    fs.write(&file, 0, b"data", &WriteContext::ROOT).unwrap();
    fs.unlink(&fs.root().unwrap(), b"file", &Caller::root())
        .unwrap();
    fs.sync().unwrap();
    fs.abandon();
    drop(file);
    drop(fs);
    let before = device.to_bytes();
    let report = check(device.clone(), MountOptions::default(), &Limits::default()).unwrap();
    assert!(report.is_clean(), "{report:?}");
    assert!(device.to_bytes() == before, "the check has written");
}

/// As e2fsck: of a journal with tables it uses the superblock's copy of the inode.
#[test]
fn a_journal_maps_all_of_its_size() {
    let dir = oracle::scratch_dir().expect("there is room");
    let path = dir.path().join("image");
    for (features, is_sound) in [("extent", false), ("^extent,^64bit", true)] {
        made(&path, features);
        changed(&path, &["set_inode_field <8> size 4206592"]);
        let report = report(&path);
        let verdict = oracle::e2fsck(&path).expect("e2fsck runs");
        assert_eq!(
            (report.is_clean(), verdict.is_clean()),
            (is_sound, is_sound),
            "{report:?}"
        );
    }
}

fn repaired(path: &Path) {
    let device = Arc::new(MemDevice::from_bytes(
        &std::fs::read(path).expect("the image"),
    ));
    let options = MountOptions::default();
    let report = repair(device.clone(), options, &mut RepairAll, &Limits::default());
    assert!(report.expect("it can be repaired").n_repaired > 0);
    std::fs::write(path, device.to_bytes()).expect("there is room");
}

/// Features of names and data keep a mount out, and no check or repair.
#[test]
fn features_of_contents_hide_no_damage() {
    let dir = oracle::scratch_dir().expect("there is room");
    let path = dir.path().join("image");
    for features in ["encrypt", "casefold", "verity", "encrypt,casefold,verity"] {
        made(&path, features);
        assert!(report(&path).is_clean(), "{features}");
        changed(&path, &["set_inode_field /lost+found links_count 7"]);
        assert!(!report(&path).is_clean(), "{features}");
        repaired(&path);
        oracle::assert_clean(&path);
    }
}

/// An encrypted name of less than a block of the cipher, and an encrypted lost+found; both
/// directories have no context.
#[test]
fn encrypted_directories_are_repaired() {
    const DIRECTORY: &str = "flags 0x80800";
    let dir = oracle::scratch_dir().expect("there is room");
    let path = dir.path().join("image");
    made(&path, "encrypt");
    std::fs::write(dir.path().join("text"), b"readable").expect("there is room");
    let source = dir.path().join("text");
    changed(
        &path,
        &[
            "mkdir secret",
            &format!("write {} secret/short", source.display()),
            &format!("set_inode_field secret {DIRECTORY}"),
            &format!("set_inode_field lost+found {DIRECTORY}"),
        ],
    );
    let found = report(&path);
    let is_short = problems(&found).any(|one| *one == CorruptKind::NameEncryptedShort);
    assert!(is_short, "{found:#?}");
    repaired(&path);
    let kept = oracle::debugfs(&path, oracle::Access::Read, &["ls -p secret"]);
    let kept = kept.expect("debugfs reads");
    assert!(
        kept.contains("/short/"),
        "without a context the names are plain: {kept}"
    );
    assert!(report(&path).is_clean());
}
