//! The block map of a file: from logical blocks to device blocks.
//!
//! Two on-disk formats, selected by the inode's flag EXTENTS: a tree of extents ([`extents`]), and
//! the indirect blocks of ext2 and ext3 ([`indirect`]). All access to both goes through this
//! module.
//!
//! Invariants: a change leaves a valid tree at every step, also when it fails for lack of space.
//! `i_blocks` counts data and tree blocks, in whole clusters.
//! Locking: the inode's state lock guards the whole walk or change. Callers pass the state they
//! locked; tree nodes are locked one at a time.
//! Not here: data I/O and zeroing (`file`), choice of blocks (`space`), inline data.

mod change;
mod clusters;
mod extents;
mod growth;
mod indirect;
mod limits;
mod runs;
mod status;
#[cfg(test)]
mod tests;
mod usage;
mod use_extents;

pub(crate) use crate::cache::extent_status::Mapping;
use crate::state::engine::Fs;
use crate::state::inode::InodeState;
use crate::types::error::{Error, Result};
use limits::check_run;
use uext4_format::extent::Extent;
use uext4_format::{BlockNr, Feature, InodeFlags, LogicalBlock};
use uext4_num::usize_of;

pub(crate) use change::{
    insert, insert_block, mark_unwritten, mark_written, mark_written_around, remove, replace,
    replace_cost, shift_left, shift_right,
};
pub(crate) use clusters::{cluster_mate, free_moved};
pub(crate) use extents::{join_at, mapped_end, shift_cost, split_at};
pub(crate) use growth::{tree_growth, tree_growth_max};
pub(crate) use limits::{block_end, insert_max_blocks, size_end_bytes};
pub(crate) use runs::{extent_around, for_each};
pub(crate) use uext4_format::extent::{ExtentState, LOGICAL_BLOCKS as LOGICAL_END};
pub(crate) use use_extents::{BlockMap, use_extents};

/// A mapped run of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapped {
    /// First block of the file.
    pub(crate) logical: LogicalBlock,
    /// First block on the device.
    pub(crate) start: BlockNr,
    /// Length in blocks.
    pub(crate) len_blocks: u32,
    /// Whether the blocks hold data.
    pub(crate) state: ExtentState,
}

impl Mapped {
    /// End in the file, in blocks.
    pub(crate) fn end(&self) -> u64 {
        u64::from(self.logical.0) + u64::from(self.len_blocks)
    }

    /// Whether `next` follows in the file and on the device, in the same state.
    pub(crate) fn is_followed_by(&self, next: &Mapped) -> bool {
        self.end() == u64::from(next.logical.0)
            && self.start.0 + u64::from(self.len_blocks) == next.start.0
            && self.state == next.state
    }

    /// As an entry of a tree, if it is as short as one.
    fn extent(&self) -> Option<Extent> {
        Some(Extent {
            logical: self.logical,
            start: self.start,
            len: u16::try_from(self.len_blocks).ok()?,
            state: self.state,
        })
    }
}

/// Progress of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// All of the range is unmapped.
    Done,
    /// The handle's credits are used up: restart it, and continue with the range up to `end`.
    More {
        /// New exclusive end of the range, in blocks.
        end: u64,
    },
}

/// True when the inode maps by extents.
pub(crate) fn has_extents(state: &InodeState) -> bool {
    state.disk.flags.contains(InodeFlags::EXTENTS)
}

/// Makes the inode an empty file or directory mapped by extents, or by block tables on a file
/// system without extents.
pub(crate) fn init(fs: &Fs, state: &mut InodeState) {
    status::forget_all(state);
    state.disk.i_block.fill(0);
    if fs.features.has(Feature::EXTENTS) {
        state.disk.flags.insert(InodeFlags::EXTENTS);
        uext4_format::extent::ExtentNode::init_root(&mut state.disk.i_block[..], 0);
    }
}

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
    state.status.note(&fs.extent_status, state.nr(), at, found);
    Ok(found.cut(max_blocks.max(1)))
}

/// Whether the lookup must read blocks outside the inode.
fn is_deep(state: &InodeState, at: LogicalBlock) -> bool {
    if has_extents(state) {
        extents::depth(state) > 0
    } else {
        at.0 >= uext4_format::indirect::DIRECT_BLOCKS
    }
}

/// Whether the whole map is in the inode.
pub(crate) fn is_in_inode(state: &InodeState) -> bool {
    if has_extents(state) {
        extents::depth(state) == 0
    } else {
        let tables = &state.disk.i_block[4 * usize_of(uext4_format::indirect::DIRECT_BLOCKS)..];
        tables.iter().all(|byte| *byte == 0)
    }
}

/// Number of extents of a file whose inode holds all of them; `None` for other files.
pub(crate) fn extents_in_inode(state: &InodeState) -> Option<usize> {
    let is_plain = has_extents(state) && extents::depth(state) == 0;
    is_plain.then(|| extents::root_entries(state))
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
fn search(fs: &Fs, state: &InodeState, at: LogicalBlock, max_blocks: u32) -> Result<Mapping> {
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
    let block = |at| block_of(fs, state, LogicalBlock(at))?.ok_or_else(&hole);
    (0..count).map(block).collect()
}

/// The goal for block `at`: behind the blocks mapped before it.
pub(crate) fn goal(fs: &Fs, state: &InodeState, at: LogicalBlock) -> Result<Option<BlockNr>> {
    let goal = if has_extents(state) {
        extents::goal(fs, state, at)?
    } else {
        indirect::goal(fs, state, at)?
    };
    Ok(goal.filter(|goal| fs.geometry.contains(*goal)))
}
