//! Changes of a map in both formats: insert, convert, replace and shift blocks.
//!
//! Invariants: a range leaves the extent status cache before its map changes, and is noted for the
//! next fast commit.
//! Not here: removal (`remove`); the changes of one format (`extents`, `indirect`).

use super::clusters::{cluster_mate, fresh_blocks};
use super::limits::block_end;
use super::lookup::goal;
use super::root::has_extents;
use super::runs::extent_around;
use super::status::{self, record_change};
use super::tree_blocks::cluster_around;
use super::usage::{charge, discharge};
use super::{extents, indirect};
use crate::state::engine::Fs;
use crate::state::inode::InodeState;
use crate::state::space::Reserve;
use crate::types::error::{Error, Result};
use std::ops::Range;
use uext4_format::extent::{ExtentState, LOGICAL_BLOCKS};
use uext4_format::{BlockNr, BlockRun, FileType, LogicalBlock};
use uext4_journal::{FullReason, Handle};

/// Maps `run`, which the handle's transaction allocated, into the hole at `at`.
///
/// # Errors
/// [`Error::NoSpace`] when a tree block cannot be allocated, [`Error::TooLarge`] when the inode's
/// block count cannot grow: the mapped part of `run` is unmapped again, and the caller still owns
/// the run.
pub(crate) fn insert(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &mut InodeState,
    at: LogicalBlock,
    run: BlockRun,
    written: ExtentState,
) -> Result<()> {
    let range = block_range(at, run.len_blocks);
    if state.disk.file_type() == Some(FileType::Directory) {
        // e2fsck replays names into the blocks that the directory has.
        handle.require_full(FullReason::Directory);
    }
    record_change(handle, state, &range);
    status::changing(state, range, |state| {
        insert_run(fs, handle, state, at, run, written)
    })
}

fn insert_run(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &mut InodeState,
    at: LogicalBlock,
    run: BlockRun,
    written: ExtentState,
) -> Result<()> {
    let fresh = fresh_blocks(fs, state, at, run.len_blocks)?;
    // Before the map changes: the count has a limit, and the caller frees a run that is refused.
    charge(fs, handle, state, fresh)?;
    let inserted = if has_extents(state) {
        extents::insert(fs, handle, state, at, run, written)
    } else if written == ExtentState::Written {
        indirect::insert(fs, handle, state, at, run)
    } else {
        Err(Error::NotSupported(
            "unwritten blocks in a file without extents",
        ))
    };
    if inserted.is_err() {
        discharge(fs, handle, state, fresh);
    }
    inserted
}

/// Allocates one block for a directory near its neighbours, and maps it at `at`.
///
/// # Errors
/// [`Error::NoSpace`]; nothing is mapped then.
pub(crate) fn insert_block(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &mut InodeState,
    at: LogicalBlock,
) -> Result<BlockNr> {
    let one = |start| BlockRun {
        start,
        len_blocks: 1,
    };
    if let Some(block) = cluster_mate(fs, state, at)? {
        insert(fs, handle, state, at, one(block), ExtentState::Written)?;
        return Ok(block);
    }
    let (goal, end) = (goal(fs, state, at)?, block_end(state));
    let (nr, reserve) = (state.nr(), Reserve::MayUse);
    let block = fs
        .space
        .allocate_block(&fs.base, handle, goal, nr, reserve, end)?;
    // The offset in the cluster must be the same in the file and on disk.
    let block = BlockNr(block.0 + u64::from(at.0 % fs.base.geometry.blocks_per_cluster()));
    let inserted = insert(fs, handle, state, at, one(block), ExtentState::Written);
    if inserted.is_err() {
        fs.space.free(&fs.base, handle, cluster_around(fs, block))?;
    }
    inserted.map(|()| block)
}

