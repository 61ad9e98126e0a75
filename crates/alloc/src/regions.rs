//! All regions of a volume: take, give back, and the summary that outlives the trees.
//!
//! The summary holds the longest free run of every region, indexed by order in atomic bitmaps, so
//! that a search goes straight to the trees that are worth building. A region is *cold* if it was
//! never read, or was given clusters while it had no tree: its longest run may exceed the summary
//! (`cold.rs`).
//!
//! Invariants: while a tree is loaded, the summary has its exact longest run.
//!
//! Locking: `Rank::GroupSpace`, one region at a time; `Rank::PendingFree` under it.
//! Not here: reading bitmaps and eviction (`region_load.rs`).

use crate::cold::{ColdIndex, step_of};
use crate::events;
use crate::free_extents::{FreeExtents, RUN_BYTES};
use crate::group_index::OrderIndex;
use crate::pending_free::PendingFree;
use crate::region::{Group, Region, Space, groups_of};
use crate::{ClusterNr, Run, Stat, Stats, Summary, Volume};
use std::ops::Range;
use uext4_format::GroupNr;
use uext4_num::{clamp_i64, clamp_u32, nonnegative, usize_of};
use uext4_sync::atomic::{AtomicU32, Ordering};
use uext4_sync::{CachePadded, Counter, Latest};

pub(crate) struct Regions {
    pub(crate) volume: Latest<Volume>,
    pub(crate) pending: PendingFree,
    pub(crate) stats: Stats,
    /// By log2 of the longest free run.
    pub(crate) by_longest: OrderIndex,
    /// Regions whose longest run is not exactly known.
    pub(crate) cold: ColdIndex,
    pub(crate) orders: u32,
    pub(crate) per_region: u32,
    /// Groups behind the last one of the volume are full, until it grows.
    regions: Box<[CachePadded<Region>]>,
    /// Free runs in all trees.
    pub(crate) runs: Counter,
    /// CLOCK hand of eviction.
    pub(crate) hand: AtomicU32,
    /// The last block group found unusable; `u32::MAX`: none.
    pub(crate) bad: AtomicU32,
}

/// Index order of a longest run.
pub(crate) fn order_of(longest: u32) -> Option<u32> {
    longest.checked_ilog2()
}

impl Regions {
    /// Regions of `per_region` groups each, with known descriptors.
    pub(crate) fn new(
        volume: Volume,
        per_region: u32,
        summary: &dyn Fn(GroupNr) -> Summary,
    ) -> Self {
        let orders = volume.clusters_per_group.ilog2() + 1;
        let count = volume.groups_max.div_ceil(per_region);
        let by_longest = OrderIndex::new(orders, count);
        let cold = ColdIndex::new(volume.clusters_per_group, count);
        let regions = (0..count)
            .map(|nr| {
                let groups =
                    groups_of(&volume, per_region, nr).map(|group| summary(GroupNr(group)));
                let mut groups: Vec<Summary> = groups.collect();
                groups.resize(usize_of(per_region), Summary::default());
                let region = Region::new(&groups);
                by_longest.change(GroupNr(nr), None, order_of(region.longest()));
                cold.change(nr, None, step_of(region.promise()));
                CachePadded::new(region)
            })
            .collect();
        Self {
            pending: PendingFree::default(),
            stats: Stats::default(),
            by_longest,
            cold,
            orders,
            per_region,
            regions,
            runs: Counter::new(0),
            hand: AtomicU32::new(0),
            bad: AtomicU32::new(u32::MAX),
            volume: Latest::new(volume),
        }
    }

    pub(crate) fn count(&self) -> u32 {
        self.volume.groups.div_ceil(self.per_region)
    }

    pub(crate) fn region(&self, nr: u32) -> &Region {
        &self.regions[usize_of(nr)]
    }

    /// The region of a block group.
    pub(crate) fn region_of(&self, group: GroupNr) -> u32 {
        group.0 / self.per_region
    }

    /// Block groups of a region.
    pub(crate) fn groups_of(&self, nr: u32) -> Range<u32> {
        groups_of(&self.volume, self.per_region, nr)
    }

    /// First cluster of a region.
    pub(crate) fn first_cluster(&self, nr: u32) -> u64 {
        self.volume.first_cluster(GroupNr(nr * self.per_region)).0
    }

    /// Clusters of a run as offsets in its region.
    fn offsets(&self, nr: u32, run: Run) -> Range<u32> {
        let start = clamp_u32(run.start.0 - self.first_cluster(nr)); // inside the region
        start..start + run.len
    }

    pub(crate) fn group(&self, group: GroupNr) -> &Group {
        let region = self.region(self.region_of(group));
        region.group(group.0 % self.per_region)
    }

    /// Clusters of a block group that can be allocated.
    pub(crate) fn free(&self, group: GroupNr) -> u32 {
        self.group(group).usable()
    }

    pub(crate) fn is_bad(&self, group: GroupNr) -> bool {
        self.group(group).bad.load(Ordering::Relaxed)
    }

