//! Our check of a whole file system against e2fsck: it reports damage that e2fsck reports, and
//! nothing on undamaged images. Damage that only our check finds is printed.
//!
//! More seeds: `UEXT4_CHECK_SEEDS=5000 cargo test -p uext4 --test it check::`; each failure prints
//! its seed, which `UEXT4_CHECK_FIRST` repeats.

use crate::check_faults::lists::is_harmless;
use crate::damage::{base, number};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use uext4::check::{CheckReport, Limits, check};
use uext4::device::{Access, FileDevice};
use uext4::{Filesystem, MountOptions};
use uext4_testkit::damage::{Checksums, Target, Wound};
use uext4_testkit::oracle;

pub(crate) fn checked(path: &Path, limits: &Limits) -> uext4::Result<CheckReport> {
    let device = Arc::new(FileDevice::open(path, Access::ReadOnly)?);
    check(device, MountOptions::default(), limits)
}

/// A sound, unmounted image with files of all kinds.
fn sound(path: &Path, block_size: u32) {
    base(path, block_size);
    let device = Arc::new(FileDevice::open(path, Access::ReadWrite).expect("it is there"));
    let fs = Filesystem::mount(device, MountOptions::default()).expect("it recovers");
    fs.unmount().expect("it closes");
    oracle::assert_clean(path);
}

#[test]
fn what_e2fsck_finds_is_found() {
    let dir = oracle::scratch_dir().expect("there is room");
    let bases = [4096, 1024].map(|block_size| {
        let path = dir.path().join(format!("base{block_size}"));
        sound(&path, block_size);
        let report = checked(&path, &Limits::default()).expect("it can be read");
        assert!(report.is_clean(), "{report:#?}");
        assert!(
            report.n_inodes > 600 && report.n_directories >= 3,
            "{report:?}"
        );
        path
    });
    let image = dir.path().join("image");
    let first = number("UEXT4_CHECK_FIRST", 0);
    let (mut noticed, mut missed, mut alarms) = (0, Vec::new(), Vec::new());
    for seed in first..first + number("UEXT4_CHECK_SEEDS", 96) {
        let target = Target::ALL[seed as usize % Target::ALL.len()];
        let checksums = match seed / 12 % 4 {
            0 => Checksums::Left,
            _ => Checksums::Fixed,
        };
        std::fs::copy(&bases[seed as usize / 12 % 2], &image).expect("a copy of the base");
        let wound = Wound::inflict(&image, target, seed, checksums).expect("a wound");
        let Some(wound) = wound else { continue };
        let ours = checked(&image, &Limits::default());
        let verdict = oracle::e2fsck(&image).expect("e2fsck runs");
        if verdict.is_silent() {
            if let Ok(report) = ours
                && !report.is_clean()
            {
                alarms.push(format!("seed {seed}: {wound}: {:?}", report.findings));
            }
            continue;
        }
        noticed += 1;
        let problems = verdict.problems();
        let harmless = is_harmless(&verdict);
        if ours.is_ok_and(|report| report.is_clean()) && !harmless {
            missed.push(format!("seed {seed}: {wound}: {problems:?}"));
        }
    }
    println!("{noticed} noticed by e2fsck; by us only: {}", alarms.len());
    alarms.iter().for_each(|alarm| println!("{alarm}"));
    assert!(noticed > 0, "e2fsck noticed nothing");
    assert!(
        missed.is_empty(),
        "{noticed} noticed, missed {}:\n{}",
        missed.len(),
        missed.join("\n")
    );
}

#[test]
fn a_look_takes_what_it_may_and_no_more() {
    let dir = oracle::scratch_dir().expect("there is room");
    let path = dir.path().join("image");
    sound(&path, 1024);
    let tight = [
        Limits {
            memory_bytes: 10_000,
            ..Limits::default()
        },
        Limits {
            time: Duration::ZERO,
            ..Limits::default()
        },
    ];
    for limits in tight {
        let report = checked(&path, &limits).expect("it can be read");
        assert!(
            report.incomplete.is_some() && !report.is_clean(),
            "{report:?}"
        );
    }
    let few = Limits {
        findings: 1,
        ..Limits::default()
    };
    let wrong = [
        "set_inode_field <2> links_count 77",
        "set_inode_field <11> links_count 78",
    ];
    oracle::debugfs(&path, oracle::Access::Write, &wrong).expect("two link counts");
    let report = checked(&path, &few).expect("it can be read");
    assert_eq!((report.findings.len(), report.n_more), (1, 1), "{report:?}");
}

