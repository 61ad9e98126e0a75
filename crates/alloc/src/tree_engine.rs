//! The engine of free-space trees (`allocator=freespace-tree`): free runs of each flexible group
//! in memory, by offset and by length, within a budget. Nothing changes on disk.
//!
//! A tree that nobody used for a while goes when memory is short; the length of its longest run
//! stays, so that it is built again only when it is worth it. See `flex_groups.rs` for loading
//! and eviction, `tree_search.rs` for the search and for `cache_aggression`.

use crate::flex_groups::FlexGroups;
use crate::locality::Locality;
use crate::tree_search::Search;
use crate::{Config, Engine, Error, GroupReport, Loader, PendingFree, Request, Run};
use crate::{Stat, Stats, Summary, TreeMemory, Tunables, Volume};
use std::ops::Range;
use uext4_format::{GroupNr, Tid};
use uext4_sync::Sharded;
use uext4_sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Free-space trees per flexible group.
pub struct TreeEngine {
    pub(crate) groups: FlexGroups,
    pub(crate) locality: Locality,
    pub(crate) tunables: Tunables,
    ticks: Sharded<AtomicU32>,
}

impl TreeEngine {
    /// An engine that knows of each group what its descriptor says. No tree is built.
    pub fn new(config: Config, summary: &dyn Fn(GroupNr) -> Summary) -> Self {
        let locality = Locality::new(&config.volume, config.affinity);
        let groups = FlexGroups::new(config.volume, summary);
        let ticks = Sharded::new(|_| AtomicU32::new(0));
        Self {
            groups,
            locality,
            tunables: Tunables::default(),
            ticks,
        }
    }

    /// Bytes that the trees use now (`frsp_tree_usage`).
    pub fn memory_bytes(&self) -> u64 {
        self.groups.memory().0
    }

    /// Bytes that the trees may use.
    pub fn memory_limit(&self) -> u64 {
        match self.tunables.freespace_memory_bytes.load(Relaxed) {
            0 => self.groups.memory().1,
            limit => limit,
        }
    }

    /// True at every second call of a thread.
    pub(crate) fn every_second(&self) -> bool {
        self.ticks.local().fetch_add(1, Relaxed) % 2 == 1
    }

    /// The block group's part of its flexible group, as offsets there.
    fn span(&self, group: GroupNr) -> Range<u32> {
        let volume = &self.groups.volume;
        let within = group.0 - volume.flex_start(group).0;
        let start = within * volume.clusters_per_group;
        start..start + volume.clusters_in(group)
    }

    /// Loads the tree of a group, unless the group's bitmap cannot be used.
    fn load_group(&self, group: GroupNr, loader: &dyn Loader) -> Result<u32, Error> {
        let nr = self.groups.flex_of(group);
        self.groups.load(nr, loader, self.memory_limit());
        if self.groups.is_bad(group) {
            Err(Error::Unreadable(group))
        } else {
            Ok(nr)
        }
    }
}

