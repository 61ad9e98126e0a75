//! The map of a file: which block of the device holds which block of the file.
//!
//! Two forms on disk, told by the inode's flag EXTENTS: a tree of extents ([`extents`]), and the
//! tables of block numbers of ext2 and ext3 ([`indirect`]). This is the only door to both.
//!
//! Invariants: a change leaves a valid tree at every step, also when it fails for lack of space.
//! `i_blocks` counts data and tree blocks, in whole clusters.
//! Locking: the inode's state lock guards the whole walk or change. Callers pass the state they
//! locked; tree nodes are locked one at a time.
//! Not here: data I/O and zeroing (`file`), choice of blocks (`space`), inline data.

mod clusters;
mod extents;
mod growth;
mod indirect;
mod status;
#[cfg(test)]
mod tests;

use crate::inode::InodeState;
use crate::quota::Usage;
use crate::space::Reserve;
use crate::{Error, Fs, Result};
use std::ops::{ControlFlow, Range};
use uext4_format::{BlockNr, BlockRun, Corrupt, Feature, InodeFlags, LogicalBlock, Place};
use uext4_journal::Handle;

pub(crate) use clusters::cluster_mate;
pub(crate) use extents::{join_at, mapped_end, split_at};
pub(crate) use growth::{tree_growth, tree_growth_max};
pub use status::ExtentStatusStats;
pub(crate) use status::{ExtentStatus, StatusSlot, forget_all};
pub(crate) use uext4_format::extent::ExtentState;

/// What stands at a block of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mapping {
    /// Nothing, for at least this many blocks.
    Hole {
        /// Length in blocks.
        len_blocks: u32,
    },
    /// Consecutive blocks of the device.
    Mapped {
        /// Where the block stands.
        start: BlockNr,
        /// Length in blocks from there on.
        len_blocks: u32,
        /// Whether data stands in them.
        state: ExtentState,
    },
}

impl Mapping {
    /// Length in blocks.
    pub(crate) fn len_blocks(&self) -> u32 {
        match *self {
            Mapping::Hole { len_blocks } | Mapping::Mapped { len_blocks, .. } => len_blocks,
        }
    }

    fn cut(self, max_blocks: u32) -> Self {
        match self {
            Mapping::Hole { len_blocks } => Mapping::Hole {
                len_blocks: len_blocks.min(max_blocks),
            },
            Mapping::Mapped {
                start,
                len_blocks,
                state,
            } => Mapping::Mapped {
                start,
                len_blocks: len_blocks.min(max_blocks),
                state,
            },
        }
    }
}

/// A mapped stretch of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapped {
    /// First block of the file.
    pub(crate) logical: LogicalBlock,
    /// Where it stands.
    pub(crate) start: BlockNr,
    /// Length in blocks.
    pub(crate) len_blocks: u32,
    /// Whether data stands there.
    pub(crate) state: ExtentState,
}

/// How far a removal came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// All of the range is unmapped.
    Done,
    /// The handle's credits are used up: restart it, and go on with the range up to `end`.
    More {
        /// New exclusive end of the range, in blocks.
        end: u64,
    },
}

/// Blocks of a file are numbered below this.
pub(crate) const LOGICAL_END: u64 = uext4_format::extent::LOGICAL_BLOCKS;

/// True when the inode maps by extents.
pub(crate) fn has_extents(state: &InodeState) -> bool {
    state.disk.flags.contains(InodeFlags::EXTENTS)
}

/// Makes the inode an empty file or directory mapped by extents, or by block tables on a file
/// system without extents.
pub(crate) fn init(fs: &Fs, state: &mut InodeState) {
    forget_all(state);
    state.disk.i_block.fill(0);
    if fs.features.has(Feature::EXTENTS) {
        state.disk.flags.insert(InodeFlags::EXTENTS);
        uext4_format::extent::ExtentNode::init_root(&mut state.disk.i_block[..], 0);
    }
}

/// What stands at `at`, for at most `max_blocks` blocks (at least one).
///
/// # Errors
/// [`Error::Corrupt`] for damage in the tree, or a mapping outside the data area.
pub(crate) fn lookup(
    fs: &Fs,
    state: &InodeState,
    at: LogicalBlock,
    max_blocks: u32,
) -> Result<Mapping> {
    if let Some(found) = status::find(state, at) {
        debug_assert!(agrees(fs, state, at, found), "the extent status is stale");
        return Ok(found.cut(max_blocks.max(1)));
    }
    if !is_deep(state, at) {
        return search(fs, state, at, max_blocks);
    }
    let found = search(fs, state, at, search_blocks(state, max_blocks))?;
    status::note(&fs.extent_status, state, at, found);
    Ok(found.cut(max_blocks.max(1)))
}

/// True when finding the block takes more than a look into the inode.
fn is_deep(state: &InodeState, at: LogicalBlock) -> bool {
    if has_extents(state) {
        extents::depth(state) > 0
    } else {
        at.0 >= uext4_format::indirect::DIRECT_BLOCKS
    }
}

