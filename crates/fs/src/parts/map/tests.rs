//! Model test: the map against one entry per block.

mod high_blocks;

use super::*;
use crate::parts::file::{self, FallocateMode, Position, WritePolicy};
use crate::state::engine::Fs;
use crate::state::inode::InodeState;
use crate::state::space::{Purpose, Reserve, Want};
use crate::test_rig::{Rig, proptest_config};
use crate::types::credits;
use crate::types::error::Error;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use uext4_format::extent::{Extent, ExtentNode};
use uext4_format::{BlockNr, BlockRun, InodeFlags, LogicalBlock};
use uext4_num::low_u32;

type Model = BTreeMap<u32, (u64, ExtentState)>;

#[derive(Clone, Debug)]
enum Step {
    Insert {
        at: u32,
        len: u32,
        state: ExtentState,
        scatter: u64,
    },
    Mark {
        at: u32,
        len: u32,
        state: ExtentState,
    },
    Remove {
        from: u32,
        len: u32,
    },
    Replace {
        from: u32,
        len: u32,
        scatter: u64,
    },
    Remount,
}

fn steps(reach: u32, written_only: bool) -> impl Strategy<Value = Vec<Step>> {
    let state = prop_oneof![Just(ExtentState::Written), Just(ExtentState::Unwritten)];
    let state = state.prop_map(move |state| {
        if written_only {
            ExtentState::Written
        } else {
            state
        }
    });
    let len = prop_oneof![6 => Just(1u32), 1 => 1u32..40, 1 => 1u32..400];
    let step = prop_oneof![
        30 => (0..reach, len.clone(), state.clone(), any::<u64>())
            .prop_map(|(at, len, state, scatter)| Step::Insert { at, len, state, scatter }),
        6 => (0..reach, len.clone(), state)
            .prop_map(|(at, len, state)| Step::Mark { at, len, state }),
        4 => (0..reach, len.clone()).prop_map(|(from, len)| Step::Remove { from, len }),
        6 => (0..reach, len, any::<u64>())
            .prop_map(|(from, len, scatter)| Step::Replace { from, len, scatter }),
        1 => (0..reach, 0..reach).prop_map(|(from, len)| Step::Remove { from, len: len / 4 }),
        1 => Just(Step::Remount),
    ];
    prop::collection::vec(step, 400..900)
}

fn apply(rig: &Rig, model: &mut Model, step: &Step) {
    let fs = rig.fs();
    match *step {
        Step::Insert {
            at,
            len,
            state,
            scatter,
        } => insert_step(rig, model, at, len, state, scatter),
        Step::Mark { at, len, state } => {
            let mapped = (at..at + len)
                .take_while(|block| model.contains_key(block))
                .count() as u32;
            let handle = fs.start(credits::MAP).expect("a handle");
            let mut inode = handle.write(rig.file.arc());
            match state {
                ExtentState::Unwritten if !has_extents(&inode) => return,
                ExtentState::Unwritten => {
                    mark_unwritten(fs, &handle, &mut inode, LogicalBlock(at), mapped)
                }
                ExtentState::Written => {
                    mark_written(fs, &handle, &mut inode, LogicalBlock(at), mapped)
                }
            }
            .expect("marks");
            for block in at..at + mapped {
                model.get_mut(&block).expect("mapped").1 = state;
            }
        }
        Step::Remove { from, len } => {
            remove_step(rig, from, len);
            model.retain(|block, _| !(from..from + len).contains(block));
        }
        Step::Replace { from, len, scatter } => {
            replace_step(rig, model, from, len, scatter);
        }
        Step::Remount => {}
    }
}

