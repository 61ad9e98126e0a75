//! Extent trees.
//!
//! Layout: the root is in the 60 bytes of `i_block`, other nodes are blocks; `format::extent` has
//! the encoding. A change is planned for one leaf as a replacement of entries ([`plan`]), which
//! [`edit`] applies; [`room`] splits nodes until it fits.
//!
//! Invariants: after every change, the key of an index equals the first key of its child. Each node
//! is validated when it is read ([`walk`]) against the bounds from its parent, so the depth bounds
//! every walk, even of a damaged tree.
//! References: kernel documentation, "ifork".

mod edit;
mod lookup;
mod plan;
mod remove;
mod replace;
mod room;
mod shift;
mod walk;

use crate::state::engine::Fs;
use crate::state::inode::InodeState;
use crate::types::error::Result;
use edit::change_leaf;
use plan::{Change, join, neighbours, sub_extent};
use std::ops::Range;
use uext4_format::extent::{Extent, ExtentNode, ExtentState};
use uext4_format::{BlockNr, BlockRun, Corrupt, CorruptKind, DamageLocation, LogicalBlock};
use uext4_journal::Handle;
use uext4_num::{clamp_u16, clamp_u32};

pub(super) use edit::shrink;
pub(super) use lookup::{find, goal, lookup};
pub(super) use remove::{cut_credits, cut_out, last_cut, unmap};
pub(super) use replace::{cost as replace_cost, replace};
pub(super) use room::wanted as growth;
pub(crate) use shift::{
    cost as shift_cost, join_at, left as shift_left, mapped_end, right as shift_right, split_at,
};

/// For tests: adds one level more than the extents need.
#[cfg(test)]
pub(super) fn deepen(fs: &Fs, handle: &Handle<'_>, state: &mut InodeState) -> Result<()> {
    room::grow(fs, handle, state)
}

/// Maps a run into a hole.
pub(super) fn insert(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &mut InodeState,
    at: LogicalBlock,
    run: BlockRun,
    written: ExtentState,
) -> Result<()> {
    let max = u32::from(Extent::max_len_blocks(written));
    let mut done = 0;
    while done < run.len_blocks {
        let len = (run.len_blocks - done).min(max);
        let logical = LogicalBlock(at.0 + done);
        let start = BlockNr(run.start.0 + u64::from(done));
        let extent = Extent {
            logical,
            start,
            len: clamp_u16(len),
            state: written,
        };
        if let Err(error) = insert_extent(fs, handle, state, extent) {
            let mapped = u64::from(at.0)..u64::from(logical.0);
            remove::unmap(fs, handle, state, mapped)?;
            return Err(error);
        }
        done += len;
    }
    Ok(())
}

fn insert_extent(fs: &Fs, handle: &Handle<'_>, state: &mut InodeState, new: Extent) -> Result<()> {
    let place = DamageLocation::Inode(state.nr());
    change_leaf(fs, handle, state, new.logical, |node| {
        let (left, right) = neighbours(node, new.logical);
        let overlaps = left.is_some_and(|left| left.logical_end() > u64::from(new.logical.0))
            || right.is_some_and(|right| u64::from(right.logical.0) < new.logical_end());
        if overlaps {
            return Err(Corrupt::new(place, "extent", CorruptKind::FilledHole).into());
        }
        let after = node.search(new.logical).map_or(0, |position| position + 1);
        Ok(join(after..after, [Some(new), None, None], left, right))
    })
}

/// Sets the state of the blocks of `range`, all of which are mapped.
pub(super) fn set_state(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &mut InodeState,
    range: Range<u64>,
    wanted: ExtentState,
) -> Result<()> {
    let place = DamageLocation::Inode(state.nr());
    let max = u64::from(Extent::max_len_blocks(wanted));
    let mut at = range.start;
    while at < range.end {
        let key = LogicalBlock(clamp_u32(at));
        let mut next = at;
        change_leaf(fs, handle, state, key, |node| {
            let hole = Corrupt::new(place, "extent", CorruptKind::LostBlocks);
            let (position, extent) = node.find(key).ok_or(hole)?;
            // Only a written extent may have 32768 blocks: the last one may take a second round.
            next = extent.logical_end().min(at + max);
            Ok(restate(
                node,
                position,
                extent,
                &(at..range.end.min(next)),
                wanted,
            ))
        })?;
        at = next;
    }
    Ok(())
}

/// Splits an extent into up to three parts; the one in `range` gets the state `wanted`.
fn restate(
    node: &ExtentNode<&[u8]>,
    position: usize,
    extent: Extent,
    range: &Range<u64>,
    wanted: ExtentState,
) -> Change {
    if extent.state == wanted {
        return Change::nothing();
    }
    let from = range.start.max(u64::from(extent.logical.0));
    let to = range.end.min(extent.logical_end());
    let middle = sub_extent(&extent, from, to).map(|part| Extent {
        state: wanted,
        ..part
    });
    let before = sub_extent(&extent, u64::from(extent.logical.0), from);
    let after = sub_extent(&extent, to, extent.logical_end());
    let left = position.checked_sub(1).and_then(|left| node.extent(left));
    let right = node.extent(position + 1);
    join(position..position + 1, [before, middle, after], left, right)
}
