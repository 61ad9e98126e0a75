//! Dirty buffer of one file: whole blocks, and the space reserved for them.

use crate::state::quota::Claim;
use crate::types::error::Error;
use std::collections::BTreeMap;
use std::ops::Range;
use uext4_num::{clamp_u32, u64_of};

/// Bytes of one block; unwritten bytes are zero.
type Block = Box<[u8]>;

/// Whether quota is reserved for a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    /// Reserved; must be released.
    ByOwners,
    /// Not reserved, because no quota applies.
    Unasked,
}

/// Reservations that were removed from a buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) clusters: u64,
    /// The clusters among them with reserved quota.
    pub(crate) promised: u64,
}

/// Delayed blocks of a file. Keys are logical block and cluster numbers.
pub(crate) struct Buffer {
    blocks: BTreeMap<u64, Block>,
    /// Number of runs of consecutive blocks.
    runs: u64,
    /// Clusters with reserved space.
    claimed: BTreeMap<u64, Promise>,
    /// Quota reservation for them.
    pub(crate) promised: Claim,
    /// Clusters reserved for map blocks.
    pub(crate) tree_claims: u64,
    /// When the pool listed the file (start of the writeback age, in ns).
    pub(crate) listed: Option<u64>,
    /// The last writeback error; `Inode::write_errors` tracks its reporting.
    pub(crate) error: Option<Error>,
    /// The file was truncated to zero: its new data are written out at close.
    pub(crate) out_at_close: bool,
}

impl Default for Buffer {
    fn default() -> Self {
        Self::NOTHING
    }
}

impl Buffer {
    /// The buffer of a new file.
    pub(crate) const NOTHING: Self = Self {
        blocks: BTreeMap::new(),
        runs: 0,
        claimed: BTreeMap::new(),
        promised: Claim::NONE,
        tree_claims: 0,
        listed: None,
        error: None,
        out_at_close: false,
    };

    /// Whether it equals the buffer of a new file.
    pub(crate) fn is_unused(&self) -> bool {
        let holds_nothing = self.blocks.is_empty() && self.claimed.is_empty();
        let claims_nothing = self.promised.is_empty() && self.tree_claims == 0;
        let says_nothing = self.listed.is_none() && self.error.is_none() && !self.out_at_close;
        holds_nothing && claims_nothing && says_nothing
    }

    /// True when no block is delayed.
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Number of delayed blocks.
    pub(crate) fn len_blocks(&self) -> u64 {
        u64_of(self.blocks.len())
    }

    /// Number of runs of consecutive delayed blocks.
    pub(crate) fn runs(&self) -> u64 {
        self.runs
    }

    /// Number of reserved clusters.
    pub(crate) fn claimed_clusters(&self) -> u64 {
        u64_of(self.claimed.len())
    }

    /// The bytes of a delayed block.
    pub(crate) fn get(&self, block: u64) -> Option<&[u8]> {
        self.blocks.get(&block).map(|bytes| &**bytes)
    }

    /// The bytes of a delayed block, to change.
    pub(crate) fn get_mut(&mut self, block: u64) -> Option<&mut [u8]> {
        self.blocks.get_mut(&block).map(|bytes| &mut **bytes)
    }

    /// The first delayed block at or behind `block`.
    pub(crate) fn next_from(&self, block: u64) -> Option<u64> {
        self.blocks.range(block..).next().map(|(block, _)| *block)
    }

    pub(crate) fn last(&self) -> Option<u64> {
        self.blocks.last_key_value().map(|(block, _)| *block)
    }

    /// Number of consecutive delayed blocks from `block` on.
    pub(crate) fn len_from(&self, block: u64) -> u64 {
        let blocks = (block..).zip(self.blocks.range(block..));
        u64_of(blocks.take_while(|(at, (nr, _))| at == *nr).count())
    }

    /// Number of blocks of a hole, from `block` on, before the next delayed one; at most
    /// `len_blocks`.
    pub(crate) fn cut_hole(&self, block: u64, len_blocks: u32) -> u32 {
        let next = self.next_from(block).map_or(u64::MAX, |next| next - block);
        clamp_u32(next).min(len_blocks)
    }

    /// The first run of consecutive blocks.
    pub(crate) fn first_run(&self) -> Option<Range<u64>> {
        let start = self.next_from(0)?;
        Some(start..start + self.len_from(start))
    }

    /// The bytes of blocks that are all delayed.
    pub(crate) fn slices(&self, blocks: Range<u64>) -> Vec<&[u8]> {
        let blocks = self.blocks.range(blocks);
        blocks.map(|(_, bytes)| &**bytes).collect()
    }

