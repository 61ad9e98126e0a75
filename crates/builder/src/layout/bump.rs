//! Gives out blocks in ascending order, around the fixed places: superblock copies, descriptors
//! and the blocks reserved for more of them.
//!
//! Invariants: no block is given out twice. A run begins with a cluster, and the rest of its last
//! cluster stays unused.

use uext4_format::{BlockNr, BlockRun, Geometry};
use uext4_num::clamp_u32;

use crate::error::{Error, Result};

/// The next free block, and the runs before it.
pub(crate) struct Bump {
    geometry: Geometry,
    /// The blocks of the image, at most those of the geometry.
    limit: u64,
    next: u64,
    /// What was given out: start and end of runs, ascending.
    runs: Vec<(u64, u64)>,
}

impl Bump {
    /// All blocks of the geometry up to the limit are free, except for the fixed places.
    pub(crate) fn new(geometry: Geometry, limit: u64) -> Bump {
        Bump {
            limit: limit >> geometry.cluster_bits << geometry.cluster_bits,
            next: u64::from(geometry.first_data_block),
            geometry,
            runs: Vec::new(),
        }
    }

    /// Leaves out all blocks before this one; others have them.
    pub(crate) fn skip_to(&mut self, block: u64) {
        self.next = self.next.max(block);
    }

    /// The next blocks, at least one and at most `max`.
    pub(crate) fn take(&mut self, max: u32) -> Result<BlockRun> {
        let geometry = &self.geometry;
        let full = Error::Full { blocks: self.limit };
        loop {
            if self.next >= self.limit {
                return Err(full);
            }
            let group = geometry.group_of_block(BlockNr(self.next));
            let first = geometry.group_first_block(group).0;
            let free = first + u64::from(geometry.base_metadata_blocks(group));
            let end = first + u64::from(geometry.blocks_in_group(group));
            let end = end.min(self.limit);
            self.next = cluster_end(geometry, self.next.max(free));
            if self.next < end {
                let run = BlockRun {
                    start: BlockNr(self.next),
                    len_blocks: max.min(clamp_u32(end - self.next)),
                };
                self.record(run);
                return Ok(run);
            }
        }
    }

    fn record(&mut self, run: BlockRun) {
        let end = run.start.0 + u64::from(run.len_blocks);
        let end = cluster_end(&self.geometry, end);
        match self.runs.last_mut() {
            Some((_, last)) if *last == run.start.0 => *last = end,
            _ => self.runs.push((run.start.0, end)),
        }
        self.next = end;
    }

    /// The runs given out, ascending.
    pub(crate) fn runs(&self) -> &[(u64, u64)] {
        &self.runs
    }
}

/// The end of the cluster that has the block before this one.
pub(crate) fn cluster_end(geometry: &Geometry, block: u64) -> u64 {
    let first = u64::from(geometry.first_data_block);
    first + (geometry.blocks_to_clusters(block - first) << geometry.cluster_bits)
}
