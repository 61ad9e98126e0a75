//! One region: a flexible group, or a part of one, with its tree and what is known without it.
//!
//! Layout: a region fills cache lines of its own, and so do the counts of its groups. Small file
//! systems are cut into more regions than they have flexible groups, so that threads do not meet at
//! one lock.
//!
//! Invariants: `longest` is exact while the tree is loaded, and while the region is not cold.
//! `free` of each block group is exact always. While something is reserved the tree stays.

use crate::cold::step_of;
use crate::free_extents::FreeExtents;
use crate::{Summary, Volume};
use std::ops::Range;
use uext4_sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use uext4_sync::{CachePadded, Mutex, Rank};

/// Regions for each core, as far as there are groups: threads rarely meet then.
const REGIONS_PER_CORE: u32 = 8;

/// Groups of a region: a flexible group's, or fewer on a small volume; a power of two. Offsets in
/// a region have 32 bits.
pub(crate) fn groups_per_region(volume: &Volume, cores: u32) -> u32 {
    let most = volume.groups / (cores * REGIONS_PER_CORE);
    let addressed = u32::MAX / volume.clusters_per_group.max(1);
    let groups = most.min(addressed).clamp(1, volume.groups_per_flex.max(1));
    1 << groups.ilog2()
}

/// What the lock of a region protects.
pub(crate) struct Space {
    pub(crate) tree: Option<FreeExtents>,
    /// Changes whenever bitmaps that were read before would be out of date here.
    pub(crate) generation: u32,
    /// Where the region stands among the cold ones; `None`: its longest run is known.
    pub(crate) cold: Option<u32>,
}

/// A block group of a region.
pub(crate) struct Group {
    /// Clusters that can be allocated.
    pub(crate) free: AtomicU32,
    /// Its bitmap cannot be used.
    pub(crate) bad: AtomicBool,
}

/// A region.
pub(crate) struct Region {
    pub(crate) space: Mutex<Space>,
    longest: AtomicU32,
    reserved: AtomicU64,
    /// Used since the hand of eviction came by.
    referenced: AtomicBool,
    loaded: AtomicBool,
    /// The longest run is known for sure.
    known: AtomicBool,
    /// Somebody reads its bitmaps for the summary.
    claimed: AtomicBool,
    groups: Box<[CachePadded<GroupChunk>]>,
    group_count: u32,
}

/// As many groups as cache lines of their own hold.
type GroupChunk = [Group; GROUPS_PER_CHUNK];
const GROUPS_PER_CHUNK: usize = 16;

impl Region {
    /// A region of which the descriptors are known.
    pub(crate) fn new(groups: &[Summary]) -> Self {
        // Uninitialised groups hold their metadata in front, so their space is one run.
        let guess = groups.iter().filter(|group| group.uninit);
        let longest = guess.map(|group| group.free_clusters).max().unwrap_or(0);
        let promise = groups.iter().map(|group| group.free_clusters).max();
        let space = Space {
            tree: None,
            generation: 0,
            cold: step_of(promise.unwrap_or(0)),
        };
        let chunk = |some: &[Summary]| CachePadded::new(chunk_of(some));
        Self {
            space: Mutex::new(Rank::GroupSpace, space),
            longest: longest.into(),
            reserved: 0.into(),
            referenced: false.into(),
            loaded: false.into(),
            known: (promise.unwrap_or(0) == 0).into(),
            claimed: false.into(),
            groups: groups.chunks(GROUPS_PER_CHUNK).map(chunk).collect(),
            group_count: groups.len() as u32, // those of a flexible group at most
        }
    }

    /// A block group by its place in the region.
    pub(crate) fn group(&self, index: u32) -> &Group {
        debug_assert!(index < self.group_count, "a group of the region");
        let index = index as usize;
        &self.groups[index / GROUPS_PER_CHUNK][index % GROUPS_PER_CHUNK]
    }

    /// Longest free run in clusters; 0: none, or unknown. Too short while the region is cold.
    pub(crate) fn longest(&self) -> u32 {
        self.longest.load(Ordering::Relaxed)
    }

    /// The caller holds the lock. Answers what it was.
    pub(crate) fn store_longest(&self, longest: u32) -> u32 {
        let before = self.longest();
        if before != longest {
            self.longest.store(longest, Ordering::Relaxed);
        }
        before
    }

    /// What no run in the region can exceed.
    pub(crate) fn promise(&self) -> u32 {
        let groups = self.groups.iter().flat_map(|chunk| chunk.iter());
        groups.map(Group::usable).max().unwrap_or(0)
    }

    pub(crate) fn is_loaded(&self) -> bool {
        self.loaded.load(Ordering::Relaxed)
    }

    /// The caller holds the lock.
    pub(crate) fn store_loaded(&self, loaded: bool) {
        self.loaded.store(loaded, Ordering::Relaxed);
    }

    /// Whether the longest run is known for sure.
    pub(crate) fn is_known(&self) -> bool {
        self.known.load(Ordering::Relaxed)
    }

    /// The caller holds the lock.
    pub(crate) fn store_known(&self, known: bool) {
        self.known.store(known, Ordering::Relaxed);
    }

    /// Marks the tree as used.
    pub(crate) fn refer(&self) {
        if !self.referenced.load(Ordering::Relaxed) {
            self.referenced.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the tree was not used since this was asked last.
    pub(crate) fn is_idle(&self) -> bool {
        self.is_loaded() && !self.referenced.swap(false, Ordering::Relaxed)
    }

    /// True for the one who may read the bitmaps for the summary; see [`Self::unclaim`].
    pub(crate) fn claim(&self) -> bool {
        !self.claimed.swap(true, Ordering::Acquire)
    }

    pub(crate) fn unclaim(&self) {
        self.claimed.store(false, Ordering::Release);
    }

    pub(crate) fn reserve(&self, len: u32) {
        self.reserved.fetch_add(u64::from(len), Ordering::Relaxed);
    }

    /// Release, so that an evictor who sees the count also sees the bits on disk.
    pub(crate) fn unreserve(&self, len: u32) {
        let before = self.reserved.fetch_sub(u64::from(len), Ordering::Release);
        assert!(
            before >= u64::from(len),
            "clusters settled or released that were not reserved"
        );
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

/// Places without a group have nothing free.
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
