//! Limits of a map's format: maximum file size, length of one change, and valid block numbers.

use super::root::has_extents;
use crate::state::engine::Fs;
use crate::state::inode::InodeState;
use crate::types::error::Result;
use std::ops::Range;
use uext4_format::extent::{Extent, ExtentState, LOGICAL_BLOCKS};
use uext4_format::indirect::{max_blocks, pointers_per_block};
use uext4_format::{BlockNr, Corrupt, CorruptKind, DamageLocation, Feature, InodeFlags, InodeNr};
use uext4_num::clamp_u32;

/// Blocks that one [`super::insert`] under [`crate::types::credits::MAP`] may map at most.
pub(crate) fn insert_max_blocks(fs: &Fs, state: &InodeState) -> u32 {
    if has_extents(state) {
        u32::from(Extent::max_len_blocks(ExtentState::Unwritten))
    } else {
        clamp_u32(pointers_per_block(fs.block_size()))
    }
}

/// First block number that the map of such a file cannot store.
pub(crate) fn block_end(state: &InodeState) -> Option<BlockNr> {
    (!has_extents(state)).then_some(BlockNr(1 << 32))
}

/// The largest size in bytes of a file with this format.
///
/// Without the feature HUGE_FILE, `i_blocks` counts sectors in 32 bits, which limits files of both
/// formats.
pub(crate) fn size_end_bytes(fs: &Fs, state: &InodeState) -> u64 {
    let bits = fs.base.geometry.block_bits;
    let huge = fs.base.features.has(Feature::HUGE_FILE);
    let sectors_max = if huge {
        u64::MAX >> 16
    } else {
        u64::from(u32::MAX)
    };
    let counted = sectors_max >> (bits - 9);
    let inline = state.disk.flags.contains(InodeFlags::INLINE_DATA);
    if has_extents(state) || (inline && fs.base.features.has(Feature::EXTENTS)) {
        // As the kernel: without the few blocks of the tree.
        return LOGICAL_BLOCKS.min(counted) << bits;
    }
    let blocks = max_blocks(fs.block_size()).min(LOGICAL_BLOCKS);
    // Like e2fsprogs and the kernel, this leaves space for the tables.
    let tables = blocks / pointers_per_block(fs.block_size()) + 1;
    blocks.min(counted.saturating_sub(2 * tables)) << bits
}

/// Returns damage unless all blocks of the run may hold data.
pub(super) fn check_run(
    fs: &Fs,
    state: &InodeState,
    start: BlockNr,
    len_blocks: u32,
) -> Result<()> {
    let fits = match state.nr() {
        // Its blocks are those of the log.
        InodeNr::JOURNAL => fs.space.is_beside_metadata(start, len_blocks.into()),
        _ => fs.space.may_contain_run(start, len_blocks.into()),
    };
    if fits {
        return Ok(());
    }
    let place = DamageLocation::InodeBlock(state.nr(), start);
    Err(Corrupt::new(place, "block map", CorruptKind::OutsideData).into())
}

/// The block numbers that a tree may refer to.
pub(super) fn block_bounds(fs: &Fs) -> Range<u64> {
    u64::from(fs.base.geometry.first_data_block)..fs.base.geometry.blocks_count
}
