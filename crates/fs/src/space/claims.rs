//! Counting free clusters: on disk, in memory, and those that only the superuser may have.
//!
//! `on disk` is what the descriptors count; `available` is that less what is reserved in memory and
//! what waits for a commit. Both are sharded. A claim near the limit sums exactly under a lock, so
//! that there is neither a false "no space" nor an overdraft.

use crate::{Error, Result};
use uext4_sync::{Counter, Mutex, Rank};

/// Claims smaller than the distance to the limit minus this need no exact sum, in clusters.
const SLACK_CLUSTERS: u64 = 4096;

pub(super) struct Claims {
    on_disk: Counter,
    available: Counter,
    /// Serialises claims near the limit.
    exact: Mutex<()>,
    /// Free clusters that only the superuser (or `resuid=`) may take.
    reserved_clusters: u64,
    /// Clusters held back from everybody for metadata of data that is already accepted.
    held_back_clusters: u64,
    cluster_bits: u32,
}

impl Claims {
    pub(super) fn new(
        free_clusters: u64,
        reserved_clusters: u64,
        held_back_clusters: u64,
        cluster_bits: u32,
    ) -> Self {
        let free = i64::try_from(free_clusters).unwrap_or(i64::MAX);
        Self {
            on_disk: Counter::new(free),
            available: Counter::new(free),
            exact: Mutex::new(Rank::Queue, ()),
            reserved_clusters,
            held_back_clusters,
            cluster_bits,
        }
    }

    /// Takes up to `wanted` clusters off the available ones, leaving `floor`; at least `min`.
    pub(super) fn claim(&self, wanted: u32, min: u32, floor: u64) -> Result<u32> {
        let _exact = self.exact.lock();
        let room = self.available().saturating_sub(floor);
        let granted = room.min(u64::from(wanted)) as u32;
        if granted < min {
            return Err(Error::NoSpace);
        }
        self.available.add(-i64::from(granted));
        Ok(granted)
    }

    /// As [`Self::claim`] without the lock, when the limit is far away.
    pub(super) fn claim_fast(&self, wanted: u32, min: u32, floor: u64) -> Result<u32> {
        let far = floor.saturating_add(SLACK_CLUSTERS).saturating_add(u64::from(wanted));
        if self.available() > far {
            self.available.add(-i64::from(wanted));
            return Ok(wanted);
        }
        self.claim(wanted, min, floor)
    }

    /// Gives claimed clusters back that were not used.
    pub(super) fn unclaim(&self, clusters: u64) {
        self.available.add(clusters as i64);
    }

    /// Claimed clusters are in use on disk now.
    pub(super) fn committed(&self, clusters: u64) {
        self.on_disk.add(-(clusters as i64));
    }

    /// Clusters were freed on disk; they are available after the commit.
    pub(super) fn freed(&self, clusters: u64) {
        self.on_disk.add(clusters as i64);
    }

    /// Freed clusters can be used again.
    pub(super) fn returned(&self, clusters: u64) {
        self.available.add(clusters as i64);
    }

    pub(super) fn available(&self) -> u64 {
        self.available.sum().max(0) as u64
    }

    pub(super) fn free_on_disk(&self) -> u64 {
        self.on_disk.sum().max(0) as u64
    }

    pub(super) fn reserved_clusters(&self) -> u64 {
        self.reserved_clusters
    }

    pub(super) fn held_back_blocks(&self) -> u64 {
        self.held_back_clusters << self.cluster_bits
    }
}
