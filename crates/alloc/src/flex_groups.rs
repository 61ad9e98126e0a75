//! All flexible groups of a volume with their trees: load, take, give back, evict.
//!
//! A tree is built from the bitmaps of its groups and may be dropped while nothing in it is
//! reserved; the length of its longest run stays behind, in the index by order, so that a search
//! still goes straight to the trees that are worth building again. What was never built, or was
//! given clusters while dropped, is *cold*: its longest run is unknown, or known too small.
//!
//! Invariants: while a tree is loaded its longest run is published exactly. `free` of each block
//! group is exact always. Bitmaps are read with no lock held and installed only if the
//! generation did not change (as in `groups.rs`).
//!
//! Locking: `Rank::GroupSpace`, one flexible group at a time; `Rank::PendingFree` under it.
//! Eviction goes round with one reference bit per tree, and only tries locks.

use crate::free_extents::{FreeExtents, RUN_BYTES};
use crate::group_index::OrderIndex;
use crate::pending_free::PendingFree;
use crate::{Bitmap, ClusterNr, LoadError, Loader, Run, Stat, Stats, Summary, Trust, Volume};
use crossbeam_utils::CachePadded;
use std::ops::Range;
use std::time::Instant;
use uext4_format::GroupNr;
use uext4_sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use uext4_sync::{Counter, Mutex, MutexGuard, Rank};

/// What the lock of a flexible group protects.
pub(crate) struct Space {
    pub(crate) tree: Option<FreeExtents>,
    generation: u32,
}

/// One flexible group.
pub(crate) struct Flex {
    pub(crate) space: Mutex<Space>,
    /// Longest free run in clusters, when last known; 0: none or unknown.
    largest: AtomicU32,
    reserved: AtomicU64,
    referenced: AtomicBool,
    loaded: AtomicBool,
    /// Free clusters per block group, and whether its bitmap is unusable.
    groups: Box<[(AtomicU32, AtomicBool)]>,
}

pub(crate) struct FlexGroups {
    pub(crate) volume: Volume,
    pub(crate) pending: PendingFree,
    pub(crate) stats: Stats,
    /// By log2 of the longest free run.
    pub(crate) by_largest: OrderIndex,
    /// Flexible groups with free clusters whose longest run is not known for sure.
    pub(crate) cold: OrderIndex,
    pub(crate) orders: u32,
    flexes: Box<[CachePadded<Flex>]>,
    runs: Counter,
    hand: AtomicU32,
    /// The last block group found unusable; `u32::MAX`: none.
    bad: AtomicU32,
}

/// Order in the index of a longest run.
pub(crate) fn order_of(largest: u32) -> Option<u32> {
    largest.checked_ilog2()
}

impl FlexGroups {
    pub(crate) fn new(volume: Volume, summary: &dyn Fn(GroupNr) -> Summary) -> Self {
        let orders = volume.clusters_per_group.ilog2() + 1;
        let flexes = volume.flex_groups();
        let by_largest = OrderIndex::new(orders, flexes);
        let cold = OrderIndex::new(1, flexes);
        let make = |nr| {
            let groups = groups_of(&volume, nr).map(|group| summary(GroupNr(group)));
            let groups: Vec<_> = groups.collect();
            // Uninitialised groups hold their metadata in front, so their space is one run.
            let guess = groups
                .iter()
                .filter(|group| group.uninit)
                .map(|group| group.free_clusters);
            let largest = guess.max().unwrap_or(0);
            by_largest.change(GroupNr(nr), None, order_of(largest));
            let free: u64 = groups
                .iter()
                .map(|group| u64::from(group.free_clusters))
                .sum();
            cold.change(GroupNr(nr), None, (free > 0).then_some(0));
            CachePadded::new(Flex::new(largest, &groups))
        };
        let flexes = (0..flexes).map(make).collect();
        let (pending, stats) = (PendingFree::default(), Stats::default());
        let (runs, hand, bad) = (Counter::new(0), AtomicU32::new(0), AtomicU32::new(u32::MAX));
        Self {
            volume,
            pending,
            stats,
            by_largest,
            cold,
            orders,
            flexes,
            runs,
            hand,
            bad,
        }
    }