    /// Memory of the trees, in bytes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        nonnegative(self.runs.sum()) * RUN_BYTES
    }

    /// Default memory limit of the trees, in bytes: that of bitmaps and buddies, or one tree at its
    /// worst.
    pub(crate) fn memory_default_bytes(&self) -> u64 {
        let per_group = u64::from(self.volume.clusters_per_group);
        let as_buddies = per_group / 4 * u64::from(self.volume.groups);
        as_buddies.max(RUN_BYTES * u64::from(self.per_region) * per_group / 2)
    }

    /// Publishes the longest run. The caller holds the region's lock.
    pub(crate) fn publish(&self, nr: u32, longest: u32) {
        let old = self.region(nr).store_longest(longest);
        self.by_longest
            .change(GroupNr(nr), order_of(old), order_of(longest));
    }

    /// Marks the region as cold, or as known. The caller holds its lock.
    pub(crate) fn set_cold(&self, nr: u32, space: &mut Space, cold: Option<u32>) {
        self.cold.change(nr, space.cold, cold);
        self.region(nr).store_known(cold.is_none());
        space.cold = cold;
    }

    /// Changes a tree and publishes the new summary. The guard is of the region `nr`.
    fn change(&self, nr: u32, space: &mut Space, change: impl FnOnce(&mut FreeExtents)) {
        let tree = space
            .tree
            .as_mut()
            .expect("trees with reservations stay loaded");
        let before = tree.runs();
        change(tree);
        let (grown, longest) = (clamp_i64(tree.runs()) - clamp_i64(before), tree.largest());
        if grown != 0 {
            self.runs.add(grown);
        }
        self.publish(nr, longest);
    }

    /// Takes free clusters of a loaded tree for a reservation.
    pub(crate) fn take(&self, nr: u32, space: &mut Space, run: Range<u32>) -> Run {
        let len = run.end - run.start;
        let start = ClusterNr(self.first_cluster(nr) + u64::from(run.start));
        self.change(nr, space, |tree| tree.take(run));
        let region = self.region(nr);
        region.reserve(len);
        region.refer();
        if let Some((group, _)) = self.volume.locate(start) {
            self.group(group).free.fetch_sub(len, Ordering::Relaxed);
        }
        let run = Run::new(start, len);
        events::run_taken(nr, run);
        run
    }

    /// Begins again with a group of a region: as `now` says, and without reservations. Answers how
    /// many clusters were reserved in the region or unusable in the group.
    pub(crate) fn renew(&self, group: GroupNr, now: Summary) -> u64 {
        let nr = self.region_of(group);
        let region = self.region(nr);
        let mut space = region.space.lock();
        let dropped = region.drop_reserved();
        self.evict(nr, &mut space);
        space.generation = space.generation.wrapping_add(1);
        let counts = self.group(group);
        let free = counts.free.swap(now.free_clusters, Ordering::Relaxed);
        let was_bad = counts.bad.swap(false, Ordering::Relaxed);
        let guess = if now.uninit { now.free_clusters } else { 0 };
        self.publish(nr, guess.max(region.longest()));
        self.set_cold(nr, &mut space, step_of(region.promise()));
        dropped + if was_bad { u64::from(free) } else { 0 }
    }

    /// Reserved clusters are set on disk now.
    pub(crate) fn mark_in_use(&self, run: Run) {
        for (group, _, len) in self.volume.split(run) {
            self.region(self.region_of(group)).unreserve(len);
        }
    }

    /// Reserved clusters become free.
    pub(crate) fn release(&self, run: Run) {
        for (group, offset, len) in self.volume.split(run) {
            let nr = self.region_of(group);
            let start = ClusterNr(self.volume.first_cluster(group).0 + u64::from(offset));
            let mut space = self.region(nr).space.lock();
            let offsets = self.offsets(nr, Run::new(start, len));
            self.change(nr, &mut space, |tree| tree.give(offsets));
            events::run_returned(nr, Run::new(start, len));
            self.group(group).free.fetch_add(len, Ordering::Relaxed);
            self.region(nr).unreserve(len);
        }
    }

    /// Frees returned runs: one lock acquisition per region for consecutive runs in it. Answers how
    /// many clusters can be allocated again.
    pub(crate) fn finish_return(&self, runs: &[Run]) -> u64 {
        let mut returned = 0;
        let region = |run: &Run| self.region_of(self.located(run));
        for batch in runs.chunk_by(|a, b| region(a) == region(b)) {
            self.stats.count(Stat::GiveBackGroups);
            let nr = region(&batch[0]);
            let mut space = self.region(nr).space.lock();
            for run in batch {
                self.pending.forget(*run);
                let group = self.group(self.located(run));
                group.free.fetch_add(run.len, Ordering::Relaxed);
                let usable = !group.bad.load(Ordering::Relaxed);
                returned += if usable { u64::from(run.len) } else { 0 };
            }
            match space.tree {
                Some(_) => self.return_to_tree(nr, &mut space, batch),
                None => self.return_unseen(nr, &mut space, batch),
            }
        }
        returned
    }

    fn located(&self, run: &Run) -> GroupNr {
        let at = self.volume.locate(run.start);
        at.expect("a returning run lies inside the volume").0
    }

    fn return_to_tree(&self, nr: u32, space: &mut Space, batch: &[Run]) {
        self.change(nr, space, |tree| {
            for run in batch.iter().filter(|run| !self.is_bad(self.located(run))) {
                tree.give(self.offsets(nr, *run));
                events::run_returned(nr, *run);
            }
        });
    }

    /// Without a tree: at least the longest of these runs is free now, maybe more with its
    /// neighbours.
    fn return_unseen(&self, nr: u32, space: &mut Space, batch: &[Run]) {
        space.generation = space.generation.wrapping_add(1);
        let usable = batch.iter().filter(|run| !self.is_bad(self.located(run)));
        let longest = usable.map(|run| run.len).max().unwrap_or(0);
        let region = self.region(nr);
        self.publish(nr, longest.max(region.longest()));
        self.set_cold(nr, space, step_of(region.promise()));
        events::region_unknown(nr, batch.len());
    }
}
