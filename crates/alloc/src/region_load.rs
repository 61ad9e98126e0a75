//! Reads the bitmaps of regions, for a tree or only for the longest run; evicts trees.
//!
//! Bitmaps are read with no lock held, and the result is installed only if the generation has not
//! changed. Pending clusters look free on disk and are subtracted; a region without a tree has no
//! reservations. A tree may be dropped while nothing in it is reserved; the summary stays.
//!
//! Locking: `Rank::GroupSpace`, one region at a time. Eviction is CLOCK with one reference bit per
//! tree, and only tries locks.

use crate::events;
use crate::free_extents::FreeExtents;
use crate::region::Space;
use crate::regions::Regions;
use crate::{Bitmap, ClusterNr, LoadError, Loader, Stat};
use std::ops::Range;
use std::time::Instant;
use uext4_format::GroupNr;
use uext4_num::{clamp_i64, clamp_u32};
use uext4_sync::MutexGuard;
use uext4_sync::atomic::Ordering;

/// The purpose of reading a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Detail {
    Tree,
    Longest,
}

/// Contents of the bitmaps of a region.
struct View {
    generation: u32,
    detail: Detail,
    /// Free clusters of the groups that could be read.
    found: Vec<(GroupNr, u32)>,
    longest: u32,
    /// All free runs, for a tree.
    runs: Vec<Range<u32>>,
}

/// Result of installing a view.
enum Installed {
    Done,
    /// The region changed after the bitmaps were read.
    Stale,
    /// The descriptor of this group has another count of free clusters.
    Differs(GroupNr),
}

