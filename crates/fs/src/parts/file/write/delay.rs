//! Delayed allocation: data for a hole are buffered until writeback (`delayed`).

use super::super::delay::enter;
use super::Write;
use crate::parts::map;
use crate::state::delayed::Promise;
use crate::state::inode::InodeState;
use crate::state::quota::{Claim, Owners};
use crate::types::error::Result;
use std::ops::Range;
use uext4_format::LogicalBlock;
use uext4_num::{clamp_u32, clamp_usize, u64_of};

/// Blocks that are neither mapped nor in the buffer, and what they need.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Need {
    blocks: Range<u64>,
    /// Numbers of the clusters without a reservation.
    clusters: Vec<u64>,
    /// Additional map blocks to reserve.
    tree: u64,
    owners: Owners,
}

impl Need {
    pub(super) fn len_blocks(&self) -> u32 {
        clamp_u32(self.blocks.end - self.blocks.start)
    }
}

impl Write<'_> {
    /// What `len_blocks` blocks of a hole need.
    pub(super) fn need(&self, state: &InodeState, block: u64, len_blocks: u32) -> Result<Need> {
        let blocks = block..block + u64::from(len_blocks);
        Ok(Need {
            clusters: self.unclaimed(state, &blocks)?,
            tree: self.tree_claims(state, &blocks),
            owners: Owners::of(&state.disk),
            blocks,
        })
    }

    fn unclaimed(&self, state: &InodeState, blocks: &Range<u64>) -> Result<Vec<u64>> {
        let ratio = u64::from(self.fs.base.geometry.blocks_per_cluster());
        let clusters = blocks.start / ratio..blocks.end.div_ceil(ratio);
        if ratio == 1 {
            return Ok(clusters.collect());
        }
        let mut unclaimed = Vec::new();
        for cluster in clusters.filter(|cluster| !self.buffer.is_claimed(*cluster)) {
            let first = LogicalBlock(clamp_u32(cluster * ratio));
            if map::cluster_mate(self.fs, state, first)?.is_none() {
                unclaimed.push(cluster);
            }
        }
        Ok(unclaimed)
    }

    fn tree_claims(&self, state: &InodeState, blocks: &Range<u64>) -> u64 {
        let buffer = &*self.buffer;
        let joins = blocks.start > 0 && buffer.get(blocks.start - 1).is_some();
        let runs = buffer.runs() + u64::from(!joins);
        let waiting = buffer.len_blocks() + blocks.end - blocks.start;
        // For a file without extents, the end decides.
        let end = buffer
            .last()
            .map_or(blocks.end, |last| blocks.end.max(last + 1));
        map::tree_growth_max(self.fs, state, runs, waiting, end).saturating_sub(buffer.tree_claims)
    }

    /// Reserves space, and copies the data to the buffer.
    ///
    /// # Errors
    /// [`crate::Error::NoSpace`] and [`crate::Error::Quota`] when the reservation fails: nothing is
    /// buffered.
    pub(super) fn delay(&mut self, need: &Need) -> Result<usize> {
        let fs = self.fs;
        let clusters = u64_of(need.clusters.len());
        let promised = self.ask_owners(clusters, need.owners)?;
        fs.space.delay(clusters, need.tree, self.policy.reserve)?;
        self.buffer.tree_claims += need.tree;
        let promise = if promised.is_empty() {
            Promise::Unasked
        } else {
            Promise::ByOwners
        };
        self.buffer.promised.absorb(promised);
        for cluster in &need.clusters {
            self.buffer.record_claim(*cluster, promise);
        }
        let len_bytes = self.copy_in(need);
        let bytes = u64::from(need.len_blocks()) << fs.base.geometry.block_bits;
        fs.delayed.count(bytes.cast_signed());
        enter(fs, self.inode, self.buffer);
        self.inode.publish_delayed(self.buffer);
        Ok(len_bytes)
    }

    /// Reserves quota of the file's owners: limits apply at the write, not at writeback. The owners
    /// stay while the file's data are locked, if there is quota (`write_out_before_chown`).
    fn ask_owners(&self, clusters: u64, owners: Owners) -> Result<Claim> {
        let fs = self.fs;
        if clusters == 0 || !fs.quota.is_on() {
            return Ok(Claim::default());
        }
        let bytes = clusters * fs.base.geometry.cluster_size();
        let (_all, claim) =
            fs.quota
                .claim_space(&fs.base, owners, (bytes, bytes), self.policy.reserve)?;
        Ok(claim)
    }

    /// Copies the data to new blocks of the buffer; returns how many bytes.
    fn copy_in(&mut self, need: &Need) -> usize {
        let block_size = self.fs.block_size();
        let data = self.front(need.len_blocks());
        let (mut within, mut rest) = (clamp_usize(self.block_and_offset().1), data);
        for block in need.blocks.clone() {
            let (here, behind) = rest.split_at(rest.len().min(block_size - within));
            let bytes: Box<[u8]> = if here.len() == block_size {
                here.into()
            } else {
                let mut bytes = vec![0; block_size];
                bytes[within..within + here.len()].copy_from_slice(here);
                bytes.into()
            };
            self.buffer.insert(block, bytes);
            (within, rest) = (0, behind);
        }
        data.len()
    }
}