/// True when no block holds a part of the map.
fn is_in_inode(state: &InodeState) -> bool {
    if has_extents(state) {
        extents::depth(state) == 0
    } else {
        let tables = &state.disk.i_block[4 * uext4_format::indirect::DIRECT_BLOCKS as usize..];
        tables.iter().all(|byte| *byte == 0)
    }
}

/// How far to look: an extent costs nothing to know whole, pointers are read one by one.
fn search_blocks(state: &InodeState, max_blocks: u32) -> u32 {
    if has_extents(state) {
        u32::MAX
    } else {
        max_blocks
    }
}

/// True when the map on disk says the same of `at`.
fn agrees(fs: &Fs, state: &InodeState, at: LogicalBlock, found: Mapping) -> bool {
    let truth = search(fs, state, at, 1);
    truth.map_or(true, |truth| truth == found.cut(1))
}

/// Looks into the map itself.
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

/// Where block `at` stands, written or not.
pub(crate) fn block_of(fs: &Fs, state: &InodeState, at: LogicalBlock) -> Result<Option<BlockNr>> {
    Ok(match lookup(fs, state, at, 1)? {
        Mapping::Hole { .. } => None,
        Mapping::Mapped { start, .. } => Some(start),
    })
}

/// Maps `run`, which the handle's transaction allocated, at `at`, where there must be a hole.
///
/// # Errors
/// [`Error::NoSpace`] when a block of the tree cannot be allocated: what was mapped of `run` is
/// unmapped again, and the run is still the caller's.
pub(crate) fn insert(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &mut InodeState,
    at: LogicalBlock,
    run: BlockRun,
    written: ExtentState,
) -> Result<()> {
    let range = block_range(at, run.len_blocks);
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
    let fresh = clusters::fresh_blocks(fs, state, at, run.len_blocks)?;
    if has_extents(state) {
        extents::insert(fs, handle, state, at, run, written)?;
    } else if written == ExtentState::Written {
        indirect::insert(fs, handle, state, at, run)?;
    } else {
        return Err(Error::NotSupported(
            "unwritten blocks in a file without extents",
        ));
    }
    charge(fs, handle, state, fresh)
}

/// Allocates one block for a directory and maps it at `at`, next to what stands around it.
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
    let goal = goal(fs, state, at)?;
    let block = fs
        .space
        .allocate_block(fs, handle, goal, state.nr(), Reserve::MayUse)?;
    // The place in its cluster must be the same in the file and on disk.
    let block = BlockNr(block.0 + u64::from(at.0 % fs.geometry.blocks_per_cluster()));
    let inserted = insert(fs, handle, state, at, one(block), ExtentState::Written);
    if inserted.is_err() {
        fs.space.free(fs, handle, clusters::around(fs, block))?;
    }
    inserted.map(|()| block)
}

/// Makes `len_blocks` blocks from `at` on written: data stands in them now.
///
/// # Errors
/// [`Error::NoSpace`] when extents must be split and no tree block can be had: some blocks from
/// the front may be converted; zero the rest on disk and use [`mark_written_around`].
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
    status::changing(state, range.clone(), |state| {
        extents::set_state(fs, handle, state, range, ExtentState::Written)
    })
}

/// Makes the whole extent around `at` written, without a split. The caller has zeroed what of it
/// holds no data yet.
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

/// The whole extent that maps `at`; `None` for holes and files without extents.
pub(crate) fn extent_around(
    fs: &Fs,
    state: &InodeState,
    at: LogicalBlock,
) -> Result<Option<Mapped>> {
    if !has_extents(state) {
        return Ok(None);
    }
    let found = extents::find(fs, state, at)?;
    if let Some(extent) = &found {
        check_run(fs, state, extent.start, extent.len_blocks)?;
    }
    Ok(found)
}

/// Makes blocks unwritten that are mapped already: they read as zeroes from then on.
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
    status::changing(state, range.clone(), |state| {
        extents::set_state(fs, handle, state, range, ExtentState::Unwritten)
    })
}

/// Unmaps the blocks of `range` from its end on, and frees them and the tree blocks that become
/// empty. Stops when the handle's credits run out, but always gets somewhere.
pub(crate) fn remove(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &mut InodeState,
    range: Range<u64>,
) -> Result<Progress> {
    if range.is_empty() {
        return Ok(Progress::Done);
    }
    status::changing(state, range.clone(), |state| {
        if has_extents(state) {
            extents::remove(fs, handle, state, range)
        } else {
            indirect::remove(fs, handle, state, range)
        }
    })
}

/// Moves the extents of the first leaf that has some from `at` on to the left by `by` blocks,
/// which are a hole before `at`; answers where the rest begins, until there is none.
pub(crate) fn shift_left(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &mut InodeState,
    at: u64,
    by: u32,
) -> Result<Option<u64>> {
    let moved = at.saturating_sub(by.into())..LOGICAL_END;
    status::changing(state, moved, |state| {
        extents::shift_left(fs, handle, state, at, by)
    })
}

/// Moves the extents of the last leaf that has some in `range` to the right by `by` blocks; answers
/// before which block the rest ends, until there is none.
pub(crate) fn shift_right(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &mut InodeState,
    range: Range<u64>,
    by: u32,
) -> Result<Option<u64>> {
    status::changing(state, range.start..LOGICAL_END, |state| {
        extents::shift_right(fs, handle, state, range, by)
    })
}