/// e2fsck and our check must report each damage, on images of 32 MiB.
fn assert_noticed(options: &[&str], wounds: &[&str]) {
    let dir = oracle::scratch_dir().expect("there is room");
    let path = dir.path().join("image");
    for wound in wounds {
        oracle::mke2fs(&path, 32 << 20, options).expect("an image");
        let report = checked(&path, &Limits::default()).expect("it can be read");
        assert!(report.is_clean(), "{report:#?}");
        oracle::debugfs(&path, oracle::Access::Write, &[wound]).expect("a wound");
        let verdict = oracle::e2fsck(&path).expect("e2fsck runs");
        assert!(!verdict.is_clean(), "{wound}: e2fsck minds nothing");
        let report = checked(&path, &Limits::default()).expect("it can be read");
        assert!(!report.is_clean(), "{wound}: {:?}", verdict.problems());
        std::fs::remove_file(&path).expect("it goes");
    }
}

#[test]
fn the_blocks_kept_for_descriptors_are_looked_at() {
    let wounds = [
        "set_inode_field <7> block[DIND] 0",
        "set_inode_field <7> block[DIND] 5",
        "set_inode_field <7> block[3] 500",
        "set_inode_field <7> links_count 0",
        "set_inode_field <7> mode 0",
        "set_inode_field <7> blocks 4",
        // The first and the last one.
        "zap_block -p 0x55 4",
        "zap_block -p 0x55 -o 4 -l 4 258",
    ];
    assert_noticed(&["-b", "1024"], &wounds);
}

/// File types in the entries ".", ".." and "lost+found", including undefined types.
#[test]
fn the_types_of_entries_are_looked_at() {
    let wounds = [
        "zap_block -f / -o 7 -l 1 -p 0x08 0",
        "zap_block -f / -o 19 -l 1 -p 0xFF 0",
        "zap_block -f / -o 31 -l 1 -p 0x12 0",
        "zap_block -f / -o 31 -l 1 -p 0x01 0",
    ];
    assert_noticed(&["-b", "1024", "-O", "^metadata_csum"], &wounds);
}

/// True if e2fsck and our check, which must agree, call the image sound after these debugfs
/// commands.
fn is_sound(path: &Path, commands: &[&str]) -> bool {
    oracle::debugfs(path, oracle::Access::Write, commands).expect("debugfs writes");
    let verdict = oracle::e2fsck(path).expect("e2fsck runs");
    let report = checked(path, &Limits::default()).expect("it can be read");
    let problems = verdict.problems();
    assert_eq!(
        report.is_clean(),
        verdict.is_clean(),
        "{report:?} {problems:?}"
    );
    report.is_clean()
}

/// Unusual but valid images: verity hashes after the end of a file, shared blocks, a journal whose
/// size ends one block early.
#[test]
fn what_e2fsck_accepts_is_accepted() {
    let dir = oracle::scratch_dir().expect("there is room");
    let path = dir.path().join("image");
    let data = dir.path().join("data");
    std::fs::write(&data, vec![7; 3000]).expect("there is room");
    let write = |name: &str| format!("write {} {name}", data.display());
    oracle::mke2fs(&path, 32 << 20, &["-b", "1024", "-O", "verity"]).expect("an image");
    let verity = [
        "set_inode_field f size 1",
        "set_inode_field f flags 0x180000",
    ];
    assert!(is_sound(&path, &[&write("f"), verity[0], verity[1]]));
    assert!(
        !is_sound(&path, &["set_inode_field f flags 0x80000"]),
        "it has no flag"
    );

    oracle::mke2fs(&path, 32 << 20, &["-b", "1024", "-O", "^metadata_csum"]).expect("an image");
    let said = oracle::debugfs_one(&path, "stat <8>").expect("debugfs reads");
    let size = said
        .split("Size: ")
        .nth(1)
        .and_then(|rest| rest.split_whitespace().next());
    let size: u64 = size.expect("it has one").parse().expect("a number");
    let shorter = |blocks: u64| format!("set_inode_field <8> size {}", size - blocks * 1024);
    // The log also ends one block early: the low bytes of the length in its superblock.
    let len = size / 1024 - 1;
    let low = |at: u64, byte: u64| format!("zap_block -f <8> -o {at} -l 1 -p {byte} 0");
    let log = [low(18, len >> 8 & 0xFF), low(19, len & 0xFF)];
    assert!(is_sound(&path, &[&shorter(1), &log[0], &log[1]]));

    oracle::mke2fs(
        &path,
        32 << 20,
        &["-b", "1024", "-O", "^extents,^metadata_csum,^64bit"],
    )
    .unwrap();
    let made = [write("one"), write("two")];
    assert!(is_sound(&path, &[&made[0], &made[1]]));
    let block = |name: &str| {
        let said = oracle::debugfs_one(&path, &format!("bmap {name} 0")).expect("debugfs reads");
        said.trim().parse::<u64>().expect("a block")
    };
    let (one, two) = (block("one"), block("two"));
    let share = format!("set_inode_field two block[0] {one}");
    assert!(!is_sound(&path, &[&share, &format!("freeb {two}")]));
    // Not every debugfs knows the feature's name: 0x4000.
    let said = oracle::debugfs_one(&path, "show_super_stats -h").expect("debugfs reads");
    assert!(said.contains("Filesystem features"), "{said}");
    oracle::debugfs(&path, oracle::Access::Write, &["feature shared_blocks"]).unwrap();
    let report = checked(&path, &Limits::default()).expect("it can be read");
    let shares = |finding: &uext4::check::Finding| finding.corrupt.structure == "inode map";
    assert!(!report.findings.iter().any(shares), "{report:?}");
}