/// Marks `len_blocks` blocks from `at` on written: they hold data now.
///
/// # Errors
/// [`Error::NoSpace`] when extents must be split and no tree block is free. Some blocks from the
/// front may be converted; zero the rest on disk and use [`mark_written_around`].
pub(crate) fn mark_written(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &mut InodeState,
    at: LogicalBlock,
    len_blocks: u32,
) -> Result<()> {
    if !has_extents(state) {
        return Ok(());
    }
    let range = block_range(at, len_blocks);
    set_state(fs, handle, state, range, ExtentState::Written)
}

/// Marks the whole extent around `at` written, without a split. The caller has zeroed the blocks of
/// it that hold no data yet.
pub(crate) fn mark_written_around(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &mut InodeState,
    at: LogicalBlock,
) -> Result<()> {
    match extent_around(fs, state, at)? {
        None => Ok(()),
        Some(extent) => mark_written(fs, handle, state, extent.logical, extent.len_blocks),
    }
}

/// Marks mapped blocks unwritten: they read as zeroes from then on.
///
/// # Errors
/// [`Error::NoSpace`] as [`mark_written`]; [`Error::NotSupported`] without extents.
pub(crate) fn mark_unwritten(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &mut InodeState,
    at: LogicalBlock,
    len_blocks: u32,
) -> Result<()> {
    if !has_extents(state) {
        return Err(Error::NotSupported(
            "unwritten blocks in a file without extents",
        ));
    }
    let range = block_range(at, len_blocks);
    set_state(fs, handle, state, range, ExtentState::Unwritten)
}

/// Gives the mapped blocks of a range the state `wanted`. The file has extents.
fn set_state(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &mut InodeState,
    range: Range<u64>,
    wanted: ExtentState,
) -> Result<()> {
    record_change(handle, state, &range);
    status::changing(state, range.clone(), |state| {
        extents::set_state(fs, handle, state, range, wanted)
    })
}

/// Maps the mapped blocks of `range` to the blocks from `start` on, which have the data: each at
/// its distance from the start of the range. States and holes stay, and extents merge where they
/// join. Nothing is charged or freed.
///
/// # Errors
/// [`Error::NoSpace`] when an extent must be split and no tree block is free. The mapping is
/// unchanged then.
pub(crate) fn replace(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &mut InodeState,
    range: Range<u64>,
    start: BlockNr,
) -> Result<()> {
    handle.require_full(FullReason::Shift);
    status::changing(state, range.clone(), |state| {
        if has_extents(state) {
            extents::replace(fs, handle, state, range, start)
        } else {
            indirect::replace(fs, handle, state, range, start)
        }
    })
}

/// Bound on the blocks that [`replace`] logs beyond [`crate::types::credits::MAP`]. Stops counting
/// soon after `max`.
pub(crate) fn replace_cost(
    fs: &Fs,
    state: &InodeState,
    range: Range<u64>,
    max: u32,
) -> Result<u32> {
    if has_extents(state) {
        extents::replace_cost(fs, state, range, max)
    } else {
        Ok(indirect::replace_cost(fs, &range))
    }
}

/// Shifts the extents of the first leaf that has some from `at` on to the left by `by` blocks,
/// which are a hole before `at`. Returns where the rest begins; `None` when all are shifted.
pub(crate) fn shift_left(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &mut InodeState,
    at: u64,
    by: u32,
) -> Result<Option<u64>> {
    handle.require_full(FullReason::Shift);
    let moved = at.saturating_sub(by.into())..LOGICAL_BLOCKS;
    status::changing(state, moved, |state| {
        extents::shift_left(fs, handle, state, at, by)
    })
}

/// Shifts the extents of the last leaf that has some in `range` to the right by `by` blocks.
/// Returns before which block the rest ends; `None` when all are shifted.
pub(crate) fn shift_right(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &mut InodeState,
    range: Range<u64>,
    by: u32,
) -> Result<Option<u64>> {
    handle.require_full(FullReason::Shift);
    status::changing(state, range.start..LOGICAL_BLOCKS, |state| {
        extents::shift_right(fs, handle, state, range, by)
    })
}

fn block_range(at: LogicalBlock, len_blocks: u32) -> Range<u64> {
    u64::from(at.0)..u64::from(at.0) + u64::from(len_blocks)
}
