//! Shifts extents along the file without moving data: to the left behind a removed range, to the
//! right before an inserted one.
//!
//! One leaf changes at a time, beginning at the side to which extents move. The tree is valid after
//! each leaf, and no tree block is needed.

use super::edit::{self, change_leaf};
use super::plan::{Change, join, neighbours, sub_extent};
use super::{remove, walk};
use crate::state::engine::Fs;
use crate::state::inode::InodeState;
use crate::types::error::Result;
use std::ops::Range;
use uext4_format::extent::{Extent, ExtentNode, LOGICAL_BLOCKS};
use uext4_format::{BlockNr, LogicalBlock};
use uext4_journal::Handle;
use uext4_num::clamp_u32;

/// Direction and distance of a shift, in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shift {
    /// To smaller logical blocks.
    Left(u32),
    /// To larger logical blocks.
    Right(u32),
}

impl Shift {
    fn apply(self, at: LogicalBlock) -> LogicalBlock {
        LogicalBlock(match self {
            Shift::Left(by) => at.0 - by,
            Shift::Right(by) => at.0 + by,
        })
    }
}

/// Shifts the extents of the first leaf that has some from `at` on to the left by `by` blocks,
/// which are a hole before `at`. Returns where the rest begins; `None` when all are shifted.
pub(crate) fn left(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &mut InodeState,
    at: u64,
    by: u32,
) -> Result<Option<u64>> {
    let mut at = at;
    while at < LOGICAL_BLOCKS {
        let path = walk::path(fs, state, LogicalBlock(clamp_u32(at)))?;
        let leaf = path.last().expect("a path has a leaf");
        let (first, end) = leaf.node.read(state, |node| from(&node, at));
        if let Some(end) = end {
            move_entries(handle, state, &path, first, Shift::Left(by));
            return Ok(Some(end));
        }
        at = leaf.expect.logical.end.max(at + 1);
    }
    Ok(None)
}

/// Shifts the extents of the last leaf that has some in `range` to the right by `by` blocks.
/// Returns before which block the rest ends; `None` when all are shifted.
pub(crate) fn right(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &mut InodeState,
    range: Range<u64>,
    by: u32,
) -> Result<Option<u64>> {
    let start = range.start;
    let Some(last) = remove::last_in(fs, state, range)? else {
        return Ok(None);
    };
    let path = walk::path(fs, state, last.logical)?;
    let leaf = path.last().expect("a path has a leaf");
    let (first, _) = leaf.node.read(state, |node| from(&node, start));
    let key = leaf.node.read(state, |node| node.key(first));
    move_entries(handle, state, &path, first, Shift::Right(by));
    Ok(key.map(|key| key.0.into()))
}

/// The first entry of a leaf that starts at or behind `at`, and the end of the last entry.
fn from(node: &ExtentNode<&[u8]>, at: u64) -> (usize, Option<u64>) {
    let first = node
        .extents()
        .take_while(|extent| u64::from(extent.logical.0) < at)
        .count();
    let last = node.extents().skip(first).last();
    (first, last.map(|extent| extent.logical_end()))
}

fn move_entries(
    handle: &Handle<'_>,
    state: &mut InodeState,
    path: &[walk::Step],
    first: usize,
    shift: Shift,
) {
    let leaf = path.last().expect("a path has a leaf");
    leaf.node.edit(handle, state, |node| {
        for at in first..node.count() {
            let key = node.key(at).expect("below the count");
            node.set_key(at, shift.apply(key));
        }
    });
    if first == 0 {
        edit::fix_keys(handle, state, path, path.len() - 1);
    }
}

/// Bound on the blocks logged by a removal of `range` and the shift of the extents behind it,
/// beyond one path down the tree: each leaf from there on, the groups of emptied leaves (few, as
/// are the nodes above), the groups of the freed blocks. Stops counting soon after `max`.
pub(crate) fn cost(fs: &Fs, state: &InodeState, range: Range<u64>, max: u32) -> Result<u32> {
    let mut at = range.start;
    let (mut nodes, mut groups) = (0u32, 0u32);
    while at < LOGICAL_BLOCKS && nodes.saturating_add(groups) < max {
        let path = walk::path(fs, state, LogicalBlock(clamp_u32(at)))?;
        let leaf = path.last().expect("a path has a leaf");
        nodes = nodes.saturating_add(2);
        let freed = leaf.node.read(state, |node| {
            let freed = node.extents().filter(|extent| {
                u64::from(extent.logical.0) < range.end && extent.logical_end() > range.start
            });
            freed.fold(0u32, |sum, extent| {
                sum.saturating_add(groups_of(fs, &extent))
            })
        });
        groups = groups.saturating_add(freed);
        at = leaf.expect.logical.end.max(at + 1);
    }
    Ok(nodes.saturating_add(groups.min(fs.base.geometry.group_count)))
}

/// Number of groups that an extent overlaps.
fn groups_of(fs: &Fs, extent: &Extent) -> u32 {
    let last = BlockNr(extent.physical_end().saturating_sub(1));
    let group = |block| fs.base.geometry.group_of_block(block).0;
    group(last).saturating_sub(group(extent.start)) + 1
}

/// Splits the extent around `at`, if one begins before it.
pub(crate) fn split_at(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &mut InodeState,
    at: LogicalBlock,
) -> Result<()> {
    change_leaf(fs, handle, state, at, |node| {
        let Some((position, extent)) = node.find(at).filter(|(_, found)| found.logical < at) else {
            return Ok(Change::nothing());
        };
        let before = sub_extent(&extent, extent.logical.0.into(), at.0.into());
        let behind = sub_extent(&extent, at.0.into(), extent.logical_end());
        let with = before.into_iter().chain(behind).collect();
        Ok(Change {
            at: position..position + 1,
            with,
        })
    })
}

/// Merges the extent that begins at `at` with the preceding one, if they are contiguous and in one
/// leaf.
pub(crate) fn join_at(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &mut InodeState,
    at: LogicalBlock,
) -> Result<()> {
    change_leaf(fs, handle, state, at, |node| {
        let Some((position, extent)) = node.find(at).filter(|(_, found)| found.logical == at)
        else {
            return Ok(Change::nothing());
        };
        let left = position.checked_sub(1).and_then(|left| node.extent(left));
        if !left.is_some_and(|left| left.joins(&extent)) {
            return Ok(Change::nothing());
        }
        let (_, right) = neighbours(node, at);
        Ok(join(
            position..position + 1,
            [Some(extent), None, None],
            left,
            right,
        ))
    })?;
    edit::shrink(fs, handle, state)
}

/// End of the last mapped extent.
pub(crate) fn mapped_end(fs: &Fs, state: &InodeState) -> Result<u64> {
    Ok(remove::last_in(fs, state, 0..LOGICAL_BLOCKS)?.map_or(0, |last| last.logical_end()))
}
