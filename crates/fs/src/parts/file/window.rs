//! Size of the reservation window around a request, for growing files.
//!
//! Files up to 1 MiB are predicted to grow to the next power of two; larger ones are reserved in
//! aligned windows. The window is then cut to the hole around the request.
//!
//! Fast commits record a file while its inode holds all of its extents, so a file with records gets
//! longer windows the fewer extents it may still have.
//! Not here: taking the space (`space::shaping`).

use crate::parts::map::{self, Mapping};
use crate::state::engine::Fs;
use crate::state::inode::{Inode, InodeState};
use crate::state::space::{Reserve, Window};
use crate::types::error::Result;
use std::ops::{ControlFlow, Range};
use uext4_format::{BlockNr, LogicalBlock};
use uext4_num::clamp_u32;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// Files up to 1 MiB are predicted to have one of these sizes.
const PREDICTED_BYTES: [u64; 7] = [
    16 * KIB,
    32 * KIB,
    64 * KIB,
    128 * KIB,
    256 * KIB,
    512 * KIB,
    MIB,
];

/// Least bytes behind the start of a request in a file with records and so many extents.
const RECORDED_BYTES: [u64; 4] = [MIB, MIB, 4 * MIB, 16 * MIB];
/// Such a window is at most this part of the free space.
const RECORDED_PART: u64 = 256;

/// Size of the file in blocks after the request.
pub(super) fn size_blocks(fs: &Fs, state: &InodeState, at: LogicalBlock, len_blocks: u32) -> u64 {
    let end = u64::from(at.0) + u64::from(len_blocks);
    end.max(super::io::blocks_for(fs, state.disk.size))
}

/// The byte range to reserve for a request in a file of `size` bytes. Contains the request.
fn predict(size: u64, request: Range<u64>) -> Range<u64> {
    let aligned = |window: u64| {
        let start = request.start - request.start % window;
        start..request.end.max(start + window)
    };
    let size = size.max(request.end);
    match PREDICTED_BYTES
        .into_iter()
        .find(|predicted| size <= *predicted)
    {
        Some(predicted) => 0..predicted,
        None if size <= 4 * MIB => aligned(2 * MIB),
        None if size <= 8 * MIB => aligned(4 * MIB),
        None if request.end - request.start <= 8 * MIB => aligned(8 * MIB),
        None => request,
    }
}

/// The window around the hole of at least `len_blocks` blocks at `at`.
pub(super) fn around(fs: &Fs, inode: &Inode, at: LogicalBlock, len_blocks: u32) -> Result<Window> {
    let state = &inode.read();
    let bits = fs.base.geometry.block_bits;
    let ratio = u64::from(fs.base.geometry.blocks_per_cluster());
    let request = u64::from(at.0)..u64::from(at.0) + u64::from(len_blocks);
    let mut bytes = predict(state.disk.size, request.start << bits..request.end << bits);
    let recorded_bytes = recorded_bytes(fs, state);
    bytes.end = bytes.end.max((request.start << bits) + recorded_bytes);
    let wanted = bytes.start >> bits..(bytes.end >> bits).min(map::LOGICAL_END);
    let hole = cut_to_hole(fs, state, wanted, &request)?;
    // Border clusters with mapped blocks belong to the neighbours.
    let covers = request.start / ratio..request.end.div_ceil(ratio);
    let at = clamp_u32(covers.start);
    let mut range =
        hole.start.div_ceil(ratio).min(covers.start)..(hole.end / ratio).max(covers.end);
    if let Some(held) = inode.preallocation() {
        let gap = fs.space.gap_around(held, at);
        range = range.start.max(gap.start)..range.end.min(gap.end);
    }
    let range = cut_to_group(range, covers, fs.base.geometry.clusters_per_group.into());
    let goal = map::goal(fs, state, LogicalBlock(clamp_u32(range.start * ratio)))?;
    Ok(Window {
        at,
        range: clamp_u32(range.start)..clamp_u32(range.end),
        goal: goal
            .or_else(|| inode.goal_hint())
            .map(|goal| BlockNr(goal.0 - goal.0 % ratio)),
    })
}

/// Bytes behind the start of a request that a file with records reserves at least.
fn recorded_bytes(fs: &Fs, state: &InodeState) -> u64 {
    let extents = map::extents_in_inode(state).filter(|_| state.is_recorded());
    let Some(bytes) = extents.and_then(|count| RECORDED_BYTES.get(count)) else {
        return 0;
    };
    let free = fs.space.room_bytes(Reserve::MayUse);
    (*bytes).min(free / RECORDED_PART)
}

/// The part of `window` around the request in which the file maps nothing. Contains `request`.
fn cut_to_hole(
    fs: &Fs,
    state: &InodeState,
    window: Range<u64>,
    request: &Range<u64>,
) -> Result<Range<u64>> {
    let mut start = window.start;
    let before = LogicalBlock(clamp_u32(request.start.saturating_sub(1)));
    if request.start == 0 || map::block_of(fs, state, before)?.is_some() {
        start = request.start;
    }
    map::for_each(fs, state, start..request.start, |mapped| {
        start = u64::from(mapped.logical.0) + u64::from(mapped.len_blocks);
        ControlFlow::Continue(())
    })?;
    let at = LogicalBlock(clamp_u32(request.start));
    let max_blocks = clamp_u32(window.end - request.start);
    Ok(match map::lookup(fs, state, at, max_blocks)? {
        Mapping::Hole { len_blocks } => start..request.start + u64::from(len_blocks),
        Mapping::Mapped { .. } => request.clone(),
    })
}

/// Limits the range to the size of one group; the part before the request's start goes first.
fn cut_to_group(range: Range<u64>, covers: Range<u64>, group: u64) -> Range<u64> {
    if range.end - range.start <= group {
        return range;
    }
    let end = range.end.min(covers.start + group);
    covers.start..end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_predicted() {
        for (size, request, window) in [
            (0, 0..1, 0..16 * KIB),
            (0, 0..16 * KIB, 0..16 * KIB),
            (64 * KIB, 64 * KIB..68 * KIB, 0..128 * KIB),
            (MIB, MIB - 5..MIB, 0..MIB),
            (MIB, MIB..MIB + 4096, 0..2 * MIB),
            (3 * MIB, 3 * MIB..3 * MIB + 1, 2 * MIB..4 * MIB),
            (5 * MIB, MIB..MIB + 1, 0..4 * MIB),
            (100 * MIB, 17 * MIB..18 * MIB, 16 * MIB..24 * MIB),
            (100 * MIB, 23 * MIB..26 * MIB, 16 * MIB..26 * MIB),
            (0, 5 * MIB..25 * MIB, 5 * MIB..25 * MIB),
        ] {
            assert_eq!(predict(size, request.clone()), window, "{size} {request:?}");
        }
    }

    #[test]
    fn a_window_fits_in_a_group() {
        assert_eq!(cut_to_group(0..100, 50..60, 100), 0..100);
        assert_eq!(cut_to_group(0..100, 50..60, 40), 50..90);
        assert_eq!(cut_to_group(0..100, 90..99, 40), 90..100);
        assert_eq!(cut_to_group(0..200, 50..160, 40), 50..90);
    }
}
