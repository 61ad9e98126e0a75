//! The extents of a file, as they are now.

use crate::parts::map::{self, ExtentState, LOGICAL_END, Mapped};
use crate::state::engine::Fs;
use crate::state::inode::{Inode, InodeState};
use crate::types::error::Result;
use std::ops::{ControlFlow, Range};
use uext4_format::InodeFlags;
use uext4_format::extent::Extent;

/// Whether `i_block` maps blocks; it has the data themselves otherwise.
pub(super) fn has_blocks(state: &InodeState) -> bool {
    !state.disk.flags.contains(InodeFlags::INLINE_DATA)
}

/// All extents, in order. Pointers of block tables to consecutive blocks count as one.
pub(super) fn extents(fs: &Fs, inode: &Inode) -> Result<Vec<Mapped>> {
    let _shared = inode.io.read();
    let state = inode.read();
    let is_tree = map::has_extents(&state);
    let mut found: Vec<Mapped> = Vec::new();
    if !has_blocks(&state) {
        return Ok(found);
    }
    map::for_each(fs, &state, 0..LOGICAL_END, |mapped| {
        match found.last_mut() {
            Some(last) if !is_tree && last.is_followed_by(&mapped) => {
                last.len_blocks += mapped.len_blocks;
            }
            _ => found.push(mapped),
        }
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

/// The first clusters of `range` that are mapped without a hole between them.
pub(super) fn next_mapped(fs: &Fs, inode: &Inode, range: Range<u64>) -> Result<Option<Range<u64>>> {
    let _shared = inode.io.read();
    let state = inode.read();
    let mut found: Option<Range<u64>> = None;
    if !has_blocks(&state) {
        return Ok(found);
    }
    map::for_each(fs, &state, range.clone(), |mapped| {
        let clusters = whole_clusters(fs, mapped.logical.0.into()..mapped.end());
        match &mut found {
            None => found = Some(clusters),
            Some(all) if clusters.start <= all.end => all.end = clusters.end,
            Some(_) => return ControlFlow::Break(()),
        }
        ControlFlow::Continue(())
    })?;
    Ok(found.map(|all| all.start.max(range.start)..all.end.min(range.end)))
}

/// The clusters of the file that overlap a range of blocks.
pub(super) fn whole_clusters(fs: &Fs, blocks: Range<u64>) -> Range<u64> {
    let ratio = u64::from(fs.base.geometry.blocks_per_cluster());
    blocks.start / ratio * ratio..blocks.end.next_multiple_of(ratio)
}

/// The fewest extents that can map what these extents map.
pub(super) fn fewest(fs: &Fs, extents: &[Mapped]) -> u64 {
    let pieces = extents
        .chunk_by(|a, b| a.state == b.state && a.end() == u64::from(b.logical.0))
        .map(|chunk| {
            let len: u64 = chunk
                .iter()
                .map(|extent| u64::from(extent.len_blocks))
                .sum();
            len.div_ceil(len_max(fs, chunk[0].state))
        });
    pieces.sum()
}

/// Longest extent of this state, in whole clusters.
pub(super) fn len_max(fs: &Fs, state: ExtentState) -> u64 {
    let ratio = u64::from(fs.base.geometry.blocks_per_cluster());
    let max = u64::from(Extent::max_len_blocks(state));
    (max - max % ratio).max(ratio)
}