/// Moves the blocks from the first mapped one at or behind `from` on up to the next hole, to a run
/// near `scatter`.
fn replace_step(rig: &Rig, model: &mut Model, from: u32, len: u32, scatter: u64) -> u32 {
    let fs = rig.fs();
    let Some((&from, _)) = model.range(from..).next() else {
        return 0;
    };
    let mapped = (from..from + len).take_while(|block| model.contains_key(block));
    let run = reserve(rig, mapped.count() as u32, scatter);
    let range = u64::from(from)..u64::from(from + run.len_blocks);
    let handle = fs.start(credits::MAP + 200).expect("a handle");
    fs.space.commit(&fs.base, &handle, run).expect("commits");
    let mut inode = handle.write(rig.file.arc());
    let sectors = inode.disk.sectors(&fs.base.geometry);
    let mut old = Vec::new();
    for_each(fs, &inode, range.clone(), |mapped| {
        old.push(mapped);
        ControlFlow::Continue(())
    })
    .expect("walks");
    replace(fs, &handle, &mut inode, range.clone(), run.start).expect("replaces");
    free_moved(fs, &handle, &inode, &old).expect("frees");
    if !has_extents(&inode) {
        assert_eq!(inode.disk.sectors(&fs.base.geometry), sectors);
    }
    assert_joined(fs, &inode, from.saturating_sub(1).into()..range.end + 1);
    for (offset, block) in (from..from + run.len_blocks).enumerate() {
        model.get_mut(&block).expect("mapped").0 = run.start.0 + offset as u64;
    }
    run.len_blocks
}

/// Asserts that no two extents in the range could be one.
fn assert_joined(fs: &Fs, inode: &InodeState, range: std::ops::Range<u64>) {
    let mut left: Option<Extent> = None;
    for_each(fs, inode, range, |mapped| {
        let right = mapped.extent().expect("short");
        let joins = left.is_some_and(|left| left.joins(&right));
        assert!(!joins || !has_extents(inode), "{left:?} and {right:?}");
        left = Some(right);
        ControlFlow::Continue(())
    })
    .expect("walks");
}

/// Reserves up to `len` blocks near `scatter`.
fn reserve(rig: &Rig, len: u32, scatter: u64) -> BlockRun {
    let fs = rig.fs();
    let want = Want {
        goal: Some(BlockNr(1 + scatter % (fs.base.geometry.blocks_count - 1))),
        len_blocks: len,
        min_blocks: 1,
        inode: rig.file.nr(),
        purpose: Purpose::Data,
        reserve: Reserve::MayUse,
        end: block_end(&rig.file.read()),
    };
    let run = fs.space.reserve_or_commit(&fs.base, &want).expect("space");
    BlockRun {
        len_blocks: run.len_blocks.min(len),
        ..run
    }
}

fn insert_step(rig: &Rig, model: &mut Model, at: u32, len: u32, state: ExtentState, scatter: u64) {
    let fs = rig.fs();
    let len = (at..at + len)
        .take_while(|block| !model.contains_key(block))
        .count() as u32;
    if len == 0 {
        return;
    }
    let run = reserve(rig, len, scatter);
    let handle = fs.start(credits::MAP).expect("a handle");
    fs.space.commit(&fs.base, &handle, run).expect("commits");
    let mut inode = handle.write(rig.file.arc());
    insert(fs, &handle, &mut inode, LogicalBlock(at), run, state).expect("inserts");
    let end = u64::from(at + run.len_blocks) << fs.base.geometry.block_bits;
    inode.disk.size = inode.disk.size.max(end);
    for offset in 0..run.len_blocks {
        model.insert(at + offset, (run.start.0 + u64::from(offset), state));
    }
}

fn remove_step(rig: &Rig, from: u32, len: u32) {
    let fs = rig.fs();
    let mut handle = fs.start(credits::TRUNCATE).expect("a handle");
    let mut range = u64::from(from)..u64::from(from) + u64::from(len);
    loop {
        let progress = {
            let mut inode = handle.write(rig.file.arc());
            remove(fs, &handle, &mut inode, range.clone()).expect("removes")
        };
        match progress {
            Progress::Done => break,
            Progress::More { end } => {
                assert!(end < range.end, "gets somewhere");
                range.end = end;
            }
        }
        handle.restart(credits::TRUNCATE).expect("restarts");
    }
}