impl Regions {
    /// Locks a region and loads its tree; waits for the lock.
    pub(crate) fn lock_loaded(
        &self,
        nr: u32,
        loader: &dyn Loader,
        limit_bytes: u64,
    ) -> MutexGuard<'_, Space> {
        loop {
            let space = self.region(nr).space.lock();
            if space.tree.is_some() {
                return space;
            }
            drop(space);
            self.load(nr, loader, limit_bytes);
        }
    }

    /// Builds a tree unless it is loaded; unusable groups count as full. Then evicts other trees
    /// until the limit holds.
    pub(crate) fn load(&self, nr: u32, loader: &dyn Loader, limit_bytes: u64) {
        self.read(nr, loader, Detail::Tree);
        self.shrink(limit_bytes, nr);
    }

    /// Finds the longest run of a region without a tree; only its length stays in memory. False if
    /// another thread is doing so.
    pub(crate) fn survey(&self, nr: u32, loader: &dyn Loader) -> bool {
        let mine = self.region(nr).claim();
        if mine {
            self.read(nr, loader, Detail::Longest);
            self.region(nr).unclaim();
        }
        mine
    }

    /// Reads until the result is installed, or another thread has loaded a tree.
    fn read(&self, nr: u32, loader: &dyn Loader, detail: Detail) {
        while let Some(view) = self.view(nr, loader, detail) {
            match self.install(nr, view) {
                Installed::Done => return,
                Installed::Stale => {}
                Installed::Differs(group) => self.mark_bad(group, loader),
            }
        }
    }

    /// Reads the bitmaps; `None` if the region has a tree.
    fn view(&self, nr: u32, loader: &dyn Loader, detail: Detail) -> Option<View> {
        let generation = {
            let space = self.region(nr).space.lock();
            if space.tree.is_some() {
                return None;
            }
            space.generation
        };
        let mut view = View::new(generation, detail);
        self.scan(nr, loader, &mut |group, base, used| {
            view.add(group, base, used)
        });
        if self.pending_in(nr).is_empty() {
            return Some(view);
        }
        Some(self.view_less_pending(nr, loader, View::new(generation, detail)))
    }

    /// A view of the bitmaps, less the clusters that wait for a commit.
    fn view_less_pending(&self, nr: u32, loader: &dyn Loader, mut view: View) -> View {
        let mut bitmaps = Vec::new();
        self.scan(nr, loader, &mut |group, base, used| {
            bitmaps.push((group, base, used.clone()));
        });
        // After the bitmaps were read, see `pending_in`.
        let pending = self.pending_in(nr);
        for (group, base, mut used) in bitmaps {
            mark_pending(&pending, self.volume.first_cluster(group).0, &mut used);
            view.add(group, base, &used);
        }
        view
    }

    /// Calls `each` with the bitmaps of all groups with free clusters, and the offset of each in
    /// the region.
    fn scan(&self, nr: u32, loader: &dyn Loader, each: &mut dyn FnMut(GroupNr, u32, &Bitmap)) {
        let groups = self.groups_of(nr).map(GroupNr);
        let wanted: Vec<GroupNr> = groups.filter(|group| self.free(*group) > 0).collect();
        let base = self.first_cluster(nr);
        loader.scan(&wanted, &mut |group, used| match used {
            // Inside the region.
            Ok(used) => each(
                group,
                clamp_u32(self.volume.first_cluster(group).0 - base),
                used,
            ),
            Err(LoadError) => self.mark_bad(group, loader),
        });
    }

    /// Clusters of a region that wait for a commit. Called after its bitmaps were read: if they
    /// show a cluster as free too early, it is found here, or the generation has changed.
    fn pending_in(&self, nr: u32) -> Vec<Range<u64>> {
        let groups = self.groups_of(nr);
        let last = GroupNr(groups.end - 1);
        let end = self.volume.first_cluster(last).0 + u64::from(self.volume.clusters_in(last));
        let mut pending = Vec::new();
        let first = ClusterNr(self.first_cluster(nr));
        self.pending
            .overlapping(first, ClusterNr(end), |from, to| pending.push(from..to));
        pending
    }

    fn install(&self, nr: u32, view: View) -> Installed {
        let mut space = self.region(nr).space.lock();
        if space.tree.is_some() || space.generation != view.generation {
            return Installed::Stale;
        }
        for &(group, found) in &view.found {
            if found != self.group(group).free.load(Ordering::Relaxed) {
                return Installed::Differs(group);
            }
        }
        self.publish(nr, view.longest);
        self.set_cold(nr, &mut space, None);
        match view.detail {
            Detail::Longest => {
                self.stats.count(Stat::Surveys);
                events::region_surveyed(nr, view.longest);
            }
            Detail::Tree => {
                let start = Instant::now();
                let tree = FreeExtents::new(self.volume.clusters_per_group, view.runs);
                self.stats.count_load(start.elapsed());
                self.runs.add(clamp_i64(tree.runs()));
                events::tree_built(nr, tree.runs(), view.longest);
                space.tree = Some(tree);
                self.region(nr).store_loaded(true);
                self.region(nr).refer();
            }
        }
        Installed::Done
    }

    /// Evicts trees with a clear reference bit until the limit holds or no tree can be evicted.
    /// `keep` was just loaded.
    pub(crate) fn shrink(&self, limit_bytes: u64, keep: u32) {
        for _ in 0..u64::from(self.count()) * 2 {
            if self.memory_bytes() <= limit_bytes {
                return;
            }
            let nr = self.hand.fetch_add(1, Ordering::Relaxed) % self.count();
            let region = self.region(nr);
            if region.is_idle()
                && nr != keep
                && let Some(mut space) = region.space.try_lock()
            {
                self.evict(nr, &mut space);
            }
        }
    }

    /// Drops a tree; false while it is not loaded or has reservations.
    pub(crate) fn evict(&self, nr: u32, space: &mut Space) -> bool {
        let region = self.region(nr);
        if space.tree.is_none() || region.is_reserved() {
            return false;
        }
        let runs = space.tree.take().map_or(0, |tree| tree.runs());
        self.runs.add(-clamp_i64(runs));
        space.generation = space.generation.wrapping_add(1);
        region.store_loaded(false);
        self.stats.count(Stat::Evictions);
        events::tree_dropped(nr, runs);
        true
    }
}

impl View {
    fn new(generation: u32, detail: Detail) -> Self {
        Self {
            generation,
            detail,
            found: Vec::new(),
            longest: 0,
            runs: Vec::new(),
        }
    }

    /// Adds a group whose first cluster is `base` of the region.
    fn add(&mut self, group: GroupNr, base: u32, used: &Bitmap) {
        self.found.push((group, used.count_clear()));
        if self.detail == Detail::Longest {
            self.longest = self.longest.max(used.longest_clear());
            return;
        }
        let mut at = 0;
        while let Some(run) = used.next_clear_run(at) {
            at = run.end;
            self.longest = self.longest.max(run.end - run.start);
            self.runs.push(base + run.start..base + run.end);
        }
    }
}

/// Marks the pending clusters of the group that begins with cluster `first`.
fn mark_pending(pending: &[Range<u64>], first: u64, used: &mut Bitmap) {
    let end = first + u64::from(used.len());
    for range in pending {
        let (from, to) = (range.start.max(first), range.end.min(end));
        if from < to {
            used.fill_range(clamp_u32(from - first)..clamp_u32(to - first)); // inside the group
        }
    }
}
