//! Moves of files: content, free space, e2fsck, and users meanwhile.

use super::*;
use crate::parts::file::{FallocateMode, Position, WritePolicy};
use crate::test_rig::Rig;
use std::ops::ControlFlow;
use uext4_format::InodeFlags;
use uext4_sync::Rng;
use uext4_sync::atomic::{AtomicBool, Ordering};

/// Kinds of file systems, as options of mke2fs.
const KINDS: [&[&str]; 5] = [
    &["-b", "4096"],
    &["-b", "1024"],
    &["-b", "1024", "-O", "^extent,^64bit"],
    &["-b", "1024", "-O", "bigalloc", "-C", "16384"],
    &["-b", "4096", "-O", "^has_journal"],
];

fn go_on(_moved: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// Content of byte `at`.
fn byte(at: u64) -> u8 {
    (at / 256 * 31 + at) as u8
}

fn content(bytes: Range<u64>) -> Vec<u8> {
    bytes.map(byte).collect()
}

/// Writes a file, and moves its units to scattered places.
fn scatter(rig: &Rig, units: u64, unit_bytes: u64) {
    let data = content(0..units * unit_bytes);
    let position = Position::Offset(0);
    file::write(
        rig.fs(),
        rig.file.arc(),
        position,
        &data,
        WritePolicy::INTERNAL,
    )
    .expect("writes");
    let size = rig.fs().base.geometry.blocks_count * rig.fs().block_bytes();
    for unit in 0..units {
        let bytes = unit * unit_bytes..(unit + 1) * unit_bytes;
        let to = Destination::Near(unit * 7_919_777_777 % size);
        let moved = rig.mounted.relocate(&rig.file, bytes, to);
        assert_eq!(moved.expect("moves"), unit_bytes);
    }
}

fn assert_content(rig: &Rig, len: u64) {
    let mut found = vec![0; len as usize + 1];
    let read = file::read(rig.fs(), &rig.file, 0, &mut found).expect("reads");
    assert_eq!(read as u64, len);
    assert!(found[..read] == content(0..len), "other data");
}

fn extents(rig: &Rig) -> usize {
    layout::extents(rig.fs(), &rig.file).expect("walks").len()
}

#[test]
fn a_scattered_file_comes_together() {
    for kind in KINDS {
        let rig = Rig::new(64, kind);
        let unit = rig.fs().base.geometry.cluster_size();
        let blocks = 400;
        scatter(&rig, blocks, unit);
        let before = extents(&rig);
        assert!(before > 50, "{kind:?}: {before}");
        rig.mounted.sync().expect("syncs");
        let (free, sectors) = (
            rig.fs().space.statfs(&rig.fs().base).blocks_free,
            sectors(&rig),
        );
        let options = DefragOptions::default();
        let report = rig.mounted.defragment(&rig.file, &options, &mut go_on);
        let report = report.expect("defragments");
        assert_eq!(report.extents_before, before as u64);
        assert_eq!(report.extents_after, extents(&rig) as u64);
        assert!(report.extents_after <= 2, "{kind:?}: {report:?}");
        assert_eq!(report.left_alone, None);
        assert_content(&rig, blocks * unit);
        rig.mounted.sync().expect("syncs");
        let tree = (sectors - self::sectors(&rig)) * 512 / rig.fs().block_bytes();
        assert_eq!(
            rig.fs().space.statfs(&rig.fs().base).blocks_free,
            free + tree
        );
        let again = rig.mounted.defragment(&rig.file, &options, &mut go_on);
        let again = again.expect("defragments");
        assert_eq!(
            (again.moved_bytes, again.extents_after),
            (0, report.extents_after)
        );
        let rig = rig.remount();
        assert_content(&rig, blocks * unit);
        rig.assert_clean();
    }
}

fn sectors(rig: &Rig) -> u64 {
    rig.file.read().disk.sectors(&rig.fs().base.geometry)
}

/// Random writes, holes, unwritten space and moves, against plain bytes.
#[test]
fn moves_keep_the_content() {
    for (index, kind) in KINDS.into_iter().enumerate() {
        for seed in 0..4 {
            moves_of(kind, index as u64 * 100 + seed);
        }
    }
}

fn moves_of(kind: &[&str], seed: u64) {
    let mut rig = Rig::new(32, kind);
    let mut rng = Rng::new(seed);
    let mut model = vec![0u8; 1 << 20];
    let mut size = 0;
    for step in 0..120 {
        let from = rng.below(model.len() as u64 - 1);
        let len = 1 + rng.below((model.len() as u64 - from).min(60_000));
        let bytes = from as usize..(from + len) as usize;
        match rng.below(10) {
            0..=3 => {
                let data: Vec<u8> = (0..len).map(|_| rng.below(256) as u8).collect();
                let position = Position::Offset(from);
                file::write(
                    rig.fs(),
                    rig.file.arc(),
                    position,
                    &data,
                    WritePolicy::INTERNAL,
                )
                .expect("writes");
                model[bytes].copy_from_slice(&data);
                size = size.max(from + len);
            }
            4 => {
                let mode = FallocateMode::PunchHole;
                file::fallocate(
                    rig.fs(),
                    rig.file.arc(),
                    mode,
                    from..from + len,
                    WritePolicy::INTERNAL,
                )
                .expect("punches");
                model[bytes].fill(0);
            }
            5 => {
                let mode = FallocateMode::AllocateKeepSize;
                let done = file::fallocate(
                    rig.fs(),
                    rig.file.arc(),
                    mode,
                    from..from + len,
                    WritePolicy::INTERNAL,
                );
                let refused = matches!(done, Err(Error::NotSupported(_)));
                assert!(done.is_ok() || refused, "{done:?}");
            }
            6 => {
                let options = DefragOptions::default();
                let done = rig.mounted.defragment(&rig.file, &options, &mut go_on);
                let done = done.expect("defragments");
                assert!(done.extents_after <= done.extents_before, "{done:?}");
                if done.moved_bytes > 0 {
                    assert!(done.extents_after < done.extents_before, "{done:?}");
                }
            }
            7 if step % 3 == 0 => rig = rig.remount(),
            _ => {
                let place = rng.below(32 << 20);
                let to = if rng.chance(1, 4) {
                    Destination::Before((8 << 20) + place)
                } else {
                    Destination::Near(place)
                };
                let moved = rig.mounted.relocate(&rig.file, from..from + len, to);
                moved.expect("moves");
            }
        }
        let mut found = vec![0; model.len()];
        let read = file::read(rig.fs(), &rig.file, 0, &mut found).expect("reads");
        assert_eq!(read as u64, size, "seed {seed} step {step}");
        assert!(found == model, "seed {seed} step {step}: other data");
    }
    rig.assert_clean();
}

#[test]
fn data_move_below_a_limit() {
    let rig = Rig::new(64, &["-b", "1024"]);
    let limit = 20 << 20;
    let position = Position::Offset(0);
    let data = content(0..1 << 20);
    file::write(
        rig.fs(),
        rig.file.arc(),
        position,
        &data,
        WritePolicy::INTERNAL,
    )
    .expect("writes");
    let high = Destination::Near(40 << 20);
    assert_eq!(
        rig.mounted
            .relocate(&rig.file, 0..1 << 20, high)
            .expect("moves"),
        1 << 20
    );
    let first = |rig: &Rig| {
        layout::extents(rig.fs(), &rig.file).expect("walks")[0]
            .start
            .0
            << 10
    };
    assert!(first(&rig) >= 32 << 20);
    let low = Destination::Before(limit);
    assert_eq!(
        rig.mounted
            .relocate(&rig.file, 0..1 << 20, low)
            .expect("moves"),
        1 << 20
    );
    for extent in layout::extents(rig.fs(), &rig.file).expect("walks") {
        assert!((extent.start.0 + u64::from(extent.len_blocks)) << 10 <= limit);
    }
    let nowhere = Destination::Before(4096);
    let refused = rig.mounted.relocate(&rig.file, 0..1 << 20, nowhere);
    assert!(matches!(refused, Err(Error::NoSpace)), "{refused:?}");
    assert_content(&rig, 1 << 20);
    rig.assert_clean();
}

#[test]
fn locked_files_and_others_are_left_alone() {
    let rig = Rig::new(32, &["-b", "1024"]);
    let options = DefragOptions::default();
    let root = rig.mounted.root().expect("the root");
    let refused = rig.mounted.defragment(&root, &options, &mut go_on);
    assert!(matches!(refused, Err(Error::IsDirectory)), "{refused:?}");
    scatter(&rig, 40, 1024);
    let dry = DefragOptions { dry_run: true };
    let report = rig
        .mounted
        .defragment(&rig.file, &dry, &mut go_on)
        .expect("looks");
    assert_eq!((report.moved_bytes, report.extents_fewest), (0, 1));
    assert_eq!(report.extents_before, report.extents_after);
    for flag in [InodeFlags::IMMUTABLE, InodeFlags::APPEND] {
        let handle = rig
            .fs()
            .start(crate::types::credits::ATTRIBUTES)
            .expect("a handle");
        handle.write(rig.file.arc()).disk.flags.insert(flag);
        drop(handle);
        let report = rig.mounted.defragment(&rig.file, &options, &mut go_on);
        let report = report.expect("looks");
        assert_eq!(report.left_alone, Some(LeftAlone::Locked));
        let handle = rig
            .fs()
            .start(crate::types::credits::ATTRIBUTES)
            .expect("a handle");
        handle.write(rig.file.arc()).disk.flags.remove(flag);
    }
    rig.assert_clean();
}

#[test]
fn data_in_the_inode_stay_there() {
    let rig = Rig::new(32, &["-b", "4096", "-O", "inline_data", "-I", "256"]);
    let file = rig.mounted.paths().create("/inline").expect("a file");
    let inode = file.inode();
    let data = content(1..60);
    file.write_all_at(0, &data).expect("writes");
    assert!(!layout::has_blocks(&inode.read()));
    let options = DefragOptions::default();
    let report = rig.mounted.defragment(inode, &options, &mut go_on);
    let report = report.expect("looks");
    assert_eq!(
        (report.extents_before, report.left_alone),
        (0, Some(LeftAlone::Ideal))
    );
    let moved = rig
        .mounted
        .relocate(inode, 0..4096, Destination::Near(1 << 20));
    assert_eq!(moved.expect("looks"), 0);
    let mut go_on = |_| ControlFlow::Continue(());
    let done = rig.mounted.compact(&CompactOptions::default(), &mut go_on);
    done.expect("compacts");
    assert_eq!(rig.mounted.paths().read("/inline").expect("reads"), data);
    drop(file);
    rig.assert_clean();
}

/// Readers and writers of every byte while the file moves to and fro.
#[test]
fn users_see_their_data_while_the_file_moves() {
    for kind in KINDS {
        let rig = Rig::new(64, kind);
        let unit = rig.fs().base.geometry.cluster_size();
        let len = 200 * unit;
        scatter(&rig, 200, unit);
        let ending = AtomicBool::new(false);
        let reader = |seed: u64| {
            let mut rng = Rng::new(seed);
            let mut reads = 0u32;
            while !ending.load(Ordering::Relaxed) || reads == 0 {
                let from = rng.below(len - 5000);
                let mut found = vec![0; 5000];
                file::read(rig.fs(), &rig.file, from, &mut found).expect("reads");
                assert!(found == content(from..from + 5000), "at {from}");
                reads += 1;
            }
        };
        let writer = |seed: u64| {
            let mut rng = Rng::new(seed);
            let mut writes = 0u32;
            while !ending.load(Ordering::Relaxed) || writes == 0 {
                let from = rng.below(len - 3000);
                let data = content(from..from + 3000);
                let position = Position::Offset(from);
                file::write(
                    rig.fs(),
                    rig.file.arc(),
                    position,
                    &data,
                    WritePolicy::INTERNAL,
                )
                .expect("writes");
                writes += 1;
            }
        };
        std::thread::scope(|scope| {
            (0..2).for_each(|seed| drop(scope.spawn(move || reader(seed))));
            (2..4).for_each(|seed| drop(scope.spawn(move || writer(seed))));
            for round in 0..20u64 {
                let to = Destination::Near((round * 7 % 60) << 20);
                let moved = rig.mounted.relocate(&rig.file, 0..len, to);
                assert_eq!(moved.expect("moves"), len, "{kind:?}");
            }
            ending.store(true, Ordering::Relaxed);
        });
        assert_content(&rig, len);
        rig.assert_clean();
    }
}

#[test]
fn free_space_comes_together_at_the_end() {
    for kind in KINDS {
        let rig = Rig::new(64, kind);
        let root = rig.mounted.root().expect("the root");
        let paths = rig.mounted.paths();
        let name = |n: u64| format!("/file {n}");
        for n in 0..40 {
            paths
                .write(name(n), content(n..n + (1 << 20)))
                .expect("writes");
        }
        for n in (0..40).filter(|n| n % 3 != 0) {
            paths.remove_file(name(n)).expect("removes");
        }
        rig.mounted.sync().expect("syncs");
        let last = || {
            let last_of = |n: u64| {
                let inode = paths.inode(name(n)).expect("a file");
                let extents = layout::extents(rig.fs(), &inode).expect("walks");
                let ends = extents
                    .iter()
                    .map(|last| last.start.0 + u64::from(last.len_blocks));
                ends.max().unwrap_or(0)
            };
            (0..40).step_by(3).map(last_of).max()
        };
        let before = (
            last(),
            rig.fs().space.free_at_end(&rig.fs().base).expect("looks"),
        );
        let plan = rig
            .mounted
            .compact(&CompactOptions { dry_run: true }, &mut |_| {
                ControlFlow::Break(())
            });
        let plan = plan.expect("plans");
        assert!(plan.planned_bytes > 0 && plan.moved_bytes == 0, "{plan:?}");
        let mut told = 0;
        let done = rig
            .mounted
            .compact(&CompactOptions::default(), &mut |progress| {
                assert!(
                    progress.moved_bytes >= told && progress.moved_bytes <= progress.total_bytes
                );
                told = progress.moved_bytes;
                ControlFlow::Continue(())
            });
        let done = done.expect("compacts");
        assert_eq!(done.moved_bytes, done.planned_bytes, "{kind:?}: {done:?}");
        let after = (
            last(),
            rig.fs().space.free_at_end(&rig.fs().base).expect("looks"),
        );
        assert!(after.0 < before.0, "{kind:?}: {before:?} {after:?}");
        assert!(after.1 >= before.1, "{kind:?}: {before:?} {after:?}");
        // Data lie at the front: no free run of a file's length is before the last data.
        let again = rig
            .mounted
            .compact(&CompactOptions { dry_run: true }, &mut |_| {
                ControlFlow::Continue(())
            });
        assert!(again.expect("plans").planned_bytes <= 64 << 10, "{kind:?}");
        for n in (0..40).step_by(3) {
            let found = paths.read(name(n)).expect("reads");
            assert!(found == content(n..n + (1 << 20)), "{kind:?}: file {n}");
        }
        drop((root, paths));
        rig.assert_clean();
    }
}

#[test]
fn a_stopped_job_leaves_what_moved() {
    let rig = Rig::new(64, &["-b", "1024"]);
    scatter(&rig, 2000, 1024);
    let before = extents(&rig);
    let options = DefragOptions::default();
    let mut stop = |_| ControlFlow::Break(());
    let report = rig.mounted.defragment(&rig.file, &options, &mut stop);
    let report = report.expect("defragments");
    assert!(
        report.extents_after < before as u64 && report.extents_after > 1,
        "{report:?}"
    );
    assert_content(&rig, 2000 * 1024);
    rig.assert_clean();
}
