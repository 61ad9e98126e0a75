//! Free-space tree engine (`allocator=freespace-tree`): free runs of each region in memory, by
//! offset and by length, within a memory limit, and a summary of all regions by longest run. The
//! format on disk is unchanged.
//!
//! When memory is short, trees that were not used recently are dropped. The length of the longest
//! run stays, so a tree is built again only if it can serve. See `regions.rs` for the summary,
//! `region_load.rs` for loading and eviction, `tree_search.rs` for the search and
//! `tree_search/criteria.rs` for `cache_aggression`.

use crate::engine::{counted, renewed_groups};
use crate::locality::Locality;
use crate::region::groups_per_region;
use crate::regions::Regions;
use crate::tree_search::Search;
use crate::{Affinity, Config, Engine, Error, GroupReport, Loader, PendingFree, Request, Run};
use crate::{Stats, Summary, TreeMemory, Tunables, Volume, words};
use std::ops::Range;
use uext4_format::GroupNr;
use uext4_num::{clamp_u32, usize_of};
use uext4_sync::atomic::{AtomicU32, Ordering::Relaxed};
use uext4_sync::{Sharded, shard_index};

/// Instead of a region number: none yet.
const NONE: u32 = u32::MAX;

/// log2 limit of the backoff: a thread whose scans fail still scans at every 128th request.
const PAUSE_LOG_MAX: u32 = 6;

/// Backoff of a thread's scans of unknown regions.
#[derive(Default)]
struct Scans {
    asked: AtomicU32,
    /// Consecutive scans without a result.
    in_vain: AtomicU32,
}

/// Free-space trees per region.
pub struct TreeEngine {
    pub(crate) regions: Regions,
    pub(crate) locality: Locality,
    pub(crate) tunables: Tunables,
    affinity: Affinity,
    scans: Sharded<Scans>,
    /// The region that a thread used last for unstreamed files.
    last: Sharded<AtomicU32>,
}

impl TreeEngine {
    /// An engine that knows the descriptors of all groups. No tree is built.
    pub fn new(config: Config, summary: &dyn Fn(GroupNr) -> Summary) -> Self {
        let cores = match config.affinity {
            Affinity::PerThread => uext4_sync::cores(),
            Affinity::None => 1,
        };
        let per_region = groups_per_region(&config.volume, clamp_u32(cores));
        Self {
            locality: Locality::new(config.affinity, config.volume.groups_max, per_region),
            regions: Regions::new(config.volume, per_region, summary),
            tunables: Tunables::default(),
            affinity: config.affinity,
            scans: Sharded::new(|_| Scans::default()),
            last: Sharded::new(|_| AtomicU32::new(NONE)),
        }
    }

    /// Memory of the trees, in bytes (`frsp_tree_usage`).
    pub fn memory_bytes(&self) -> u64 {
        self.regions.memory_bytes()
    }

    /// Memory limit of the trees, in bytes.
    pub fn memory_limit(&self) -> u64 {
        match self.tunables.freespace_memory_bytes.load(Relaxed) {
            0 => self.regions.memory_default_bytes(),
            limit => limit,
        }
    }

    /// Counts a request that may scan if that is due: this thread's first, and then every second;
    /// exponentially rarer while its scans find nothing.
    pub(crate) fn is_scan_due(&self) -> bool {
        let scans = self.scans.local();
        let pause = scans.in_vain.load(Relaxed).min(PAUSE_LOG_MAX);
        let asked = scans.asked.fetch_add(1, Relaxed);
        asked.is_multiple_of(2 << pause)
    }

    /// Records the result of a scan of unknown regions.
    pub(crate) fn record_scan(&self, found: Option<Run>) {
        let in_vain = &self.scans.local().in_vain;
        let before = in_vain.load(Relaxed);
        let now = if found.is_some() {
            0
        } else {
            before.saturating_add(1)
        };
        in_vain.store(now, Relaxed);
    }

    /// The block group's part of its region, as offsets there.
    fn span(&self, group: GroupNr) -> Range<u32> {
        let volume = &self.regions.volume;
        let start = group.0 % self.regions.per_region * volume.clusters_per_group;
        start..start + volume.clusters_in(group)
    }

    /// The region where this thread searches for data near `group`: its last one if that is in the
    /// same flexible group, else one chosen by its shard.
    pub(crate) fn region_near(&self, group: GroupNr) -> u32 {
        let wanted = self.regions.region_of(group);
        let volume = &self.regions.volume;
        let flex = volume.groups_per_flex.max(1) / self.regions.per_region;
        let first = wanted - wanted % flex;
        let count = flex.min(self.regions.count() - first);
        if self.affinity == Affinity::None || count < 2 {
            return wanted;
        }
        let last = self.last.local().load(Relaxed);
        if (first..first + count).contains(&last) {
            return last;
        }
        first + (wanted - first + clamp_u32(shard_index())) % count
    }

