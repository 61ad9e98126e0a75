//! Copies of data that another structure claimed first: an inode gets clusters of its own with the
//! same content, so that each file that maps a cluster keeps what it reads.
//!
//! Invariant: a repair copies at most as many clusters as were in use before, so that files that
//! share their blocks many times cannot fill the disk that has the image. What files share by the
//! feature `shared_blocks` has no such limit.

use super::map_reader::only;
use super::patch::Patch;
use crate::contested::merged;
use crate::state::{Step, Stop};
use std::ops::Range;
use uext4_format::extent::{Extent, ExtentState};
use uext4_format::{BlockNr, InodeNr, LogicalBlock};
use uext4_num::{clamp_u16, clamp_u32, clamp_usize, usize_of};
use uext4_volume::append_extent;

/// Most bytes of a write.
const WRITE_MAX_BYTES: u64 = 1 << 20;

/// A run of blocks that is not copied yet.
#[derive(Default)]
pub(super) struct Copies {
    from: u64,
    to: u64,
    len: u64,
}

/// A map in the making.
struct Apart {
    extents: Vec<Extent>,
    /// The cluster of the file that was copied last, and its first block.
    last: Option<(u64, BlockNr)>,
    goal: BlockNr,
    copies: Copies,
}

impl Patch<'_, '_> {
    /// Puts what an inode maps into clusters of its own, where another structure claimed them first
    /// or where they do not fit the clusters of the file. Preallocated space becomes a hole there.
    /// `None` if there is no space, or behind the last copy. The data are written at
    /// once, to clusters that nothing has.
    pub(super) fn set_apart(
        &mut self,
        nr: InodeNr,
        extents: Vec<Extent>,
    ) -> Step<Option<Vec<Extent>>> {
        let wanted = self.clusters_to_copy(nr, &extents);
        if wanted.is_empty() {
            return Ok(Some(extents));
        }
        let mut apart = Apart {
            goal: extents.first().map_or(BlockNr(0), |extent| extent.start),
            extents: Vec::new(),
            last: None,
            copies: Copies::default(),
        };
        for extent in extents {
            if !self.add_apart(&mut apart, extent, &wanted)? {
                return Ok(None);
            }
        }
        self.write_copies(apart.copies)?;
        Ok(Some(apart.extents))
    }

    /// The clusters of the file to copy, sorted and merged.
    fn clusters_to_copy(&self, nr: InodeNr, extents: &[Extent]) -> Vec<Range<u64>> {
        let contested = if self.check.may_share_data() {
            Vec::new()
        } else {
            self.check.contested.of(nr)
        };
        let bits = self.check.geometry.cluster_bits;
        let mut wanted = Vec::new();
        // The last cluster of the extent before: in the file, and on the device.
        let mut before = None;
        for extent in extents {
            let logical = u64::from(extent.logical.0) >> bits;
            let start = self.check.clusters(only(extent.start)).start;
            if before.is_some_and(|(last, there)| last == logical && there != start) {
                wanted.push(logical..logical + 1);
            }
            let end = BlockNr(extent.physical_end().saturating_sub(1));
            let last = extent.logical_end().saturating_sub(1) >> bits;
            before = Some((last, self.check.clusters(only(end)).start));
            if !self.is_aligned(extent) {
                wanted.push(logical..((extent.logical_end() - 1) >> bits) + 1);
                continue;
            }
            let clusters = self.check.clusters(extent.start.0..extent.physical_end());
            let after = contested.partition_point(|run| run.end <= clusters.start);
            let met = contested.iter().skip(after);
            for run in met.take_while(|run| run.start < clusters.end) {
                let start = run.start.max(clusters.start) - clusters.start;
                let end = run.end.min(clusters.end) - clusters.start;
                wanted.push(logical + start..logical + end);
            }
        }
        wanted.sort_unstable_by_key(|run| (run.start, run.end));
        merged(wanted)
    }

    /// Adds an extent, with copies of the clusters in `wanted`; false without space.
    fn add_apart(
        &mut self,
        apart: &mut Apart,
        extent: Extent,
        wanted: &[Range<u64>],
    ) -> Step<bool> {
        let bits = self.check.geometry.cluster_bits;
        let mut at = u64::from(extent.logical.0);
        let end = extent.logical_end();
        while at < end {
            let after = wanted.partition_point(|run| run.end <= at >> bits);
            let next = wanted.get(after).map(|run| run.start << bits);
            let is_copied = next.is_some_and(|next| next <= at);
            let border = if is_copied {
                ((at >> bits) + 1) << bits
            } else {
                next.unwrap_or(end)
            };
            let piece = part_of(&extent, at..border.min(end));
            if !is_copied {
                append_extent(&mut apart.extents, piece);
            } else if piece.state == ExtentState::Written && !self.add_copy(apart, piece)? {
                return Ok(false);
            }
            at = border;
        }
        Ok(true)
    }

