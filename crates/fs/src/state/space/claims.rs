//! Counters of free clusters, on disk and in memory.
//!
//! `on_disk` is the sum of the descriptors. The claimable count is lower by the clusters reserved
//! in memory and those that wait for a commit; [`FreeCount`] keeps it exact near the limit.

use crate::types::error::{Error, Result};
use uext4_alloc::{FreeCount, Privilege};
use uext4_format::{Feature, Geometry, Superblock};
use uext4_num::{clamp_i64, clamp_u32, nonnegative};
use uext4_sync::Counter;
use uext4_sync::atomic::{AtomicU64, Ordering};

pub(super) struct Claims {
    on_disk: Counter,
    /// The part of the claims that is reserved for maps of files with delayed data.
    delayed_tree: Counter,
    count: FreeCount,
    cluster_bits: u32,
    /// Clusters held back for metadata of data that are already accepted.
    held_back_clusters: AtomicU64,
}

/// Clusters that only some may claim.
#[derive(Clone, Copy)]
pub(super) struct Reserves {
    root: u64,
    metadata: u64,
}

impl Reserves {
    pub(super) fn of(disk: &Superblock, geometry: &Geometry) -> Self {
        let has_extents = geometry.features.has(Feature::EXTENTS);
        let clusters = geometry.clusters_count();
        let metadata = has_extents.then(|| FreeCount::default_metadata_reserve(clusters));
        Self {
            root: disk.r_blocks_count >> geometry.cluster_bits,
            metadata: metadata.unwrap_or(0),
        }
    }
}

impl Claims {
    pub(super) fn new(free: u64, reserves: Reserves, cluster_bits: u32) -> Self {
        Self {
            on_disk: Counter::new(i64::try_from(free).unwrap_or(i64::MAX)),
            delayed_tree: Counter::new(0),
            count: FreeCount::new(free, reserves.root, reserves.metadata),
            cluster_bits,
            held_back_clusters: reserves.metadata.into(),
        }
    }

    /// Adds clusters of a larger file system: `free` more by its descriptors, and `unclaimed` that
    /// are not claimed any more.
    pub(super) fn grow(&self, free: u64, unclaimed: u64, reserves: Reserves) {
        let held_back = reserves.metadata;
        self.held_back_clusters.store(held_back, Ordering::Relaxed);
        self.count.set_reserves(reserves.root, held_back);
        self.on_disk.add(clamp_i64(free));
        self.count.give(free + unclaimed);
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

    /// Takes clusters away, whether they are available or not.
    pub(super) fn withdraw(&self, clusters: u64) {
        self.count.withdraw(clusters);
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

    pub(super) fn has(&self, clusters: u64, privilege: Privilege) -> bool {
        self.count.has(clusters, privilege)
    }

    pub(super) fn available_to(&self, privilege: Privilege) -> u64 {
        self.count.available_to(privilege)
    }

    pub(super) fn is_scarce(&self) -> bool {
        self.count.is_scarce()
    }

    pub(super) fn available(&self) -> u64 {
        self.count.available()
    }

    /// See [`FreeCount::balance`]; with the reservations for maps of delayed data, which are part
    /// of the clusters held back for metadata.
    pub(super) fn balance(&self) -> i64 {
        let reserved = self.delayed_tree.sum();
        self.count.balance().saturating_add(reserved)
    }

    pub(super) fn free_on_disk(&self) -> u64 {
        nonnegative(self.on_disk.sum())
    }

    pub(super) fn held_back_blocks(&self) -> u64 {
        self.held_back_clusters.load(Ordering::Relaxed) << self.cluster_bits
    }
}