/// An extent that begins at another offset of its cluster than of the file: a write to one block of
/// the file would change another.
#[test]
fn extents_are_aligned_within_their_clusters() {
    let dir = oracle::scratch_dir().expect("there is room");
    let path = dir.path().join("image");
    let data = dir.path().join("data");
    std::fs::write(&data, vec![7; 3000]).expect("there is room");
    let options = ["-b", "4096", "-O", "bigalloc", "-C", "65536"];
    oracle::mke2fs(&path, 64 << 20, &options).expect("an image");
    assert!(is_sound(
        &path,
        &[format!("write {} f", data.display()).as_str()]
    ));
    let said = oracle::debugfs_one(&path, "bmap f 0").expect("debugfs reads");
    let block: u64 = said.trim().parse().expect("a block");
    // The start of the first extent, within the same cluster.
    let moved = format!("set_inode_field f block[5] {}", block + 1);
    oracle::debugfs(&path, oracle::Access::Write, &[moved]).expect("debugfs writes");
    let report = checked(&path, &Limits::default()).expect("it can be read");
    let is_misaligned = |finding: &uext4::check::Finding| {
        finding.corrupt.problem == uext4::format::CorruptKind::Misaligned
    };
    assert!(report.findings.iter().any(is_misaligned), "{report:?}");
}

/// An attribute block without the feature in the superblock.
#[test]
fn attributes_without_the_feature_are_reported() {
    let dir = oracle::scratch_dir().expect("there is room");
    let path = dir.path().join("image");
    sound(&path, 1024);
    assert!(!is_sound(&path, &["feature -ext_attr"]));
}

/// Memory is taken for what is in use, not for the size.
#[test]
fn a_large_empty_file_system_takes_little_memory() {
    for (tib, memory_mib) in [(1, 16), (10, 64)] {
        let device = crate::image::ext4(tib << 20);
        let limits = |memory_bytes| Limits {
            memory_bytes,
            ..Limits::default()
        };
        let within = |limits| {
            let report = check(device.clone(), MountOptions::default(), &limits);
            report.expect("it can be read")
        };
        let report = within(limits(memory_mib << 20));
        assert!(report.is_clean(), "{tib} TiB: {report:?}");
        let report = within(limits(1 << 20));
        let why = report.incomplete.expect("a limit");
        assert!(why.contains("memory"), "{tib} TiB: {why}");
    }
}

/// Beyond half of the limit, the clusters in use are in a file.
#[test]
fn a_file_takes_what_memory_does_not() {
    let device = crate::image::ext4(10 << 20);
    let within = |spill| {
        let limits = Limits {
            memory_bytes: 44 << 20,
            spill,
            ..Limits::default()
        };
        let report = check(device.clone(), MountOptions::default(), &limits);
        report.expect("it can be read")
    };
    let why = within(None).incomplete.expect("a limit");
    assert!(why.contains("memory"), "{why}");
    let report = within(Some(std::env::temp_dir()));
    assert!(report.is_clean(), "{report:?}");
}