/// Compares every block, by lookups and by iteration.
fn compare(rig: &Rig, model: &Model, reach: u32) {
    let (fs, inode) = (rig.fs(), rig.file.read());
    let mut found = Model::new();
    for_each(fs, &inode, 0..LOGICAL_END, |mapped| {
        for offset in 0..mapped.len_blocks {
            let block = mapped.start.0 + u64::from(offset);
            found.insert(mapped.logical.0 + offset, (block, mapped.state));
        }
        ControlFlow::Continue(())
    })
    .expect("walks");
    assert_eq!(&found, model);
    for block in (0..reach).step_by(7) {
        let expected = model.get(&block).map(|(block, _)| BlockNr(*block));
        assert_eq!(
            block_of(fs, &inode, LogicalBlock(block)).expect("looks up"),
            expected
        );
    }
}

fn run(options: &[&str], reach: u32, steps: &[Step]) {
    let mut rig = Rig::new(64, options);
    let mut model = Model::new();
    for (index, step) in steps.iter().enumerate() {
        apply(&rig, &mut model, step);
        if matches!(step, Step::Remount) {
            rig = rig.remount();
        }
        if index % 50 == 0 {
            compare(&rig, &model, reach);
        }
    }
    compare(&rig, &model, reach);
    rig = rig.remount();
    compare(&rig, &model, reach);
    remove_step(&rig, 0, u32::MAX);
    assert_eq!(rig.file.read().disk.blocks_raw, 0);
    rig = rig.remount();
    rig.assert_clean();
}

proptest! {
    #![proptest_config(proptest_config(6))]
    #[test]
    fn extents_are_like_the_model(steps in steps(6000, false)) {
        run(&["-b", "1024"], 6000, &steps);
    }
    #[test]
    fn tables_are_like_the_model(steps in steps(70_000, true)) {
        run(&["-b", "1024", "-O", "^extent,^64bit"], 70_000, &steps);
    }
}

/// Inserts single blocks without neighbours: one extent each.
fn scattered(rig: &Rig, model: &mut Model, blocks: impl Iterator<Item = u32>) {
    for block in blocks {
        insert_step(
            rig,
            model,
            block,
            1,
            ExtentState::Written,
            u64::from(block) * 7919,
        );
    }
}

fn depth(rig: &Rig) -> u16 {
    ExtentNode::new(&rig.file.read().disk.i_block[..]).depth()
}

#[test]
fn a_tree_grows_and_comes_back() {
    for reverse in [false, true] {
        let mut rig = Rig::new(64, &["-b", "1024"]);
        let mut model = Model::new();
        let blocks = (0..20_000u32).map(|index| index * 2);
        match reverse {
            false => scattered(&rig, &mut model, blocks),
            true => scattered(&rig, &mut model, blocks.rev()),
        }
        assert_eq!(
            depth(&rig),
            2,
            "84 extents a leaf, 84 leaves an index block, 4 in the root"
        );
        compare(&rig, &model, 40_000);
        rig = rig.remount();
        compare(&rig, &model, 40_000);
        for block in (0..40_000).step_by(3001) {
            replace_step(&rig, &mut model, block, 1, u64::from(block) * 31);
        }
        compare(&rig, &model, 40_000);
        // Holes in the middle, across leaves; then all but four.
        remove_step(&rig, 10_000, 15_000);
        model.retain(|block, _| !(10_000..25_000).contains(block));
        compare(&rig, &model, 40_000);
        remove_step(&rig, 8, u32::MAX - 8);
        model.retain(|block, _| *block < 8);
        assert_eq!(depth(&rig), 0, "four extents fit the inode");
        let asked = || {
            let status = rig.fs().extent_status.stats();
            (status.entries, status.hits + status.misses)
        };
        let before = asked();
        compare(&rig, &model, 40_000);
        assert_eq!((0, before.1), asked(), "nothing is kept of it any more");
        assert_eq!(rig.file.read().disk.blocks_raw, 8);
        rig.assert_clean();
    }
}

