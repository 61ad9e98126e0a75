//! Look-ups in a map of either format, through the cache of the extent status.

use super::limits::check_run;
use super::root::{has_extents, is_deep};
use super::{extents, indirect};
use crate::cache::extent_status::Mapping;
use crate::state::engine::Fs;
use crate::state::inode::InodeState;
use crate::types::error::{Error, Result};
use uext4_format::{BlockNr, LogicalBlock};

/// The mapping at `at`, for at most `max_blocks` blocks (at least one).
///
/// # Errors
/// [`crate::Error::Corrupt`] for damage in the tree, or a mapping outside the data area.
pub(crate) fn lookup(
    fs: &Fs,
    state: &InodeState,
    at: LogicalBlock,
    max_blocks: u32,
) -> Result<Mapping> {
    if let Some(found) = state.status.find(at) {
        debug_assert!(agrees(fs, state, at, found), "the extent status is stale");
        return Ok(found.cut(max_blocks.max(1)));
    }
    if !is_deep(state, at) {
        return search(fs, state, at, max_blocks);
    }
    let found = search(fs, state, at, search_blocks(state, max_blocks))?;
    state
        .status
        .record(&fs.extent_status, state.nr(), at, found);
    Ok(found.cut(max_blocks.max(1)))
}

/// Length to search for: a whole extent costs nothing more, pointers are read one by one.
fn search_blocks(state: &InodeState, max_blocks: u32) -> u32 {
    if has_extents(state) {
        u32::MAX
    } else {
        max_blocks
    }
}

/// Whether the map on disk has the same mapping of `at`.
fn agrees(fs: &Fs, state: &InodeState, at: LogicalBlock, found: Mapping) -> bool {
    let truth = search(fs, state, at, 1);
    truth.map_or(true, |truth| truth == found.cut(1))
}

/// Looks the mapping up in the map itself.
pub(super) fn search(
    fs: &Fs,
    state: &InodeState,
    at: LogicalBlock,
    max_blocks: u32,
) -> Result<Mapping> {
    let max_blocks = max_blocks.max(1);
    let found = if has_extents(state) {
        extents::lookup(fs, state, at)?.cut(max_blocks)
    } else {
        indirect::lookup(fs, state, at, max_blocks)?
    };
    if let Mapping::Mapped {
        start, len_blocks, ..
    } = found
    {
        check_run(fs, state, start, len_blocks)?;
    }
    Ok(found)
}

/// The device block of block `at`, written or not.
pub(crate) fn block_of(fs: &Fs, state: &InodeState, at: LogicalBlock) -> Result<Option<BlockNr>> {
    Ok(match lookup(fs, state, at, 1)? {
        Mapping::Hole { .. } => None,
        Mapping::Mapped { start, .. } => Some(start),
    })
}

/// The device blocks of the first `count` blocks of a file; `hole` is the error for a hole.
pub(crate) fn blocks_of(
    fs: &Fs,
    state: &InodeState,
    count: u32,
    hole: impl Fn() -> Error,
) -> Result<Vec<BlockNr>> {
    (0..count)
        .map(|at| block_of(fs, state, LogicalBlock(at))?.ok_or_else(&hole))
        .collect()
}

/// The goal for block `at`: behind the blocks mapped before it.
pub(crate) fn goal(fs: &Fs, state: &InodeState, at: LogicalBlock) -> Result<Option<BlockNr>> {
    let goal = if has_extents(state) {
        extents::goal(fs, state, at)?
    } else {
        indirect::goal(fs, state, at)?
    };
    Ok(goal.filter(|goal| fs.base.geometry.contains(*goal)))
}