    pub(crate) fn flex(&self, nr: u32) -> &Flex {
        &self.flexes[nr as usize]
    }

    /// The flexible group of a block group.
    pub(crate) fn flex_of(&self, group: GroupNr) -> u32 {
        group.0 / self.volume.groups_per_flex.max(1)
    }

    /// First cluster of a flexible group.
    pub(crate) fn first_cluster(&self, flex: u32) -> u64 {
        self.volume
            .first_cluster(GroupNr(flex * self.volume.groups_per_flex.max(1)))
            .0
    }

    /// Clusters of a run as offsets in its flexible group.
    fn offsets(&self, flex: u32, run: Run) -> Range<u32> {
        let start = (run.start.0 - self.first_cluster(flex)) as u32; // inside the flexible group
        start..start + run.len
    }

    fn group_free(&self, group: GroupNr) -> &(AtomicU32, AtomicBool) {
        let flex = self.flex_of(group);
        &self.flex(flex).groups[(group.0 - flex * self.volume.groups_per_flex.max(1)) as usize]
    }

    /// Clusters of a block group that can be allocated.
    pub(crate) fn free(&self, group: GroupNr) -> u32 {
        let (free, bad) = self.group_free(group);
        if bad.load(Ordering::Relaxed) {
            0
        } else {
            free.load(Ordering::Relaxed)
        }
    }

    pub(crate) fn is_bad(&self, group: GroupNr) -> bool {
        self.group_free(group).1.load(Ordering::Relaxed)
    }

    fn mark_bad(&self, group: GroupNr) {
        self.group_free(group).1.store(true, Ordering::Relaxed);
        self.bad.store(group.0, Ordering::Relaxed);
    }

    /// A group whose bitmap cannot be used.
    pub(crate) fn any_bad(&self) -> Option<GroupNr> {
        let bad = self.bad.load(Ordering::Relaxed);
        (bad < self.volume.groups).then_some(GroupNr(bad))
    }

    /// Bytes that the trees use, and what they may use by default.
    pub(crate) fn memory(&self) -> (u64, u64) {
        let per_group = u64::from(self.volume.clusters_per_group);
        let flex = u64::from(self.volume.groups_per_flex.max(1));
        let as_buddies = per_group / 4 * u64::from(self.volume.groups);
        let used = u64::try_from(self.runs.sum()).unwrap_or(0) * RUN_BYTES;
        (used, as_buddies.max(RUN_BYTES * flex * per_group / 2))
    }

    fn publish(&self, nr: u32, largest: u32) {
        let old = self.flex(nr).largest.load(Ordering::Relaxed);
        if old != largest {
            self.flex(nr).largest.store(largest, Ordering::Relaxed);
            self.by_largest
                .change(GroupNr(nr), order_of(old), order_of(largest));
        }
    }

    /// Changes a tree and publishes what came of it. The guard is of the flexible group `nr`.
    fn change(&self, nr: u32, space: &mut Space, change: impl FnOnce(&mut FreeExtents)) {
        let tree = space
            .tree
            .as_mut()
            .expect("trees with reservations stay loaded");
        let before = tree.runs();
        change(tree);
        let (grown, largest) = (tree.runs() as i64 - before as i64, tree.largest());
        if grown != 0 {
            self.runs.add(grown);
        }
        self.publish(nr, largest);
    }

    /// Takes free clusters of a loaded tree for a reservation.
    pub(crate) fn take(&self, nr: u32, space: &mut Space, run: Range<u32>) -> Run {
        let len = run.end - run.start;
        let start = ClusterNr(self.first_cluster(nr) + u64::from(run.start));
        self.change(nr, space, |tree| tree.take(run));
        let flex = self.flex(nr);
        flex.reserved.fetch_add(u64::from(len), Ordering::Relaxed);
        flex.refer();
        if let Some((group, _)) = self.volume.locate(start) {
            self.group_free(group).0.fetch_sub(len, Ordering::Relaxed);
        }
        Run::new(start, len)
    }

    /// Reserved clusters are set on disk now.
    pub(crate) fn settle(&self, run: Run) {
        for (group, _, len) in self.volume.split(run) {
            self.flex(self.flex_of(group)).unreserve(len);
        }
    }

