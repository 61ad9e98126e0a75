//! Allocation of blocks during mkfs.
//!
//! Superblock copies and descriptors follow from the geometry; all other used blocks are runs in a
//! map, so that memory grows with the used blocks only.
//!
//! Invariant: runs do not overlap each other nor the base metadata of a group.

use std::collections::BTreeMap;

use uext4_format::{BlockNr, BlockRun, Geometry, GroupNr};
use uext4_num::clamp_u32;

use crate::Error;

/// Blocks of the file system that are in use.
pub(super) struct Space {
    pub(super) geometry: Geometry,
    /// Start and end of each run.
    runs: BTreeMap<u64, u64>,
}

/// Whether blocks may share a cluster with others.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sharing {
    /// Yes: metadata of groups are packed.
    SharedClusters,
    /// No: an inode has its own clusters.
    OwnClusters,
}

impl Space {
    pub(super) fn new(geometry: Geometry) -> Space {
        Space {
            geometry,
            runs: BTreeMap::new(),
        }
    }

    /// The space from group `first` on; all before it counts as in use.
    pub(super) fn behind(geometry: Geometry, first: GroupNr) -> Space {
        let mut space = Self::new(geometry);
        let start = u64::from(geometry.first_data_block);
        space.mark(start, geometry.group_first_block(first).0);
        space
    }

    /// Allocates `len` consecutive blocks, the first free ones from `goal` on, else from the start.
    pub(super) fn take_run(
        &mut self,
        goal: BlockNr,
        len: u32,
        sharing: Sharing,
        purpose: &'static str,
    ) -> Result<BlockNr, Error> {
        let first = u64::from(self.geometry.first_data_block);
        let start = self
            .find(goal.0, u64::from(len), sharing)
            .or_else(|| self.find(first, u64::from(len), sharing))
            .ok_or(Error::NoSpace(purpose))?;
        self.mark(start, start + self.rounded(u64::from(len), sharing));
        Ok(BlockNr(start))
    }

    /// Marks blocks from `start` to before `end` as used, which are free.
    pub(super) fn occupy(&mut self, start: BlockNr, end: BlockNr) {
        self.mark(start.0, end.0);
    }

    /// The block after the last one in use that is not base metadata.
    pub(super) fn end(&self) -> BlockNr {
        let last = self.runs.last_key_value();
        let end = last.map_or(self.geometry.first_data_block.into(), |(_, end)| *end);
        BlockNr(end)
    }

    /// Allocates the first free `len` blocks from `goal` on, in pieces if need be.
    pub(super) fn take_pieces(
        &mut self,
        goal: BlockNr,
        len: u32,
        purpose: &'static str,
    ) -> Result<Vec<BlockRun>, Error> {
        let mut runs = Vec::new();
        let mut left = u64::from(len);
        let first = u64::from(self.geometry.first_data_block);
        for from in [goal.0, first] {
            let mut at = from;
            while left > 0 {
                let Some((start, free)) = self.next_free(at, left) else {
                    break;
                };
                let piece = free.min(left);
                self.mark(start, start + self.rounded(piece, Sharing::OwnClusters));
                runs.push(BlockRun {
                    start: BlockNr(start),
                    len_blocks: clamp_u32(piece),
                });
                left -= piece;
                at = start + piece;
            }
        }
        if left == 0 {
            Ok(runs)
        } else {
            Err(Error::NoSpace(purpose))
        }
    }

    /// Allocates `len` blocks for an inode: consecutive if possible, else in pieces.
    pub(super) fn take(
        &mut self,
        goal: BlockNr,
        len: u32,
        purpose: &'static str,
    ) -> Result<Vec<BlockRun>, Error> {
        if let Ok(start) = self.take_run(goal, len, Sharing::OwnClusters, purpose) {
            return Ok(vec![BlockRun {
                start,
                len_blocks: len,
            }]);
        }
        self.take_pieces(goal, len, purpose)
    }

    /// Clusters in use in a group.
    pub(super) fn used_clusters(&self, group: GroupNr) -> u32 {
        if self.is_base_only(group) {
            let base = u64::from(self.geometry.base_metadata_blocks(group));
            let len = u64::from(self.geometry.blocks_in_group(group));
            return clamp_u32(self.geometry.blocks_to_clusters(base.min(len)));
        }
        let mut used = 0;
        let mut done = 0;
        for (start, end) in self.cluster_ranges(group) {
            used += end.max(done) - start.max(done);
            done = done.max(end);
        }
        used
    }

    /// Whether only the superblock copy and descriptors are in use in the group.
    pub(super) fn is_base_only(&self, group: GroupNr) -> bool {
        self.runs_in(group).next().is_none()
    }

