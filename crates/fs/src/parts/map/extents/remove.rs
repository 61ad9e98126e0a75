//! Unmapping of extents: from right to left, one extent at a time.

use super::super::root::{depth, holds_metadata};
use super::edit::change_leaf;
use super::plan::{Change, sub_extent};
use super::walk;
use crate::state::engine::Fs;
use crate::state::inode::InodeState;
use crate::types::error::Result;
use std::ops::Range;
use uext4_format::extent::{Extent, LOGICAL_BLOCKS};
use uext4_format::{BlockNr, GroupNr, LogicalBlock};
use uext4_journal::Handle;
use uext4_num::clamp_u32;

/// Groups that one cut may touch.
const STEP_GROUPS: u64 = 8;
/// Log blocks for the revokes of the blocks that one cut frees, besides one for nodes.
const STEP_REVOKE_BLOCKS: u64 = 3;

/// Unmaps `range` without freeing its blocks.
pub(in super::super) fn unmap(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &mut InodeState,
    range: Range<u64>,
) -> Result<()> {
    while let Some(cut) = last_in(fs, state, range.clone())? {
        cut_out(fs, handle, state, cut)?;
    }
    Ok(())
}

/// Credits of one cut: the path twice (a hole in the middle splits it), a group half for each new
/// and each freed node, the groups of the blocks, and revokes.
pub(in super::super) fn cut_credits(state: &InodeState) -> u64 {
    3 * u64::from(depth(state)) + 2 + STEP_GROUPS + STEP_REVOKE_BLOCKS + 1
}

/// The last part of `range` that is to be unmapped by one cut, limited by its credits.
pub(in super::super) fn last_cut(
    fs: &Fs,
    state: &InodeState,
    range: Range<u64>,
) -> Result<Option<Extent>> {
    let last = last_in(fs, state, range)?;
    Ok(last.map(|cut| limit_revokes(fs, state, cut)))
}

/// Limits a cut of revoked blocks to the end that fits in a few revoke blocks of the log. Each
/// revoke takes 8 bytes; header and checksum take 20 bytes together.
fn limit_revokes(fs: &Fs, state: &InodeState, cut: Extent) -> Extent {
    if !holds_metadata(state) {
        return cut;
    }
    let max = STEP_REVOKE_BLOCKS * (fs.block_bytes() - 20) / 8;
    let from = cut.logical_end().saturating_sub(max);
    sub_extent(&cut, from.max(cut.logical.0.into()), cut.logical_end()).unwrap_or(cut)
}

/// The last part of `range` that one extent maps, limited to a few groups.
pub(super) fn last_in(fs: &Fs, state: &InodeState, range: Range<u64>) -> Result<Option<Extent>> {
    let mut end = range.end.min(LOGICAL_BLOCKS);
    while end > range.start {
        let key = LogicalBlock(clamp_u32(end - 1));
        let leaf = walk::leaf(fs, state, key)?;
        let found = leaf.node.read(state, |node| {
            node.search(key).and_then(|position| node.extent(position))
        });
        let Some(extent) = found else {
            // No extent in this leaf starts before `end`: leaves to the left may still map some.
            end = leaf.expect.logical.start.min(end - 1);
            continue;
        };
        let from = range.start.max(u64::from(extent.logical.0));
        let to = end.min(extent.logical_end());
        return Ok(sub_extent(&extent, from, to).map(|cut| limit_groups(fs, cut)));
    }
    Ok(None)
}

/// Limits an extent to its end in the last few groups.
fn limit_groups(fs: &Fs, cut: Extent) -> Extent {
    let last = fs
        .base
        .geometry
        .group_of_block(BlockNr(cut.physical_end() - 1));
    let groups_before = u64::from(last.0) + 1;
    let first = GroupNr(clamp_u32(groups_before.saturating_sub(STEP_GROUPS)));
    let skip = fs
        .base
        .geometry
        .group_first_block(first)
        .0
        .saturating_sub(cut.start.0);
    let from = u64::from(cut.logical.0) + skip;
    sub_extent(&cut, from, cut.logical_end()).unwrap_or(cut)
}

/// Removes a part of one extent from the tree.
pub(in super::super) fn cut_out(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &mut InodeState,
    cut: Extent,
) -> Result<()> {
    change_leaf(fs, handle, state, cut.logical, |node| {
        let Some((position, extent)) = node.find(cut.logical) else {
            return Ok(Change::nothing());
        };
        let before = sub_extent(
            &extent,
            u64::from(extent.logical.0),
            u64::from(cut.logical.0),
        );
        let after = sub_extent(&extent, cut.logical_end(), extent.logical_end());
        let with = before.into_iter().chain(after).collect();
        Ok(Change {
            at: position..position + 1,
            with,
        })
    })
}
