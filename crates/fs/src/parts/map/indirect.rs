//! Block tables of ext2 and ext3: 12 direct blocks, then tables of one, two and three levels.
//!
//! Invariants: an empty table is freed with its last pointer. Tables carry no checksum; their
//! pointers are validated when they are read, and three levels bound every walk.
//! References: kernel documentation, "ifork" (direct/indirect block addressing).

mod each;
mod remove;
mod replace;
mod tables;
mod walk;

use super::tree_blocks::new_tree_block;
use crate::cache::extent_status::Mapping;
use crate::cache::meta::Seal;
use crate::state::engine::Fs;
use crate::state::inode::InodeState;
use crate::types::error::{Error, Result};
use uext4_format::indirect::{IndirectPath, pointer, set_pointer};
use uext4_format::{BlockNr, BlockRun, Corrupt, CorruptKind, DamageLocation, LogicalBlock};
use uext4_journal::Handle;
use uext4_num::{clamp_u32, u64_of, usize_of};
use walk::{Step, Table, run_from, span, walk};

pub(super) use each::for_each;
pub(super) use remove::{STEP_CREDITS, free_empty_tables, reach, remove_last};
pub(super) use replace::{cost as replace_cost, replace};
pub(super) use tables::tables;

/// Largest block number that fits in a table.
const BLOCK_MAX: u64 = (1 << 32) - 1;

/// Number of missing tables on the path to a block.
pub(super) fn growth(fs: &Fs, state: &InodeState, at: LogicalBlock) -> Result<u64> {
    let Some(path) = IndirectPath::new(at, fs.block_size()) else {
        return Ok(0);
    };
    let there = walk(fs, state, &path)?.len();
    Ok(u64_of((path.indirect_levels() + 1).saturating_sub(there)))
}

/// The mapping at `at`, for at most `max_blocks` blocks.
pub(super) fn lookup(
    fs: &Fs,
    state: &InodeState,
    at: LogicalBlock,
    max_blocks: u32,
) -> Result<Mapping> {
    let Some(path) = IndirectPath::new(at, fs.block_size()) else {
        return Ok(Mapping::Hole {
            len_blocks: max_blocks,
        });
    };
    let steps = walk(fs, state, &path)?;
    let level = steps.len() - 1;
    let last = &steps[level];
    if level < path.indirect_levels() {
        let (offset, size) = span(fs, &path, level);
        let left = (size - offset).min(u64::from(max_blocks));
        return Ok(Mapping::Hole {
            len_blocks: clamp_u32(left),
        });
    }
    let max_blocks = max_blocks.min(path.run_blocks());
    Ok(last
        .table
        .read(state, |table| run_from(table, last.at, max_blocks)))
}

/// The goal for `at`: behind the nearest pointer before the block in its table, or behind the
/// table.
pub(super) fn goal(fs: &Fs, state: &InodeState, at: LogicalBlock) -> Result<Option<BlockNr>> {
    let Some(path) = IndirectPath::new(at, fs.block_size()) else {
        return Ok(None);
    };
    let steps = walk(fs, state, &path)?;
    let last = steps.last().expect("the root is always there");
    let before = last.table.read(state, |table| {
        let mut positions = (0..last.at.min(clamp_u32(table.len()) / 4)).rev();
        positions.find_map(|position| {
            let block = pointer(table, usize_of(position));
            (block.0 != 0).then_some(block.0)
        })
    });
    let table = match &last.table {
        Table::Root => None,
        Table::Block(block) => Some(block.nr().0),
    };
    Ok(before.or(table).map(|block| BlockNr(block + 1)))
}

/// Maps a run into a hole. All tables are allocated first, so that a failure leaves only empty
/// tables.
pub(super) fn insert(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &mut InodeState,
    at: LogicalBlock,
    run: BlockRun,
) -> Result<()> {
    if run.start.0 + u64::from(run.len_blocks) - 1 > BLOCK_MAX {
        return Err(Error::NoSpace);
    }
    let mut parts = Vec::new();
    let mut done = 0;
    while done < run.len_blocks {
        let logical =
            at.0.checked_add(done)
                .map(LogicalBlock)
                .ok_or(Error::TooLarge)?;
        let path = IndirectPath::new(logical, fs.block_size()).ok_or(Error::TooLarge)?;
        let step = make_tables(fs, handle, state, &path, run.start)?;
        let len = path.run_blocks().min(run.len_blocks - done);
        let taken = step.table.read(state, |table| {
            (step.at..step.at + len).any(|at| pointer(table, usize_of(at)).0 != 0)
        });
        if taken {
            let place = DamageLocation::Inode(state.nr());
            return Err(Corrupt::new(place, "block map", CorruptKind::FilledHole).into());
        }
        parts.push((step, done, len));
        done += len;
    }
    for (step, done, len) in parts {
        step.table.edit(handle, state, |table| {
            for index in 0..len {
                let block = BlockNr(run.start.0 + u64::from(done + index));
                set_pointer(table, usize_of(step.at + index), block);
            }
        });
    }
    Ok(())
}

/// The last table on the path to a block; missing ones are allocated.
fn make_tables(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &mut InodeState,
    path: &IndirectPath,
    goal: BlockNr,
) -> Result<Step> {
    let mut steps = walk(fs, state, path)?;
    while steps.len() <= path.indirect_levels() {
        let parent = steps.last().expect("the root is always there");
        let nr = new_tree_block(fs, handle, state, Some(goal))?;
        let image = vec![0; fs.block_size()].into();
        let table = Table::Block(fs.blocks.create(handle, nr, Seal::Indirect, image));
        parent.table.edit(handle, state, |bytes| {
            set_pointer(bytes, usize_of(parent.at), nr)
        });
        steps.push(Step {
            table,
            at: path.offsets()[steps.len()],
        });
    }
    Ok(steps.pop().expect("the root is always there"))
}
