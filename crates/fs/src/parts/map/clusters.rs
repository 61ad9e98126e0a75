//! Clusters (feature bigalloc): the map counts blocks, space is allocated in clusters.
//!
//! Invariants: a cluster of the file (aligned by logical block) occupies one cluster of the device,
//! at the same offsets. It belongs to the file while any of its blocks is mapped. Without bigalloc
//! a cluster is a block, and these functions reduce to counting.

use super::lookup::lookup;
use super::mapped::Mapped;
use super::root::holds_metadata;
use super::usage::discharge;
use crate::cache::extent_status::Mapping;
use crate::state::engine::Fs;
use crate::state::inode::InodeState;
use crate::types::error::Result;
use std::ops::Range;
use uext4_format::extent::LOGICAL_BLOCKS;
use uext4_format::{BlockNr, BlockRun, Corrupt, CorruptKind, DamageLocation, LogicalBlock};
use uext4_journal::Handle;
use uext4_num::clamp_u32;

fn ratio(fs: &Fs) -> u64 {
    u64::from(fs.base.geometry.blocks_per_cluster())
}

/// The block for `at`, if another block of its cluster is mapped already.
pub(crate) fn cluster_mate(
    fs: &Fs,
    state: &InodeState,
    at: LogicalBlock,
) -> Result<Option<BlockNr>> {
    let ratio = ratio(fs);
    if ratio == 1 {
        return Ok(None);
    }
    let first = u64::from(at.0) & !(ratio - 1);
    let Some((logical, block)) = first_mapped(fs, state, first..first + ratio)? else {
        return Ok(None);
    };
    if block.0 % ratio != logical % ratio {
        return Err(misaligned(state, block).into());
    }
    Ok(Some(BlockNr(
        block.0 - logical % ratio + u64::from(at.0) % ratio,
    )))
}

/// Blocks of the clusters that a mapping of this run would add to the file.
pub(super) fn fresh_blocks(
    fs: &Fs,
    state: &InodeState,
    at: LogicalBlock,
    len_blocks: u32,
) -> Result<u64> {
    let range = u64::from(at.0)..u64::from(at.0) + u64::from(len_blocks);
    let owned = owned_clusters(fs, state, &range)?;
    Ok((owned.end - owned.start) * ratio(fs))
}

/// Frees the clusters of an unmapped run that have no mapped block left.
pub(super) fn release(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &mut InodeState,
    logical: u64,
    run: BlockRun,
) -> Result<()> {
    let ratio = ratio(fs);
    if run.start.0 % ratio != logical % ratio {
        return Err(misaligned(state, run.start).into());
    }
    let owned = owned_clusters(fs, state, &(logical..logical + u64::from(run.len_blocks)))?;
    if owned.is_empty() {
        return Ok(());
    }
    let len_blocks = (owned.end - owned.start) * ratio;
    // Alignment was checked: cluster numbers of file and device differ by a constant.
    let start = BlockNr((run.start.0 / ratio + owned.start - logical / ratio) * ratio);
    if holds_metadata(state) {
        for offset in 0..len_blocks {
            fs.blocks.forget(handle, BlockNr(start.0 + offset));
        }
    }
    fs.space.free(
        &fs.base,
        handle,
        BlockRun {
            start,
            len_blocks: clamp_u32(len_blocks),
        },
    )?;
    discharge(fs, handle, state, len_blocks);
    Ok(())
}

/// Frees the clusters that `moved` mapped before their data moved. It has all mapped blocks of each
/// of them, in the order of the file. The inode's block count stays.
pub(crate) fn free_moved(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &InodeState,
    moved: &[Mapped],
) -> Result<()> {
    let ratio = ratio(fs);
    let mut freed = None;
    for old in moved {
        let first = old.start.0 / ratio;
        let end = (old.start.0 + u64::from(old.len_blocks)).div_ceil(ratio);
        // The blocks of a cluster are next to each other in the file.
        let first = first + u64::from(freed == Some(first));
        freed = Some(end - 1);
        if first == end {
            continue;
        }
        let run = BlockRun {
            start: BlockNr(first * ratio),
            len_blocks: clamp_u32((end - first) * ratio),
        };
        if holds_metadata(state) {
            let blocks = run.start.0..run.start.0 + u64::from(run.len_blocks);
            blocks.for_each(|block| fs.blocks.forget(handle, BlockNr(block)));
        }
        fs.space.free(&fs.base, handle, run)?;
    }
    Ok(())
}

/// The clusters of the file that overlap `range` and have no mapped block outside of it.
fn owned_clusters(fs: &Fs, state: &InodeState, range: &Range<u64>) -> Result<Range<u64>> {
    let ratio = ratio(fs);
    let mut owned = range.start / ratio..range.end.div_ceil(ratio);
    if ratio == 1 {
        return Ok(owned);
    }
    let tail = range.end..owned.end * ratio;
    if first_mapped(fs, state, tail)?.is_some() {
        owned.end -= 1;
    }
    let head = owned.start * ratio..range.start;
    if !owned.is_empty() && first_mapped(fs, state, head)?.is_some() {
        owned.start += 1;
    }
    Ok(owned)
}

fn first_mapped(fs: &Fs, state: &InodeState, range: Range<u64>) -> Result<Option<(u64, BlockNr)>> {
    let mut at = range.start;
    let end = range.end.min(LOGICAL_BLOCKS);
    while at < end {
        match lookup(fs, state, LogicalBlock(clamp_u32(at)), clamp_u32(end - at))? {
            Mapping::Mapped { start, .. } => return Ok(Some((at, start))),
            Mapping::Hole { len_blocks } => at += u64::from(len_blocks),
        }
    }
    Ok(None)
}

fn misaligned(state: &InodeState, block: BlockNr) -> Corrupt {
    let place = DamageLocation::InodeBlock(state.nr(), block);
    Corrupt::new(place, "block map", CorruptKind::Misaligned)
}