    /// Records that this thread found space in a region.
    pub(crate) fn used(&self, nr: u32) {
        let last = self.last.local();
        if last.load(Relaxed) != nr {
            last.store(nr, Relaxed);
        }
    }

    /// Loads the tree of a group, unless the group's bitmap cannot be used.
    fn load_group(&self, group: GroupNr, loader: &dyn Loader) -> Result<u32, Error> {
        let nr = self.regions.region_of(group);
        self.regions.load(nr, loader, self.memory_limit());
        if self.regions.is_bad(group) {
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
        counted(&self.regions.stats, request, || {
            Search::new(self, request, loader).run()
        })
    }
    fn take_exact(&self, run: Run, loader: &dyn Loader) -> Result<(), Error> {
        let volume = &self.regions.volume;
        let (group, offset) = volume.locate(run.start).ok_or(Error::NoSpace)?;
        if run.len == 0 || run.len > volume.clusters_in(group) - offset {
            return Err(Error::NoSpace);
        }
        let nr = self.load_group(group, loader)?;
        let mut space = self.regions.lock_loaded(nr, loader, self.memory_limit());
        let start = self.span(group).start + offset;
        let free = space
            .tree
            .as_ref()
            .map_or(0, |tree| tree.free_at(start, run.len));
        if free < run.len {
            return Err(Error::NoSpace);
        }
        self.regions.take(nr, &mut space, start..start + run.len);
        Ok(())
    }
    fn take_free_runs(
        &self,
        group: GroupNr,
        min_len: u32,
        loader: &dyn Loader,
    ) -> Result<Vec<Run>, Error> {
        let nr = self.load_group(group, loader)?;
        let mut space = self.regions.lock_loaded(nr, loader, self.memory_limit());
        let runs: Vec<_> = space.tree.as_ref().map_or(Vec::new(), |tree| {
            tree.starting_in(self.span(group))
                .filter(|run| words::len(run) >= min_len)
                .collect()
        });
        Ok(runs
            .into_iter()
            .map(|run| self.regions.take(nr, &mut space, run))
            .collect())
    }
    fn mark_in_use(&self, run: Run) {
        self.regions.mark_in_use(run);
    }
    fn release(&self, run: Run) {
        self.regions.release(run);
    }
    fn finish_return(&self, runs: &[Run]) -> u64 {
        self.regions.finish_return(runs)
    }
    fn group_free(&self, group: GroupNr) -> u32 {
        self.regions.free(group)
    }
    fn report(&self, group: GroupNr) -> GroupReport {
        let nr = self.regions.region_of(group);
        let space = self.regions.region(nr).space.lock();
        let span = self.span(group);
        let runs: Vec<_> = space.tree.as_ref().map_or(Vec::new(), |tree| {
            tree.starting_in(span.clone())
                .map(|run| run.start - span.start..run.end - span.start)
                .collect()
        });
        let orders = crate::buddy::max_order(self.regions.volume.clusters_per_group);
        let mut chunks = vec![
            0;
            if space.tree.is_some() {
                usize_of(orders) + 1
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
            fragments: clamp_u32(runs.len()), // at most the clusters of a group
            first_free: runs.first().map(|run| run.start),
            chunks,
        }
    }
    fn learn(&self, loader: &dyn Loader, go_on: &dyn Fn() -> bool) {
        for step in self.regions.cold.steps(1) {
            let mut from = 0;
            while let Some(nr) = self.regions.cold.next(step, from..self.regions.count()) {
                if !go_on() {
                    return;
                }
                from = nr + 1;
                self.regions.survey(nr, loader);
            }
        }
    }
    fn unknown_regions(&self) -> u32 {
        self.regions.cold.len()
    }
    fn load(&self, group: GroupNr, loader: &dyn Loader) -> Result<(), Error> {
        self.load_group(group, loader).map(|_| ())
    }
    fn evict(&self, group: GroupNr) -> bool {
        let nr = self.regions.region_of(group);
        let mut space = self.regions.region(nr).space.lock();
        self.regions.evict(nr, &mut space)
    }
    fn grow(&self, volume: Volume, old: &[GroupNr], summary: &dyn Fn(GroupNr) -> Summary) -> u64 {
        let renewed = renewed_groups(self.volume(), &volume, old);
        let dropped = renewed.map(|group| self.regions.renew(group, summary(group)));
        let dropped = dropped.sum();
        self.regions.volume.replace(volume);
        dropped
    }
    fn pending(&self) -> &PendingFree {
        &self.regions.pending
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
        &self.regions.stats
    }
    fn volume(&self) -> &Volume {
        &self.regions.volume
    }
}

/// Counts the aligned chunks of a run.
fn count_chunks(run: Range<u32>, orders: u32, chunks: &mut [u32]) {
    let mut at = run.start;
    while at < run.end {
        let order = at.trailing_zeros().min((run.end - at).ilog2()).min(orders);
        chunks[usize_of(order)] += 1;
        at += 1 << order;
    }
}