    /// Inserts a block that is not in the buffer.
    pub(crate) fn insert(&mut self, block: u64, bytes: Block) {
        self.runs += 1;
        self.runs -= self.neighbours(block);
        let before = self.blocks.insert(block, bytes);
        debug_assert!(before.is_none(), "the block waits already");
    }

    /// Removes blocks; returns how many there were. Their reservations stay.
    pub(crate) fn remove(&mut self, range: Range<u64>) -> u64 {
        let mut removed = 0;
        while let Some(block) = self.next_from(range.start).filter(|at| *at < range.end) {
            self.blocks.remove(&block);
            self.runs += self.neighbours(block);
            self.runs -= 1;
            removed += 1;
        }
        removed
    }

    fn neighbours(&self, block: u64) -> u64 {
        let before = block.checked_sub(1);
        let is_there = |block| self.blocks.contains_key(&block);
        u64::from(before.is_some_and(is_there)) + u64::from(is_there(block + 1))
    }

    /// Whether space is reserved for the cluster.
    pub(crate) fn is_claimed(&self, cluster: u64) -> bool {
        self.claimed.contains_key(&cluster)
    }

    /// Records that space is reserved for the cluster.
    pub(crate) fn record_claim(&mut self, cluster: u64, promise: Promise) {
        self.claimed.insert(cluster, promise);
    }

    /// Number of these clusters that have a reservation.
    pub(crate) fn count_claims(&self, clusters: Range<u64>) -> u64 {
        u64_of(self.claimed.range(clusters).count())
    }

    /// Removes the reservations of these clusters.
    pub(crate) fn take_claims(&mut self, clusters: Range<u64>) -> Taken {
        let mut taken = Taken::default();
        while let Some((cluster, promise)) = self.claimed.range(clusters.clone()).next() {
            let cluster = *cluster;
            taken.clusters += 1;
            taken.promised += u64::from(*promise == Promise::ByOwners);
            self.claimed.remove(&cluster);
        }
        taken
    }

    /// Removes the reservations of clusters that overlap `blocks` and have no delayed block left.
    pub(crate) fn take_idle_claims(&mut self, blocks: Range<u64>, cluster_blocks: u64) -> Taken {
        if blocks.is_empty() {
            return Taken::default();
        }
        let (mut first, mut end) = (
            blocks.start / cluster_blocks,
            blocks.end.div_ceil(cluster_blocks),
        );
        let waits = |cluster: u64| {
            let next = self.next_from(cluster * cluster_blocks);
            next.is_some_and(|block| block < (cluster + 1) * cluster_blocks)
        };
        // All blocks between the first and the last cluster were removed.
        if waits(first) {
            first += 1;
        }
        if first < end && waits(end - 1) {
            end -= 1;
        }
        self.take_claims(first..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn block() -> Block {
        vec![0; 4].into()
    }

    #[test]
    fn claims_leave_with_the_last_block_of_a_cluster() {
        let mut buffer = Buffer::default();
        for nr in [0, 1, 4, 5, 6, 9] {
            buffer.insert(nr, block());
            let promise = [Promise::ByOwners, Promise::Unasked][usize::from(nr == 9)];
            buffer.record_claim(nr / 4, promise);
        }
        assert_eq!((buffer.runs(), buffer.claimed_clusters()), (3, 3));
        assert_eq!(buffer.remove(1..6), 3);
        let none = buffer.take_idle_claims(1..6, 4);
        assert_eq!(none, Taken::default(), "0 and 6 stay");
        assert_eq!(buffer.remove(6..20), 2);
        let taken = buffer.take_idle_claims(6..20, 4);
        assert_eq!((taken.clusters, taken.promised), (2, 1));
        assert!(buffer.is_claimed(0) && !buffer.is_claimed(1));
        assert_eq!(buffer.first_run(), Some(0..1));
    }

    proptest! {
        #[test]
        fn runs_are_counted(
            steps in prop::collection::vec((any::<bool>(), 0u64..40, 1u64..9), 1..80),
        ) {
            let (mut buffer, mut model) = (Buffer::default(), BTreeSet::new());
            for (put, at, len) in steps {
                for block_nr in at..at + len {
                    if put && model.insert(block_nr) {
                        buffer.insert(block_nr, block());
                    }
                }
                if !put {
                    let before = model.len();
                    model.retain(|nr| !(at..at + len).contains(nr));
                    prop_assert_eq!(buffer.remove(at..at + len), (before - model.len()) as u64);
                }
                let runs = model.iter().filter(|nr| **nr == 0 || !model.contains(&(**nr - 1)));
                prop_assert_eq!(buffer.runs(), runs.count() as u64);
                prop_assert_eq!(buffer.next_from(at), model.range(at..).next().copied());
                let from = (at..).take_while(|nr| model.contains(nr)).count() as u64;
                prop_assert_eq!(buffer.len_from(at), from);
            }
        }
    }
}