impl Engine for TreeEngine {
    fn name(&self) -> &'static str {
        "freespace-tree"
    }
    fn allocate(&self, request: &Request, loader: &dyn Loader) -> Result<Run, Error> {
        assert!(
            request.min_len > 0 && request.min_len <= request.len,
            "1 <= min_len <= len"
        );
        let stats = &self.groups.stats;
        stats.count(Stat::Requests);
        let run = Search::new(self, request, loader).run()?;
        stats.count(Stat::Success);
        if run.len == request.len {
            stats.count(Stat::LengthGoalHits);
        }
        stats.add(Stat::Clusters, u64::from(run.len));
        Ok(run)
    }
    fn take_exact(&self, run: Run, loader: &dyn Loader) -> Result<(), Error> {
        let volume = &self.groups.volume;
        let (group, offset) = volume.locate(run.start).ok_or(Error::NoSpace)?;
        if run.len == 0 || run.len > volume.clusters_in(group) - offset {
            return Err(Error::NoSpace);
        }
        let nr = self.load_group(group, loader)?;
        let mut space = self.groups.lock_loaded(nr, loader, self.memory_limit());
        let start = self.span(group).start + offset;
        let free = space
            .tree
            .as_ref()
            .map_or(0, |tree| tree.free_at(start, run.len));
        if free < run.len {
            return Err(Error::NoSpace);
        }
        self.groups.take(nr, &mut space, start..start + run.len);
        Ok(())
    }
    fn take_free_runs(
        &self,
        group: GroupNr,
        min_len: u32,
        loader: &dyn Loader,
    ) -> Result<Vec<Run>, Error> {
        let nr = self.load_group(group, loader)?;
        let mut space = self.groups.lock_loaded(nr, loader, self.memory_limit());
        let runs: Vec<_> = space.tree.as_ref().map_or(Vec::new(), |tree| {
            tree.starting_in(self.span(group))
                .filter(|run| run.len() as u32 >= min_len)
                .collect()
        });
        Ok(runs
            .into_iter()
            .map(|run| self.groups.take(nr, &mut space, run))
            .collect())
    }
    fn settle(&self, run: Run) {
        self.groups.settle(run);
    }
    fn release(&self, run: Run) {
        self.groups.release(run);
    }
    fn defer_free(&self, epoch: Tid, run: Run) {
        self.groups.pending.defer(epoch, run, &self.groups.stats);
    }
    fn start_return(&self, epoch: Tid) -> Vec<Run> {
        self.groups.pending.start_return(&self.groups.volume, epoch)
    }
    fn finish_return(&self, runs: &[Run]) {
        self.groups.finish_return(runs);
    }
    fn free_clusters(&self) -> u64 {
        (0..self.groups.volume.groups)
            .map(|nr| u64::from(self.group_free(GroupNr(nr))))
            .sum()
    }
    fn group_free(&self, group: GroupNr) -> u32 {
        self.groups.free(group)
    }
    fn report(&self, group: GroupNr) -> GroupReport {
        let nr = self.groups.flex_of(group);
        let space = self.groups.flex(nr).space.lock();
        let span = self.span(group);
        let runs: Vec<_> = space.tree.as_ref().map_or(Vec::new(), |tree| {
            tree.starting_in(span.clone())
                .map(|run| run.start - span.start..run.end - span.start)
                .collect()
        });
        let orders = crate::buddy::max_order(self.groups.volume.clusters_per_group);
        let mut chunks = vec![
            0;
            if space.tree.is_some() {
                orders as usize + 1
            } else {
                0
            }
        ];
        runs.iter()
            .cloned()
            .for_each(|run| count_chunks(run, orders, &mut chunks));
        GroupReport {
            group,
            free_clusters: self.group_free(group),
            fragments: runs.len() as u32, // at most the clusters of a group
            first_free: runs.first().map(|run| run.start),
            chunks,
        }
    }
    fn load(&self, group: GroupNr, loader: &dyn Loader) -> Result<(), Error> {
        self.load_group(group, loader).map(|_| ())
    }
    fn evict(&self, group: GroupNr) -> bool {
        let nr = self.groups.flex_of(group);
        let mut space = self.groups.flex(nr).space.lock();
        self.groups.evict(nr, &mut space)
    }
    fn pending(&self) -> &PendingFree {
        &self.groups.pending
    }
    fn tree_memory(&self) -> Option<TreeMemory> {
        Some(TreeMemory {
            used_bytes: self.memory_bytes(),
            limit_bytes: self.memory_limit(),
        })
    }
    fn tunables(&self) -> &Tunables {
        &self.tunables
    }
    fn stats(&self) -> &Stats {
        &self.groups.stats
    }
    fn volume(&self) -> &Volume {
        &self.groups.volume
    }
}

/// Adds the aligned chunks that a run is made of.
fn count_chunks(run: Range<u32>, orders: u32, chunks: &mut [u32]) {
    let mut at = run.start;
    while at < run.end {
        let order = at.trailing_zeros().min((run.end - at).ilog2()).min(orders);
        chunks[order as usize] += 1;
        at += 1 << order;
    }
}
