//! Counters of free clusters, on disk and in memory.
//!
//! `on_disk` is the sum of the descriptors. The claimable count is lower by the clusters reserved
//! in memory and those that wait for a commit; [`FreeCount`] keeps it exact near the limit.

use crate::{Error, Result};
use uext4_alloc::{FreeCount, Privilege};
use uext4_num::{clamp_i64, clamp_u32, nonnegative};
use uext4_sync::Counter;

pub(super) struct Claims {
    on_disk: Counter,
    /// The part of the claims that is reserved for maps of files with delayed data.
    delayed_tree: Counter,
    count: FreeCount,
    cluster_bits: u32,
    /// Clusters held back for metadata of data that are already accepted.
    held_back_clusters: u64,
}

impl Claims {
    pub(super) fn new(free: u64, clusters: u64, root_reserve: u64, cluster_bits: u32) -> Self {
        let held_back_clusters = FreeCount::default_metadata_reserve(clusters);
        Self {
            on_disk: Counter::new(i64::try_from(free).unwrap_or(i64::MAX)),
            delayed_tree: Counter::new(0),
            count: FreeCount::new(free, root_reserve, held_back_clusters),
            cluster_bits,
            held_back_clusters,
        }
    }

    /// Claims up to `wanted` available clusters, at least `min`.
    pub(super) fn claim(&self, wanted: u32, min: u32, privilege: Privilege) -> Result<u32> {
        let granted = self.count.claim_up_to(wanted.into(), min.into(), privilege);
        // At most `wanted`.
        granted.map(clamp_u32).ok_or(Error::NoSpace)
    }

    /// Returns claimed clusters that were not used, or that a commit freed.
    pub(super) fn give(&self, clusters: u64) {
        self.count.give(clusters);
    }

    /// Reserves clusters for delayed data and their map; false if nothing was reserved.
    pub(super) fn delay(&self, data: u64, tree: u64, privilege: Privilege) -> bool {
        if !self.count.try_claim(data, privilege) {
            return false;
        }
        if tree > 0 && !self.count.try_claim(tree, Privilege::Metadata) {
            self.count.give(data);
            return false;
        }
        self.count.add_delayed(data);
        self.delayed_tree.add(clamp_i64(tree));
        true
    }

    /// Ends reservations of delayed data, which are used or returned.
    pub(super) fn end_delay(&self, data: u64, tree: u64) {
        self.count.remove_delayed(data);
        self.delayed_tree.add(-clamp_i64(tree));
    }

    pub(super) fn delayed(&self) -> u64 {
        self.count.delayed()
    }

    pub(super) fn delayed_tree(&self) -> u64 {
        nonnegative(self.delayed_tree.sum())
    }

    /// Counts claimed clusters as used on disk.
    pub(super) fn committed(&self, clusters: u64) {
        self.on_disk.add(-clamp_i64(clusters));
    }

    /// Counts clusters as freed on disk; they become available after the commit.
    pub(super) fn freed(&self, clusters: u64) {
        self.on_disk.add(clamp_i64(clusters));
    }

    /// See [`FreeCount::has`].
    pub(super) fn has(&self, clusters: u64, privilege: Privilege) -> bool {
        self.count.has(clusters, privilege)
    }

    pub(super) fn available_to(&self, privilege: Privilege) -> u64 {
        self.count.available_to(privilege)
    }

    /// See [`FreeCount::is_scarce`].
    pub(super) fn is_scarce(&self) -> bool {
        self.count.is_scarce()
    }

    pub(super) fn available(&self) -> u64 {
        self.count.available()
    }

    pub(super) fn free_on_disk(&self) -> u64 {
        nonnegative(self.on_disk.sum())
    }

    pub(super) fn held_back_blocks(&self) -> u64 {
        self.held_back_clusters << self.cluster_bits
    }
}