/// A comb without holes becomes one extent, and its leaves and levels go.
#[test]
fn a_deep_tree_comes_back_by_replacement() {
    for options in [&["-b", "1024"][..], &["-b", "4096"][..]] {
        let rig = Rig::new(128, options);
        let mut model = Model::new();
        let blocks = 9000;
        // Scattered over the front, so that there are long free runs behind it.
        for block in (0..blocks).map(|block| block * 7919 % blocks) {
            let goal = 9_000 + u64::from(block) * 31 % 10_000;
            insert_step(&rig, &mut model, block, 1, ExtentState::Written, goal);
        }
        assert_eq!(depth(&rig), 2);
        let mut at = 0;
        while at < blocks {
            let goal = at.checked_sub(1).map_or(21_000, |left| model[&left].0 + 1);
            at += replace_step(&rig, &mut model, at, 500, goal);
        }
        compare(&rig, &model, blocks);
        let mut extents = 0;
        for_each(rig.fs(), &rig.file.read(), 0..LOGICAL_END, |_| {
            extents += 1;
            ControlFlow::Continue(())
        })
        .expect("walks");
        assert!(extents < 80, "{extents} in {} levels", depth(&rig));
        rig.assert_clean();
    }
}

#[test]
fn without_space_for_a_split_nothing_is_replaced() {
    let rig = Rig::new(16, &["-b", "1024"]);
    let mut model = Model::new();
    let (file, mode) = (rig.file.arc(), FallocateMode::Allocate);
    file::fallocate(rig.fs(), file, mode, 0..400 << 10, WritePolicy::INTERNAL).expect("allocates");
    for_each(rig.fs(), &rig.file.read(), 0..400, |mapped| {
        let blocks = (0..mapped.len_blocks).map(|offset| {
            let block = mapped.start.0 + u64::from(offset);
            (mapped.logical.0 + offset, (block, mapped.state))
        });
        model.extend(blocks);
        ControlFlow::Continue(())
    })
    .expect("walks");
    // The root gets full: each replaced block makes two more extents.
    replace_step(&rig, &mut model, 100, 1, 9000);
    assert_eq!(depth(&rig), 0);
    let run = reserve(&rig, 1, 12_000);
    let all = rig.take_all();
    let handle = rig.fs().start(credits::MAP).expect("a handle");
    let mut inode = handle.write(file);
    let failed = replace(rig.fs(), &handle, &mut inode, 200..201, run.start);
    assert!(matches!(failed, Err(Error::NoSpace)), "{failed:?}");
    drop(inode);
    drop(handle);
    rig.give_all(all);
    rig.fs().space.unreserve(run);
    compare(&rig, &model, 400);
    assert_joined(rig.fs(), &rig.file.read(), 0..400);
    rig.assert_clean();
}

#[test]
fn a_deep_tree_is_clean() {
    let rig = Rig::new(64, &["-b", "1024"]);
    let mut model = Model::new();
    // A stride that visits all even blocks in a scattered order.
    scattered(
        &rig,
        &mut model,
        (0..30_000u32).map(|index| index * 7919 % 30_000 * 2),
    );
    assert!(depth(&rig) >= 2);
    compare(&rig, &model, 60_000);
    rig.assert_clean();
}

/// A real file needs 200 million extents for this depth; here nodes with one entry fill the path.
#[test]
fn the_deepest_tree_is_kept_and_pulled_back() {
    let mut rig = Rig::new(64, &["-b", "1024"]);
    let mut model = Model::new();
    scattered(&rig, &mut model, (0..4).map(|block| block * 50_000));
    for level in 1..=5 {
        let handle = rig.fs().start(credits::MAP).expect("a handle");
        let mut inode = handle.write(rig.file.arc());
        extents::deepen(rig.fs(), &handle, &mut inode).expect("grows");
        assert_eq!(root::depth(&inode), level);
    }
    // More extents than a leaf holds: nodes of every level below the root split.
    scattered(
        &rig,
        &mut model,
        (1..9000u32).map(|index| index * 7919 % 9000 * 20),
    );
    assert_eq!(depth(&rig), 5);
    compare(&rig, &model, 200_000);
    for block in (0..200_000).step_by(1777) {
        replace_step(&rig, &mut model, block, 7, u64::from(block) * 31);
    }
    rig = rig.remount();
    compare(&rig, &model, 200_000);
    remove_step(&rig, 100_001, u32::MAX - 100_001);
    model.retain(|block, _| *block <= 100_000);
    compare(&rig, &model, 200_000);
    remove_step(&rig, 61, u32::MAX - 61);
    model.retain(|block, _| *block <= 60);
    assert_eq!(depth(&rig), 0, "what is left fits the inode");
    compare(&rig, &model, 200_000);
    assert_eq!(rig.file.read().disk.blocks_raw, 2 * model.len() as u64);
    rig.assert_clean();
}