    /// Adds a copy of a piece, which is in one cluster of the file; false without space.
    fn add_copy(&mut self, apart: &mut Apart, piece: Extent) -> Step<bool> {
        let logical = u64::from(piece.logical.0);
        let cluster = logical >> self.check.geometry.cluster_bits;
        let first = match apart.last {
            Some((last, first)) if last == cluster => first,
            _ => {
                let Some(first) = self.allocate_copy(apart.goal)? else {
                    return Ok(false);
                };
                first
            }
        };
        apart.last = Some((cluster, first));
        let ratio = u64::from(self.check.geometry.blocks_per_cluster());
        apart.goal = BlockNr(first.0 + ratio);
        let start = BlockNr(first.0 + logical % ratio);
        self.add_data(&mut apart.copies, piece.start, start, piece.len.into())?;
        append_extent(&mut apart.extents, Extent { start, ..piece });
        Ok(true)
    }

    /// As [`Patch::allocate`], for a copy; `None` as well behind the last copy.
    pub(super) fn allocate_copy(&mut self, goal: BlockNr) -> Step<Option<BlockNr>> {
        let claimed = &self.check.claimed;
        let left = self
            .space
            .copies_left
            .get_or_insert_with(|| claimed.count());
        if *left == 0 {
            return Ok(None);
        }
        *left -= 1;
        self.allocate(goal)
    }

    /// Adds blocks to copy, in ascending order as far as possible.
    pub(super) fn add_data(
        &mut self,
        copies: &mut Copies,
        from: BlockNr,
        to: BlockNr,
        len: u64,
    ) -> Step {
        if copies.from + copies.len != from.0 || copies.to + copies.len != to.0 {
            self.write_copies(std::mem::take(copies))?;
            (copies.from, copies.to) = (from.0, to.0);
        }
        copies.len += len;
        Ok(())
    }

    /// Copies what was added, as this round will have it.
    pub(super) fn write_copies(&mut self, mut copies: Copies) -> Step {
        let block_size = self.check.block_bytes();
        let max = (WRITE_MAX_BYTES / block_size).max(1);
        while copies.len > 0 {
            let len = copies.len.min(max);
            self.check.take(len * block_size)?;
            let bytes = self.read_run(copies.from, len)?;
            let written = self.check.device.write_at(copies.to * block_size, &bytes);
            written.map_err(|error| Stop::Failed(error.into()))?;
            self.check.give_back(len * block_size);
            copies.from += len;
            copies.to += len;
            copies.len -= len;
        }
        Ok(())
    }

    /// Changes a block that nothing has, and writes it at once: without a log what leads to it may
    /// be written before the rest of the round.
    pub(super) fn write_new(&mut self, nr: BlockNr, bytes: Vec<u8>) -> Step {
        self.write_data(nr, &bytes)?;
        self.write(nr, bytes)
    }

    /// Writes data at once, to a block that nothing has.
    pub(super) fn write_data(&mut self, to: BlockNr, bytes: &[u8]) -> Step {
        let at = to.0 * self.check.block_bytes();
        let written = self.check.device.write_at(at, bytes);
        written.map_err(|error| Stop::Failed(error.into()))
    }

    fn read_run(&mut self, start: u64, len: u64) -> Step<Vec<u8>> {
        self.check.tick()?;
        let block_size = self.check.block_bytes();
        let mut bytes = vec![0; clamp_usize(len * block_size)];
        let read = self.check.device.read_at(start * block_size, &mut bytes);
        read.map_err(|error| Stop::Failed(error.into()))?;
        for (nr, changed) in self.blocks.range(BlockNr(start)..BlockNr(start + len)) {
            let at = clamp_usize((nr.0 - start) * block_size);
            let end = at + usize_of(self.check.geometry.block_size());
            if let Some(old) = bytes.get_mut(at..end) {
                old.copy_from_slice(changed);
            }
        }
        Ok(bytes)
    }
}

/// The part of an extent that maps these blocks of the file.
fn part_of(extent: &Extent, blocks: Range<u64>) -> Extent {
    let skipped = blocks.start - u64::from(extent.logical.0);
    Extent {
        logical: LogicalBlock(clamp_u32(blocks.start)),
        start: BlockNr(extent.start.0 + skipped),
        len: clamp_u16(blocks.end - blocks.start),
        state: extent.state,
    }
}
