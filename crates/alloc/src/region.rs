//! One region: a flexible group, or a part of one, with its tree and its summary.
//!
//! Layout: a region fills cache lines of its own, and so do the counts of its groups. Small file
//! systems are cut into more regions than flexible groups, so that threads rarely contend for one
//! lock.
//!
//! Invariants: `longest` is exact while the tree is loaded, and while the region is not cold.
//! `free` of each block group is always exact. While a reservation exists the tree stays.

use crate::cold::step_of;
use crate::free_extents::FreeExtents;
use crate::{Summary, Volume};
use std::ops::Range;
use uext4_num::{clamp_u32, usize_of};
use uext4_sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use uext4_sync::{CachePadded, Mutex, Rank};

/// Regions per core, if there are enough groups: then threads rarely contend.
const REGIONS_PER_CORE: u32 = 8;

/// Groups of a region: those of a flexible group, or fewer on a small volume; a power of two.
/// Offsets in a region have 32 bits.
pub(crate) fn groups_per_region(volume: &Volume, cores: u32) -> u32 {
    let most = volume.groups / (cores * REGIONS_PER_CORE);
    let addressed = u32::MAX / volume.clusters_per_group.max(1);
    let groups = most.min(addressed).clamp(1, volume.groups_per_flex.max(1));
    1 << groups.ilog2()
}

/// State under the lock of a region.
pub(crate) struct Space {
    pub(crate) tree: Option<FreeExtents>,
    /// Changes whenever bitmaps read earlier become stale.
    pub(crate) generation: u32,
    /// Step of the region in the cold index; `None`: its longest run is known.
    pub(crate) cold: Option<u32>,
}

/// A block group of a region.
pub(crate) struct Group {
    /// Clusters that can be allocated.
    pub(crate) free: AtomicU32,
    /// Its bitmap cannot be used.
    pub(crate) bad: AtomicBool,
}

pub(crate) struct Region {
    pub(crate) space: Mutex<Space>,
    longest: AtomicU32,
    reserved: AtomicU64,
    /// Reference bit of CLOCK eviction.
    referenced: AtomicBool,
    loaded: AtomicBool,
    /// The longest run is exact.
    known: AtomicBool,
    /// A thread is reading its bitmaps for the summary.
    claimed: AtomicBool,
    groups: Box<[CachePadded<GroupChunk>]>,
    group_count: u32,
}

/// As many groups as fill whole cache lines.
type GroupChunk = [Group; GROUPS_PER_CHUNK];
const GROUPS_PER_CHUNK: usize = 16;

impl Region {
    /// A region with known descriptors.
    pub(crate) fn new(groups: &[Summary]) -> Self {
        // Uninitialised groups have their metadata first, so their space is one run.
        let guess = groups.iter().filter(|group| group.uninit);
        let longest = guess.map(|group| group.free_clusters).max().unwrap_or(0);
        let promise = groups.iter().map(|group| group.free_clusters).max();
        let space = Space {
            tree: None,
            generation: 0,
            cold: step_of(promise.unwrap_or(0)),
        };
        Self {
            space: Mutex::new(Rank::GroupSpace, space),
            longest: longest.into(),
            reserved: 0.into(),
            referenced: false.into(),
            loaded: false.into(),
            known: (promise.unwrap_or(0) == 0).into(),
            claimed: false.into(),
            groups: groups
                .chunks(GROUPS_PER_CHUNK)
                .map(|some| CachePadded::new(chunk_of(some)))
                .collect(),
            group_count: clamp_u32(groups.len()), // those of a flexible group at most
        }
    }

    /// A block group by its place in the region.
    pub(crate) fn group(&self, index: u32) -> &Group {
        debug_assert!(index < self.group_count, "a group of the region");
        let index = usize_of(index);
        &self.groups[index / GROUPS_PER_CHUNK][index % GROUPS_PER_CHUNK]
    }

    /// Longest free run in clusters; 0: none, or unknown. May be too short while the region is
    /// cold.
    pub(crate) fn longest(&self) -> u32 {
        self.longest.load(Ordering::Relaxed)
    }

    /// The caller holds the lock. Returns the old value.
    pub(crate) fn store_longest(&self, longest: u32) -> u32 {
        let before = self.longest();
        if before != longest {
            self.longest.store(longest, Ordering::Relaxed);
        }
        before
    }