#[test]
fn long_extents_stop_at_their_limits() {
    let rig = Rig::new(512, &["-b", "4096"]);
    let fs = rig.fs();
    let file = rig.file.arc();
    let mode = FallocateMode::Allocate;
    file::fallocate(fs, file, mode, 0..300 << 20, WritePolicy::INTERNAL).expect("allocates");
    for len in [40_000u32, 76_800] {
        let handle = fs.start(credits::MAP).expect("a handle");
        let mut inode = handle.write(file);
        mark_written(fs, &handle, &mut inode, LogicalBlock(0), len).expect("marks");
    }
    let handle = fs.start(credits::MAP).expect("a handle");
    mark_unwritten(
        fs,
        &handle,
        &mut handle.write(file),
        LogicalBlock(0),
        76_800,
    )
    .expect("marks");
    drop(handle);
    rig.assert_clean();
}

/// Damaged trees without checksums: errors, but no panic and no endless loop.
fn damage(options: &[&str], hits: &[(u16, u16, u8)]) {
    let mut rig = Rig::new(16, options);
    let mut model = Model::new();
    scattered(&rig, &mut model, (0..1500u32).map(|index| index * 3));
    rig = rig.remount();
    let blocks = tree_blocks(&rig);
    for (block, offset, byte) in hits {
        let block = blocks[usize::from(*block) % blocks.len()];
        let at = (block << 10) + u64::from(*offset) % 1024;
        uext4_device::BlockDevice::write_at(&*rig.device, at, &[*byte]).expect("writes");
    }
    let (fs, file) = (rig.fs(), rig.file.arc());
    let inode = file.read();
    let _ = for_each(fs, &inode, 0..LOGICAL_END, |_| ControlFlow::Continue(()));
    for block in (0..4500).step_by(100) {
        let _ = lookup(fs, &inode, LogicalBlock(block), 100);
        let _ = goal(fs, &inode, LogicalBlock(block));
    }
    drop(inode);
    let (position, mode) = (Position::Offset(1_000_000), FallocateMode::PunchHole);
    let _ = file::write(fs, file, position, &[1; 50_000], WritePolicy::INTERNAL);
    let _ = file::fallocate(fs, file, mode, 500_000..590_000, WritePolicy::INTERNAL);
    let _ = file::truncate(fs, file, 100_000);
    let _ = file::truncate(fs, file, 0);
    rig.mounted.abandon();
}

fn tree_blocks(rig: &Rig) -> Vec<u64> {
    let (fs, inode) = (rig.fs(), rig.file.read());
    let root = &inode.disk.i_block;
    if has_extents(&inode) {
        return ExtentNode::new(&root[..])
            .indexes()
            .map(|index| index.child.0)
            .collect();
    }
    let pointer = |table: &[u8], at| uext4_format::indirect::pointer(table, at).0;
    let double = pointer(root, 13);
    let bytes = fs.base.journal.read_block(BlockNr(double)).expect("reads");
    let below = (0..256)
        .map(|at| pointer(&bytes, at))
        .filter(|block| *block != 0);
    [pointer(root, 12), double]
        .into_iter()
        .chain(below)
        .collect()
}

