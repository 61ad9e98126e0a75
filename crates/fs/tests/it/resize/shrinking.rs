//! Shrinking of file systems that are not mounted. The judges: e2fsck, the kernel, a manifest.

use super::kind::{Image, Kind};
use super::scattered::scatter;
use super::seeds;
use crate::image::on_disk;
use uext4::device::BlockDevice;
use uext4::mkfs::DeviceContents;

use uext4::resize::{Least, grow, plan_shrink, shrink};
use uext4::{Error, InTheWay, ResizeError};
use uext4_testkit::manifest::Policy;
use uext4_testkit::oracle::{KernelMount, Program, dumpe2fs};
use uext4_testkit::rng::Rng;

/// Shrinks to at most `blocks`; returns how many there are.
fn shrink_to(image: &Image, blocks: u64) -> uext4::Result<u64> {
    let bytes = blocks * u64::from(image.kind.block_size);
    let plan = shrink(image.main.clone(), image.options(), Least::Bytes(bytes))?;
    assert_eq!(plan.after.blocks_count, image.blocks());
    Ok(plan.after.blocks_count)
}

pub(super) fn minimum(image: &Image) -> u64 {
    let bytes = || {
        let journal = image.journal.as_ref().map(|journal| journal.to_bytes());
        (image.main.to_bytes(), journal)
    };
    let before = bytes();
    let plan = plan_shrink(image.main.clone(), image.options(), Least::Possible);
    assert!(bytes() == before, "a plan wrote");
    plan.expect("a minimum").after.blocks_count
}

/// The plan recovers first, in memory: the log keeps its transactions.
#[test]
fn a_plan_after_a_crash_writes_neither_device() {
    for name in ["external-journal", "no-flex"] {
        let kind = Kind::named(name);
        let image = kind.make(kind.blocks * u64::from(kind.block_size));
        let fs = image.mount().expect("mounts");
        fs.paths().write("/kept", [7; 5000]).expect("writes");
        fs.sync().expect("commits");
        fs.abandon();
        minimum(&image);
        let fs = image.mount().expect("mounts");
        assert_eq!(fs.paths().read("/kept").expect("it is there"), [7; 5000]);
        fs.unmount().expect("unmounts");
    }
}

#[track_caller]
fn assert_refused(image: &Image, blocks: u64, minimum: u64) {
    let before = image.main.to_bytes();
    match shrink_to(image, blocks) {
        Err(Error::Resize(ResizeError::TooSmall { min_blocks, .. })) => {
            assert_eq!(min_blocks, minimum);
        }
        other => panic!("{blocks} blocks, minimum {minimum}: {other:?}"),
    }
    assert!(image.main.to_bytes() == before, "a refused size wrote");
}

/// One file system, shrunk to a size between, to its minimum, and grown again.
fn shrink_in_turn(kind: &Kind, seed: u64) {
    let what = format!("{}, seed {seed}", kind.name);
    let image = kind.make(kind.blocks * u64::from(kind.block_size));
    scatter(&image, seed);
    image.assert_clean(&what);
    let (tree, before) = (image.tree(), image.blocks());
    let least = minimum(&image);
    assert!(least < before, "{what}: {least}");
    assert_refused(&image, least - 1, least);
    let between = least + Rng::new(seed).below(before - least);
    let found = shrink_to(&image, between).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert!(found <= between, "{what}: {found}, not {between}");
    image.assert_clean(&format!("{what}, {before} to {between}"));
    tree.assert_same(&image.tree(), &Policy::default());
    let least = minimum(&image);
    shrink_to(&image, least).unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(image.blocks(), least, "{what}");
    image.assert_clean(&format!("{what}, the minimum {least} of {before}"));
    tree.assert_same(&image.tree(), &Policy::default());
    if kind.has_kernel() && KernelMount::available_or_skip("shrink_in_turn") {
        let (_dir, path) = on_disk(&image.main);
        let mounted = KernelMount::new(&path, "").expect("the kernel mounts it");
        let found = uext4_testkit::manifest::Manifest::of_dir(mounted.path()).expect("a tree");
        mounted.unmount().expect("unmount");
        tree.assert_same(&found, &Policy::default());
    }
    let size = image.main.size_bytes();
    grow(
        image.main.clone(),
        image.options(),
        size,
        DeviceContents::Unknown,
    )
    .expect("grows");
    image.assert_clean(&format!("{what}, grown again"));
    tree.assert_same(&image.tree(), &Policy::default());
    image.fill("/after", size / 20, seed);
    image.assert_clean(&format!("{what}, used again"));
}

#[test]
fn all_kinds_shrink() {
    for seed in seeds() {
        for kind in &Kind::ALL {
            shrink_in_turn(kind, seed);
        }
    }
}

/// The size that `resize2fs -M` reaches in up to four runs, in blocks; `None` if it fails.
fn minimum_of_resize2fs(image: &Image) -> Option<u64> {
    let (_dir, path) = on_disk(&image.main);
    let mut least = None;
    for _ in 0..4 {
        let program = Program::new("resize2fs").expect("resize2fs");
        let output = program.args(["-f", "-M"]).arg(&path).run();
        if !output.is_ok_and(|output| output.code == Some(0)) {
            break;
        }
        least = Some(dumpe2fs(&path).and_then(|header| header.number("Block count")));
    }
    least.map(|blocks| blocks.expect("a number of blocks"))
}

/// Without a journal inodes stay, and resize2fs moves them at the risk of a crash.
#[test]
fn the_minimum_is_that_of_resize2fs_or_less() {
    let is_compared = |kind: &&Kind| kind.has_kernel() && kind.has_journal();
    for seed in seeds() {
        for kind in Kind::ALL.iter().filter(is_compared) {
            let image = kind.make(kind.blocks * u64::from(kind.block_size));
            scatter(&image, seed);
            let ours = minimum(&image);
            let theirs = minimum_of_resize2fs(&image);
            let name = kind.name;
            eprintln!("{name}, seed {seed}: {ours} blocks, resize2fs {theirs:?}");
            let is_least = theirs.is_none_or(|theirs| ours <= theirs);
            assert!(is_least, "{name}, seed {seed}: {ours}, not {theirs:?}");
        }
    }
}

#[test]
fn inodes_stay_where_their_numbers_count_or_no_journal_is() {
    let without_journal = Kind::NO_JOURNAL.make(12 << 20);
    let stable = Kind::named("ext4").make(12 << 20);
    super::change_superblock(&stable.main, |disk| {
        let mut features = disk.features();
        features.insert(uext4::format::Feature::STABLE_INODES);
        disk.set_features(features);
    });
    for image in [without_journal, stable] {
        image.mounted(|fs| {
            // More than the first group has inodes for, and most of those free again.
            let count = fs.statfs().inodes_free * 2 / 3;
            for at in 0..count {
                fs.paths().write(format!("/{at}"), b"").expect("a file");
            }
            for at in 0..count / 2 {
                fs.paths().remove_file(format!("/{at}")).expect("removes");
            }
        });
        let why = match shrink_to(&image, 100) {
            Err(Error::Resize(ResizeError::TooSmall { why, .. })) => why,
            other => panic!("{other:?}"),
        };
        let name = image.kind.name;
        let is_kept = matches!(
            why,
            InTheWay::InodesWithoutJournal { .. } | InTheWay::StableInodes { .. }
        );
        assert!(is_kept, "{name}: {why}");
    }
}
