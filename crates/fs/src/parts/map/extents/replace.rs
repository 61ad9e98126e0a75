//! Replaces the device blocks under a range of a file whose data were copied.
//!
//! The ends of the range are split off first: that may need a tree block, and leaves the same
//! mapping if there is none. Then entries only change or merge, which needs no space.

use super::edit::{self, change_leaf};
use super::lookup::find;
use super::plan::Change;
use super::shift::{join_at, split_at};
use super::walk;
use crate::state::engine::Fs;
use crate::state::inode::InodeState;
use crate::types::error::Result;
use std::ops::Range;
use uext4_format::extent::{Extent, ExtentNode};
use uext4_format::{BlockNr, LogicalBlock};
use uext4_journal::Handle;
use uext4_num::clamp_u32;

/// Maps the mapped blocks of `range` to the blocks from `start` on, each at its distance from the
/// start of the range. States and holes stay.
pub(in super::super) fn replace(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &mut InodeState,
    range: Range<u64>,
    start: BlockNr,
) -> Result<()> {
    cut_ends(fs, handle, state, &range)?;
    let mut borders = vec![range.start];
    let mut at = range.start;
    while at < range.end {
        let end = replace_in_leaf(fs, handle, state, at, &range, start)?;
        at = end.max(at + 1);
        borders.push(at.min(range.end));
    }
    for border in borders {
        join_leaves(fs, handle, state, LogicalBlock(clamp_u32(border)))?;
    }
    edit::shrink(fs, handle, state)
}

/// Lets no extent reach over an end of the range.
fn cut_ends(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &mut InodeState,
    range: &Range<u64>,
) -> Result<()> {
    let key = |at: u64| LogicalBlock(clamp_u32(at));
    split_at(fs, handle, state, key(range.start))?;
    let cut = split_at(fs, handle, state, key(range.end));
    if cut.is_err() {
        join_at(fs, handle, state, key(range.start))?;
    }
    cut
}

/// Replaces the entries of the leaf for `at`; returns where the next leaf begins.
fn replace_in_leaf(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &mut InodeState,
    at: u64,
    range: &Range<u64>,
    start: BlockNr,
) -> Result<u64> {
    let key = LogicalBlock(clamp_u32(at));
    let end = walk::leaf(fs, state, key)?.expect.logical.end;
    change_leaf(fs, handle, state, key, |node| {
        Ok(plan(node, &(at..range.end), |extent| Extent {
            start: BlockNr(start.0 + (u64::from(extent.logical.0) - range.start)),
            ..extent
        }))
    })?;
    Ok(end)
}

/// Changes the entries that begin in `range`, and merges them with each other and their neighbours.
fn plan(node: &ExtentNode<&[u8]>, range: &Range<u64>, place: impl Fn(Extent) -> Extent) -> Change {
    let before = |end: u64| {
        node.extents()
            .take_while(|extent| u64::from(extent.logical.0) < end)
            .count()
    };
    let (first, last) = (before(range.start), before(range.end));
    if first == last {
        return Change::nothing();
    }
    let around = first.saturating_sub(1)..(last + 1).min(node.count());
    let mut with: Vec<Extent> = Vec::new();
    for (position, extent) in node
        .extents()
        .enumerate()
        .take(around.end)
        .skip(around.start)
    {
        let extent = if (first..last).contains(&position) {
            place(extent)
        } else {
            extent
        };
        match with.last_mut() {
            Some(left) if left.joins(&extent) => left.len += extent.len,
            _ => with.push(extent),
        }
    }
    Change { at: around, with }
}

/// Merges the extent that begins at `at` into the preceding one if they are contiguous, also when
/// that is in another leaf.
fn join_leaves(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &mut InodeState,
    at: LogicalBlock,
) -> Result<()> {
    let Some(before) = at.0.checked_sub(1).map(LogicalBlock) else {
        return Ok(());
    };
    let Some(left) = find(fs, state, before)?.and_then(|left| left.extent()) else {
        return Ok(());
    };
    let right = find(fs, state, at)?.and_then(|right| right.extent());
    let Some(right) = right.filter(|right| left.joins(right)) else {
        return Ok(());
    };
    change_entry(fs, handle, state, right.logical, None)?;
    let len = left.len + right.len;
    change_entry(
        fs,
        handle,
        state,
        left.logical,
        Some(Extent { len, ..left }),
    )
}

/// Replaces the entry that begins at `at`, or removes it.
fn change_entry(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &mut InodeState,
    at: LogicalBlock,
    with: Option<Extent>,
) -> Result<()> {
    change_leaf(fs, handle, state, at, |node| {
        Ok(match node.find(at) {
            Some((position, _)) => Change {
                at: position..position + 1,
                with: with.into_iter().collect(),
            },
            None => Change::nothing(),
        })
    })
}

/// Bound on the blocks logged by [`replace`], beyond one path down the tree: each leaf of the
/// range, and the group of a leaf that becomes empty. Stops counting soon after `max`.
pub(in super::super) fn cost(
    fs: &Fs,
    state: &InodeState,
    range: Range<u64>,
    max: u32,
) -> Result<u32> {
    let (mut at, mut blocks) = (range.start, 0u32);
    while at < range.end && blocks < max {
        let leaf = walk::leaf(fs, state, LogicalBlock(clamp_u32(at)))?;
        blocks = blocks.saturating_add(2);
        at = leaf.expect.logical.end.max(at + 1);
    }
    Ok(blocks)
}