proptest! {
    #![proptest_config(proptest_config(20))]
    #[test]
    fn damaged_extents_are_errors(hits in prop::collection::vec(any::<(u16, u16, u8)>(), 1..20)) {
        damage(&["-b", "1024", "-O", "^metadata_csum"], &hits);
    }
    #[test]
    fn damaged_headers_are_errors(
        hits in prop::collection::vec((any::<u16>(), 0u16..24, any::<u8>()), 1..6),
    ) {
        damage(&["-b", "1024", "-O", "^metadata_csum"], &hits);
    }
    #[test]
    fn damaged_tables_are_errors(
        hits in prop::collection::vec((any::<u16>(), any::<u16>(), 0u8..64), 1..20),
    ) {
        damage(&["-b", "1024", "-O", "^metadata_csum,^extent,^64bit"], &hits);
    }
}

/// A table that names itself, on all levels, claims to map 2^24 blocks.
#[test]
fn a_table_that_names_itself_is_read_once() {
    use uext4_format::indirect::{pointer, set_pointer};
    let rig = Rig::new(16, &["-b", "1024", "-O", "^metadata_csum,^extent,^64bit"]);
    let mut model = Model::new();
    scattered(&rig, &mut model, [12].into_iter());
    let rig = rig.remount();
    let table = pointer(&rig.file.read().disk.i_block, 12);
    let all = low_u32(table.0).to_le_bytes().repeat(256);
    uext4_device::BlockDevice::write_at(&*rig.device, table.0 << 10, &all).expect("writes");
    let (fs, file) = (rig.fs(), rig.file.arc());
    let handle = fs.start(credits::MAP).expect("a handle");
    let mut inode = handle.write(file);
    for level in 13..15 {
        set_pointer(&mut inode.disk.i_block, level, table);
    }
    let mut runs = 0;
    let walked = for_each(fs, &inode, 0..LOGICAL_END, |_| {
        runs += 1;
        ControlFlow::Continue(())
    });
    assert!(matches!(walked, Err(Error::Corrupt(_))), "{walked:?}");
    assert!(runs <= 256, "{runs}");
    drop(inode);
    drop(handle);
    rig.mounted.abandon();
}

/// Makes the empty file one of ext3.
fn use_tables(rig: &Rig) {
    let handle = rig.fs().start(credits::MAP).expect("a handle");
    let mut inode = handle.write(rig.file.arc());
    inode.disk.flags.remove(InodeFlags::EXTENTS);
    inode.disk.i_block.fill(0);
}

fn give_extents(rig: &Rig) -> crate::types::error::Result<()> {
    let fs = rig.fs();
    let old = BlockMap::read(fs, &rig.file.read(), u32::MAX).expect("reads");
    let old = old.expect("any number of credits");
    let handle = fs.start(old.credits()).expect("a handle");
    let mut inode = handle.write(rig.file.arc());
    use_extents(fs, &handle, &mut inode, &old)?;
    let spare = handle.credits_left();
    assert!(spare > 0, "{} credits are too few", old.credits());
    Ok(())
}

#[test]
fn tables_become_a_tree_or_stay_without_space() {
    for runs in [0, 1, 4, 5, 83, 84, 90, 700, 7100] {
        let mut rig = Rig::new(64, &["-b", "1024", "-O", "^64bit"]);
        use_tables(&rig);
        let mut model = Model::new();
        scattered(&rig, &mut model, (0..runs).map(|index| index * 9 + 7));
        let kept = |inode: &InodeState| (inode.disk.i_block, inode.disk.blocks_raw);
        let before = kept(&rig.file.read());
        let all = rig.take_all();
        let full = give_extents(&rig);
        assert_eq!(full.is_err(), runs > 4, "{runs}: {full:?}");
        if runs > 4 {
            assert!(matches!(full, Err(Error::NoSpace)), "{full:?}");
            let inode = rig.file.read();
            assert_eq!(before, kept(&inode));
            assert!(!has_extents(&inode));
        }
        compare(&rig, &model, runs * 9 + 20);
        rig.give_all(all);
        if runs > 4 {
            rig.mounted.sync().expect("syncs");
            give_extents(&rig).expect("space");
        }
        assert!(has_extents(&rig.file.read()));
        compare(&rig, &model, runs * 9 + 20);
        rig = rig.remount();
        compare(&rig, &model, runs * 9 + 20);
        rig.assert_clean();
    }
}