    /// Reserved clusters become free.
    pub(crate) fn release(&self, run: Run) {
        for (group, offset, len) in self.volume.split(run) {
            let nr = self.flex_of(group);
            let start = ClusterNr(self.volume.first_cluster(group).0 + u64::from(offset));
            let mut space = self.flex(nr).space.lock();
            let offsets = self.offsets(nr, Run::new(start, len));
            self.change(nr, &mut space, |tree| tree.give(offsets));
            self.group_free(group).0.fetch_add(len, Ordering::Relaxed);
            self.flex(nr).unreserve(len);
        }
    }

    /// Makes returning runs free: one lock per flexible group for each stretch of runs in it.
    pub(crate) fn finish_return(&self, runs: &[Run]) {
        let located = |run: &Run| {
            let at = self.volume.locate(run.start);
            at.expect("a returning run lies inside the volume").0
        };
        let flex = |run: &Run| self.flex_of(located(run));
        for batch in runs.chunk_by(|a, b| flex(a) == flex(b)) {
            self.stats.count(Stat::GiveBackGroups);
            let nr = flex(&batch[0]);
            let mut space = self.flex(nr).space.lock();
            for run in batch {
                self.pending.forget(*run);
                self.group_free(located(run))
                    .0
                    .fetch_add(run.len, Ordering::Relaxed);
            }
            let offsets = |run: &Run| self.offsets(nr, *run);
            if space.tree.is_some() {
                let usable = |run: &&Run| !self.is_bad(located(run));
                self.change(nr, &mut space, |tree| {
                    batch
                        .iter()
                        .filter(usable)
                        .for_each(|run| tree.give(offsets(run)));
                });
            } else {
                space.generation = space.generation.wrapping_add(1);
                let longest = batch.iter().map(|run| run.len).max().unwrap_or(0);
                self.publish(nr, longest.max(self.flex(nr).largest()));
                self.cold.change(GroupNr(nr), None, Some(0));
            }
        }
    }