    /// Ranges of clusters in use in a group, ascending by start; neighbours may share a cluster.
    pub(super) fn cluster_ranges(&self, group: GroupNr) -> impl Iterator<Item = (u32, u32)> + '_ {
        let first = self.geometry.group_first_block(group).0;
        let base = u64::from(self.geometry.base_metadata_blocks(group));
        let bits = self.geometry.cluster_bits;
        let ratio = u64::from(self.geometry.blocks_per_cluster());
        let base = std::iter::once((first, first + base)).filter(|(start, end)| start < end);
        base.chain(self.runs_in(group)).map(move |(start, end)| {
            (
                clamp_u32((start - first) >> bits),
                clamp_u32((end - first).div_ceil(ratio)),
            )
        })
    }

    /// The runs of a group, clipped to it.
    fn runs_in(&self, group: GroupNr) -> impl Iterator<Item = (u64, u64)> + '_ {
        let start = self.geometry.group_first_block(group).0;
        let end = start + u64::from(self.geometry.blocks_in_group(group));
        let before = self.runs.range(..start).next_back();
        let before = before.filter(move |(_, run_end)| **run_end > start);
        before
            .into_iter()
            .chain(self.runs.range(start..end))
            .map(move |(run_start, run_end)| ((*run_start).max(start), (*run_end).min(end)))
    }

    fn mark(&mut self, start: u64, end: u64) {
        let before = self
            .runs
            .range(..start)
            .next_back()
            .map(|(start, end)| (*start, *end));
        let start = match before {
            Some((before, before_end)) if before_end == start => before,
            _ => start,
        };
        self.runs.insert(start, end);
    }

    fn rounded(&self, len: u64, sharing: Sharing) -> u64 {
        match sharing {
            Sharing::SharedClusters => len,
            Sharing::OwnClusters => {
                self.geometry.blocks_to_clusters(len) << self.geometry.cluster_bits
            }
        }
    }

    /// Start of the first `len` free consecutive blocks from `from` on.
    fn find(&self, from: u64, len: u64, sharing: Sharing) -> Option<u64> {
        let len = self.rounded(len, sharing);
        let mut at = self.aligned(from, sharing);
        while at.checked_add(len)? <= self.geometry.blocks_count {
            match self.next_used(at, at + len) {
                None => return Some(at),
                Some((_, end)) => at = self.aligned(end, sharing),
            }
        }
        None
    }

    /// The first free blocks from `from` on, at most `max`: start and length.
    fn next_free(&self, from: u64, max: u64) -> Option<(u64, u64)> {
        let limit = self.geometry.blocks_count;
        let mut at = self.aligned(from, Sharing::OwnClusters);
        while at < limit {
            let end = at
                .saturating_add(self.rounded(max, Sharing::OwnClusters))
                .min(limit);
            let free_end = match self.next_used(at, end) {
                None => end,
                Some((used, _)) => used.max(at),
            };
            let whole = (free_end - at) >> self.geometry.cluster_bits << self.geometry.cluster_bits;
            if whole > 0 {
                return Some((at, whole));
            }
            let (_, used_end) = self.next_used(at, end)?;
            at = self.aligned(used_end, Sharing::OwnClusters);
        }
        None
    }

    /// The first blocks in use that end after `at` and start before `limit`: start and end.
    fn next_used(&self, at: u64, limit: u64) -> Option<(u64, u64)> {
        let before = self
            .runs
            .range(..=at)
            .next_back()
            .filter(|(_, end)| **end > at);
        let run = before.or_else(|| self.runs.range(at..limit).next());
        let run = run
            .map(|(start, end)| (*start, *end))
            .filter(|(start, _)| *start < limit);
        let base_limit = run.map_or(limit, |(start, _)| start.max(at + 1));
        self.next_base(at, base_limit).or(run)
    }

    fn next_base(&self, at: u64, limit: u64) -> Option<(u64, u64)> {
        let mut group = self.geometry.group_of_block(BlockNr(at));
        while group.0 < self.geometry.group_count {
            let start = self.geometry.group_first_block(group).0;
            if start >= limit {
                return None;
            }
            let end = start + u64::from(self.geometry.base_metadata_blocks(group));
            if end > at && end > start {
                return Some((start, end));
            }
            group.0 += 1;
        }
        None
    }

    fn aligned(&self, block: u64, sharing: Sharing) -> u64 {
        let first = u64::from(self.geometry.first_data_block);
        first + self.rounded(block.saturating_sub(first), sharing)
    }
}