/// Calls `visit` for every mapped stretch that meets `range` (in blocks), cut to it, in order.
pub(crate) fn for_each(
    fs: &Fs,
    state: &InodeState,
    range: Range<u64>,
    mut visit: impl FnMut(Mapped) -> ControlFlow<()>,
) -> Result<()> {
    let (mut at, end) = (range.start, range.end.min(LOGICAL_END));
    while at < end {
        let logical = LogicalBlock(at as u32);
        let max_blocks = (end - at).min(u64::from(u32::MAX)) as u32;
        // Stretch by stretch as they stand in the map, not as the extent status joins them.
        let mapping = search(fs, state, logical, max_blocks)?;
        if let Mapping::Mapped {
            start,
            len_blocks,
            state,
        } = mapping
            && visit(Mapped {
                logical,
                start,
                len_blocks,
                state,
            })
            .is_break()
        {
            break;
        }
        at += u64::from(mapping.len_blocks());
    }
    Ok(())
}

/// Where block `at` should stand: behind what is mapped before it.
pub(crate) fn goal(fs: &Fs, state: &InodeState, at: LogicalBlock) -> Result<Option<BlockNr>> {
    let goal = if has_extents(state) {
        extents::goal(fs, state, at)?
    } else {
        indirect::goal(fs, state, at)?
    };
    Ok(goal.filter(|goal| fs.geometry.contains(*goal)))
}

/// Blocks that one [`insert`] under [`crate::credits::MAP`] may map at most.
pub(crate) fn insert_max_blocks(fs: &Fs, state: &InodeState) -> u32 {
    if has_extents(state) {
        u32::from(uext4_format::extent::Extent::max_len_blocks(
            ExtentState::Unwritten,
        ))
    } else {
        uext4_format::indirect::pointers_per_block(fs.block_size()) as u32
    }
}

/// Blocks from this one on have no number in the map of such a file.
pub(crate) fn block_end(state: &InodeState) -> Option<BlockNr> {
    (!has_extents(state)).then_some(BlockNr(1 << 32))
}

/// The largest size in bytes that a file of this form can have.
pub(crate) fn size_end_bytes(fs: &Fs, state: &InodeState) -> u64 {
    let bits = fs.geometry.block_bits;
    let inline = state.disk.flags.contains(InodeFlags::INLINE_DATA);
    if has_extents(state) || (inline && fs.features.has(Feature::EXTENTS)) {
        return LOGICAL_END << bits;
    }
    let blocks = uext4_format::indirect::max_blocks(fs.block_size()).min(LOGICAL_END);
    // Without the HUGE_FILE form, i_blocks counts sectors in 32 bits; e2fsprogs and the kernel
    // keep room for the tables, too.
    let huge = fs.features.has(Feature::HUGE_FILE);
    let sectors_max = if huge {
        u64::MAX >> 16
    } else {
        u64::from(u32::MAX)
    };
    let tables = blocks / uext4_format::indirect::pointers_per_block(fs.block_size()) + 1;
    blocks.min((sectors_max >> (bits - 9)).saturating_sub(2 * tables)) << bits
}

fn block_range(at: LogicalBlock, len_blocks: u32) -> Range<u64> {
    u64::from(at.0)..u64::from(at.0) + u64::from(len_blocks)
}

/// Adds blocks to what the inode occupies, and its owners use.
fn charge(fs: &Fs, handle: &Handle<'_>, state: &mut InodeState, blocks: u64) -> Result<()> {
    let more = blocks << (fs.geometry.block_bits - 9);
    let sectors = state.disk.sectors(&fs.geometry) + more;
    state
        .disk
        .set_sectors(sectors, &fs.geometry)
        .map_err(|_| Error::TooLarge)?;
    fs.quota.charge(handle, state, Usage::sectors(more));
    Ok(())
}

/// Takes blocks from what the inode occupies.
fn discharge(fs: &Fs, handle: &Handle<'_>, state: &mut InodeState, blocks: u64) {
    let sectors = state.disk.sectors(&fs.geometry);
    let left = sectors.saturating_sub(blocks << (fs.geometry.block_bits - 9));
    // Cannot fail: the number gets smaller.
    let _ = state.disk.set_sectors(left, &fs.geometry);
    let less = Usage::sectors(sectors - left).less();
    fs.quota.charge(handle, state, less);
}

/// Answers damage unless all blocks of the run may hold data.
fn check_run(fs: &Fs, state: &InodeState, start: BlockNr, len_blocks: u32) -> Result<()> {
    if fs.space.may_hold_run(start, len_blocks.into()) {
        return Ok(());
    }
    let place = Place::InodeBlock(state.nr(), start);
    Err(Corrupt::new(place, "block map", "blocks outside the data area").into())
}

/// The blocks of the file system that a tree may name.
fn block_bounds(fs: &Fs) -> Range<u64> {
    u64::from(fs.geometry.first_data_block)..fs.geometry.blocks_count
}