    /// The lock of a flexible group, with its tree; waits for the lock.
    pub(crate) fn lock_loaded(
        &self,
        nr: u32,
        loader: &dyn Loader,
        limit: u64,
    ) -> MutexGuard<'_, Space> {
        loop {
            let space = self.flex(nr).space.lock();
            if space.tree.is_some() {
                return space;
            }
            drop(space);
            self.load(nr, loader, limit);
        }
    }

    /// Builds a tree unless it is there; unusable groups in it count as full. Afterwards other
    /// trees are evicted until `limit` bytes hold.
    pub(crate) fn load(&self, nr: u32, loader: &dyn Loader, limit: u64) {
        loop {
            let generation = {
                let space = self.flex(nr).space.lock();
                if space.tree.is_some() {
                    return;
                }
                space.generation
            };
            let groups = groups_of(&self.volume, nr);
            loader.prefetch(groups.clone());
            let bitmaps: Vec<_> = groups.map(|nr| self.read(GroupNr(nr), loader)).collect();
            let differs = self.install(nr, bitmaps, generation);
            if let Some((group, expected, found)) = differs {
                let trust = loader.count_differs(group, expected, found);
                match trust {
                    Trust::Bitmap => self.group_free(group).0.store(found, Ordering::Relaxed),
                    Trust::Neither => self.mark_bad(group),
                }
                continue;
            }
            self.shrink(limit, nr);
        }
    }

    fn read(&self, group: GroupNr, loader: &dyn Loader) -> Result<Bitmap, LoadError> {
        let (free, bad) = self.group_free(group);
        let mut used = Bitmap::new(self.volume.clusters_in(group));
        if bad.load(Ordering::Relaxed) {
            return Err(LoadError);
        }
        if free.load(Ordering::Relaxed) == 0 {
            used.fill_range(0..used.len()); // full: no need to read it
            return Ok(used);
        }
        let result = loader.load(group, &mut used);
        if result.is_err() {
            self.mark_bad(group);
        }
        result.map(|()| used)
    }

    /// Installs the tree, or names the group that does not count as promised.
    fn install(
        &self,
        nr: u32,
        bitmaps: Vec<Result<Bitmap, LoadError>>,
        generation: u32,
    ) -> Option<(GroupNr, u32, u32)> {
        let mut space = self.flex(nr).space.lock();
        if space.tree.is_some() || space.generation != generation {
            return None;
        }
        let mut runs = Vec::new();
        for (group, used) in groups_of(&self.volume, nr).map(GroupNr).zip(bitmaps) {
            let Ok(mut used) = used else { continue };
            let first = self.volume.first_cluster(group).0;
            let end = ClusterNr(first + u64::from(used.len()));
            self.pending.overlapping(ClusterNr(first), end, |from, to| {
                used.fill_range((from - first) as u32..(to - first) as u32); // inside the group
            });
            let expected = self.group_free(group).0.load(Ordering::Relaxed);
            let found = used.count_clear();
            if expected != found {
                return Some((group, expected, found));
            }
            let base = (first - self.first_cluster(nr)) as u32;
            let mut at = 0;
            while let Some(run) = used.next_clear_run(at) {
                at = run.end;
                runs.push(base + run.start..base + run.end);
            }
        }
        let start = Instant::now();
        let tree = FreeExtents::new(self.volume.clusters_per_group, runs);
        self.stats.count_load(start.elapsed());
        self.runs.add(tree.runs() as i64);
        self.publish(nr, tree.largest());
        self.cold.change(GroupNr(nr), Some(0), None);
        space.tree = Some(tree);
        self.flex(nr).loaded.store(true, Ordering::Relaxed);
        self.flex(nr).refer();
        None
    }

    /// Evicts trees that were not used since the hand came by last, until `limit` holds or none
    /// is left that may go. `keep` was just loaded.
    pub(crate) fn shrink(&self, limit: u64, keep: u32) {
        let flexes = self.volume.flex_groups();
        for _ in 0..u64::from(flexes) * 2 {
            if self.memory().0 <= limit {
                return;
            }
            let nr = self.hand.fetch_add(1, Ordering::Relaxed) % flexes;
            let flex = self.flex(nr);
            let idle = flex.loaded.load(Ordering::Relaxed)
                && !flex.referenced.swap(false, Ordering::Relaxed);
            if idle
                && nr != keep
                && let Some(mut space) = flex.space.try_lock()
            {
                self.evict(nr, &mut space);
            }
        }
    }

    /// Drops a tree; false while it is not loaded or has reservations.
    pub(crate) fn evict(&self, nr: u32, space: &mut Space) -> bool {
        let flex = self.flex(nr);
        if space.tree.is_none() || flex.reserved.load(Ordering::Acquire) > 0 {
            return false;
        }
        let runs = space.tree.take().map_or(0, |tree| tree.runs());
        self.runs.add(-(runs as i64));
        space.generation = space.generation.wrapping_add(1);
        flex.loaded.store(false, Ordering::Relaxed);
        self.stats.count(Stat::Evictions);
        true
    }
}

impl Flex {
    fn new(largest: u32, groups: &[Summary]) -> Self {
        let group = |group: &Summary| (AtomicU32::new(group.free_clusters), AtomicBool::new(false));
        Self {
            space: Mutex::new(
                Rank::GroupSpace,
                Space {
                    tree: None,
                    generation: 0,
                },
            ),
            largest: largest.into(),
            reserved: 0.into(),
            referenced: false.into(),
            loaded: false.into(),
            groups: groups.iter().map(group).collect(),
        }
    }

    pub(crate) fn largest(&self) -> u32 {
        self.largest.load(Ordering::Relaxed)
    }

    pub(crate) fn is_loaded(&self) -> bool {
        self.loaded.load(Ordering::Relaxed)
    }

    fn refer(&self) {
        if !self.referenced.load(Ordering::Relaxed) {
            self.referenced.store(true, Ordering::Relaxed);
        }
    }

    fn unreserve(&self, len: u32) {
        let before = self.reserved.fetch_sub(u64::from(len), Ordering::Release);
        assert!(
            before >= u64::from(len),
            "clusters settled or released that were not reserved"
        );
    }
}

/// Block groups of a flexible group.
pub(crate) fn groups_of(volume: &Volume, flex: u32) -> Range<u32> {
    let size = volume.groups_per_flex.max(1);
    flex * size..(flex * size).saturating_add(size).min(volume.groups)
}