    /// Upper bound of the runs in the region, in clusters.
    pub(crate) fn promise(&self) -> u32 {
        let groups = self.groups.iter().flat_map(|chunk| chunk.iter());
        groups.map(Group::usable).max().unwrap_or(0)
    }

    pub(crate) fn is_loaded(&self) -> bool {
        self.loaded.load(Ordering::Relaxed)
    }

    /// The caller holds the lock of the region.
    pub(crate) fn store_loaded(&self, loaded: bool) {
        self.loaded.store(loaded, Ordering::Relaxed);
    }

    /// Whether the longest run is exact.
    pub(crate) fn is_known(&self) -> bool {
        self.known.load(Ordering::Relaxed)
    }

    /// The caller holds the lock of the region.
    pub(crate) fn store_known(&self, known: bool) {
        self.known.store(known, Ordering::Relaxed);
    }

    /// Sets the reference bit of the tree.
    pub(crate) fn refer(&self) {
        if !self.referenced.load(Ordering::Relaxed) {
            self.referenced.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the tree was not used since the last call; clears the reference bit.
    pub(crate) fn is_idle(&self) -> bool {
        self.is_loaded() && !self.referenced.swap(false, Ordering::Relaxed)
    }

    /// Elects the thread that reads the bitmaps for the summary; see [`Self::unclaim`].
    pub(crate) fn claim(&self) -> bool {
        !self.claimed.swap(true, Ordering::Acquire)
    }

    pub(crate) fn unclaim(&self) {
        self.claimed.store(false, Ordering::Release);
    }

    pub(crate) fn reserve(&self, len: u32) {
        self.reserved.fetch_add(u64::from(len), Ordering::Relaxed);
    }

    /// Release, so that an evictor that sees the count also sees the bits on disk.
    pub(crate) fn unreserve(&self, len: u32) {
        let before = self.reserved.fetch_sub(u64::from(len), Ordering::Release);
        assert!(
            before >= u64::from(len),
            "clusters marked in use or released that were not reserved"
        );
    }

    /// The caller holds the lock; returns how many there were.
    pub(crate) fn drop_reserved(&self) -> u64 {
        self.reserved.swap(0, Ordering::AcqRel)
    }

    pub(crate) fn is_reserved(&self) -> bool {
        self.reserved.load(Ordering::Acquire) > 0
    }
}

impl Group {
    /// Clusters that can be allocated.
    pub(crate) fn usable(&self) -> u32 {
        if self.bad.load(Ordering::Relaxed) {
            0
        } else {
            self.free.load(Ordering::Relaxed)
        }
    }
}

/// Slots without a group have nothing free.
fn chunk_of(groups: &[Summary]) -> GroupChunk {
    std::array::from_fn(|index| Group {
        free: groups
            .get(index)
            .map_or(0, |group| group.free_clusters)
            .into(),
        bad: false.into(),
    })
}

/// Block groups of a region.
pub(crate) fn groups_of(volume: &Volume, per_region: u32, nr: u32) -> Range<u32> {
    let first = nr * per_region;
    first..first.saturating_add(per_region).min(volume.groups)
}

#[cfg(test)]
mod tests {
    use super::*;
    use uext4_format::BlockNr;

    #[test]
    fn small_volumes_have_small_regions() {
        let volume = |groups, groups_per_flex| Volume {
            groups,
            clusters_per_group: 32768,
            clusters_in_last_group: 32768,
            first_block: BlockNr(0),
            cluster_bits: 0,
            groups_per_flex,
            groups_max: groups,
        };
        let size = |groups, flex, cores| groups_per_region(&volume(groups, flex), cores);
        assert_eq!(size(16, 16, 2), 1);
        assert_eq!(size(40, 16, 2), 2);
        assert_eq!(size(16, 16, 64), 1);
        assert_eq!(size(800, 16, 2), 16);
        assert_eq!(size(100, 16, 4), 2);
        assert_eq!(size(1000, 1, 2), 1);
        let large = size(1 << 20, 1 << 18, 1);
        assert!(large.checked_mul(32768).is_some(), "{large} groups");
    }
}
