//! Descriptors that are lost in images of mke2fs: the evidence of the tables themselves is left.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use uext4_device::{Access, FileDevice};
use uext4_fsck::{Repair, RepairAll, RepairReport};
use uext4_testkit::oracle;

const BLOCK: u64 = 1024;
/// The first inode behind lost+found.
const FIRST: u64 = 12;

fn contents(nr: u64) -> Vec<u8> {
    format!("contents of file {nr}\n").repeat(100).into_bytes()
}

/// An image with files in directories of their own.
fn image(dir: &Path, mib: u64, args: &[&str], files: u64) -> PathBuf {
    let image = dir.join("image");
    oracle::mke2fs(&image, mib << 20, args).expect("an image");
    let mut commands = Vec::new();
    for nr in 0..files {
        let source = dir.join(format!("file{nr}"));
        fs::write(&source, contents(nr)).expect("a file");
        if nr % 4 == 0 {
            commands.push(format!("mkdir dir{nr}"));
        }
        let parent = nr - nr % 4;
        commands.push(format!("write {} dir{parent}/file{nr}", source.display()));
    }
    oracle::debugfs(&image, oracle::Access::Write, &commands).expect("files");
    oracle::assert_clean(&image);
    image
}

fn put(image: &Path, block: u64, bytes: &[u8]) {
    let file = File::options().write(true).open(image).expect("an image");
    file.write_all_at(bytes, block * BLOCK).expect("a write");
}

fn repair(image: &Path) -> RepairReport {
    let device = FileDevice::open(image, Access::ReadWrite).expect("the image");
    let mut decisions = RepairAll;
    let repair = Repair::new(Arc::new(device)).decisions(&mut decisions);
    let report = repair.run().expect("it can be repaired");
    assert!(report.is_sound(), "{report:#?}");
    report
}

fn assert_files(image: &Path, files: u64) {
    oracle::assert_clean(image);
    for nr in 0..files {
        let parent = nr - nr % 4;
        let found = oracle::debugfs_one(image, &format!("cat dir{parent}/file{nr}"));
        assert!(
            found.expect("it runs").as_bytes() == contents(nr),
            "file {nr}"
        );
    }
}

/// No descriptor is left, neither of the groups nor in their backups.
#[test]
fn tables_at_their_usual_places_are_found_without_any_descriptor() {
    for features in ["none", "^metadata_csum", "^metadata_csum,^flex_bg"] {
        let dir = oracle::scratch_dir().expect("there is room");
        let args = ["-b", "1024", "-N", "2048", "-O", features];
        let args = if features == "none" {
            &args[..4]
        } else {
            &args
        };
        let image = image(dir.path(), 80, args, 40);
        for group in [0, 1, 3, 5, 7, 9] {
            put(&image, group * 8192 + 2, &[0; BLOCK as usize]);
        }
        repair(&image);
        assert_files(&image, 40);
    }
}

/// mke2fs leaves room for the bitmaps of 16 groups. Without checksums, an inode does not say where
/// the table begins, but a directory does.
#[test]
fn a_table_is_not_found_some_blocks_beside() {
    let dir = oracle::scratch_dir().expect("there is room");
    let features = "flex_bg,^metadata_csum,^uninit_bg,^has_journal";
    let image = image(dir.path(), 8, &["-b", "1024", "-O", features], 0);
    let empty = dir.path().join("empty");
    fs::write(&empty, []).expect("a file");
    let write = |nr: u64| format!("write {} empty{nr}", empty.display());
    let commands: Vec<String> = (0..60).map(write).collect();
    oracle::debugfs(&image, oracle::Access::Write, &commands).expect("files");
    put(&image, 2, &[0; BLOCK as usize]);
    repair(&image);
    oracle::assert_clean(&image);
    let names = oracle::debugfs_one(&image, "ls -p").expect("it runs");
    assert_eq!(names.matches("/empty").count(), 60);
}

/// A burst hits the descriptor, the bitmaps and the first inodes; the others stay.
#[test]
fn a_damaged_table_is_not_made_empty() {
    for features in ["^has_journal", "^has_journal,^metadata_csum,^uninit_bg"] {
        let dir = oracle::scratch_dir().expect("there is room");
        let image = image(dir.path(), 8, &["-b", "1024", "-O", features], 60);
        let said = oracle::debugfs_one(&image, "imap <1>").expect("it runs");
        let at = said.split("located at block ").nth(1).expect("a block");
        let table: u64 = at
            .split(',')
            .next()
            .and_then(|nr| nr.parse().ok())
            .expect("a number");
        let garbage: Vec<u8> = (0..8 * BLOCK)
            .map(|at| (at * at / 7 + 1) as u8 | 1)
            .collect();
        let mut kept = Vec::new();
        for inode in FIRST + 24..FIRST + 75 {
            let cat = format!("cat <{inode}>");
            let said = oracle::debugfs_one(&image, &cat).expect("it runs");
            kept.extend(said.starts_with("contents").then_some((cat, said)));
        }
        assert!(kept.len() > 30, "{}", kept.len());
        put(&image, 2, &garbage[..BLOCK as usize]);
        put(&image, table, &garbage);
        repair(&image);
        oracle::assert_clean(&image);
        for (cat, said) in kept {
            let found = oracle::debugfs_one(&image, &cat).expect("it runs");
            assert!(found == said, "{features}: {cat}: {found}");
        }
    }
}

/// The backup of the descriptor that is wrong has its own table.
#[test]
fn a_group_does_not_take_the_table_of_another() {
    for (wrong, right) in [(0, 1), (1, 0)] {
        let dir = oracle::scratch_dir().expect("there is room");
        let args = ["-b", "1024", "-O", "^metadata_csum,^uninit_bg,^has_journal"];
        let image = image(dir.path(), 16, &args, 20);
        let shown = oracle::debugfs_one(&image, "stats").expect("it runs");
        let tables: Vec<&str> = shown
            .split("inode table at ")
            .skip(1)
            .filter_map(|rest| rest.split(|char: char| !char.is_ascii_digit()).next())
            .collect();
        let set = format!("set_block_group {wrong} inode_table {}", tables[right]);
        oracle::debugfs(&image, oracle::Access::Write, &[set]).expect("it is set");
        assert!(!oracle::e2fsck(&image).expect("it runs").is_clean());
        repair(&image);
        assert_files(&image, 20);
    }
}

/// The backups say that the descriptors are in meta groups.
#[test]
fn a_backup_is_better_than_no_meta_groups() {
    let dir = oracle::scratch_dir().expect("there is room");
    let features = "meta_bg,^resize_inode,^metadata_csum,64bit";
    let image = image(dir.path(), 160, &["-b", "1024", "-O", features], 8);
    let file = File::options().write(true).open(&image).expect("an image");
    file.write_all_at(&[0xFF; 4], 1024 + 0x104)
        .expect("a write");
    drop(file);
    repair(&image);
    assert_files(&image, 8);
    let header = oracle::dumpe2fs(&image).expect("a superblock");
    assert!(header.has_feature("meta_bg"));
}
