//! The free-space engines behind one trait, and the engine of buddy groups.
//!
//! The file system's protocol: `allocate` (reserved), write data, under a handle set the bits, then
//! `mark_in_use`. To free: `defer_free`, *then* clear the bits under the handle. After the
//! transaction has committed: `start_return`, discard if mounted so, `finish_return`.
//!
//! Locking: every method takes at most one `Rank::GroupSpace` lock at a time and none when it
//! returns. Methods with a [`Loader`] may do I/O through it.

use crate::groups::Groups;
use crate::locality::Locality;
use crate::search::Search;
use crate::{Affinity, BuddyBaseLines, Error, GroupReport, Loader, PendingFree, Request, Run};
use crate::{Stat, Stats, Summary, Tunables, Volume};
use uext4_format::{GroupNr, Tid};
use uext4_num::clamp_u32;
use uext4_sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Free space of one file system.
pub trait Engine: Send + Sync {
    /// The value of the mount option `allocator=`.
    fn name(&self) -> &'static str;

    /// Reserves at least `request.min_len` and at most `request.len` clusters in one group.
    ///
    /// # Errors
    /// [`Error`]: no group has `min_len` contiguous free clusters now.
    fn allocate(&self, request: &Request, loader: &dyn Loader) -> Result<Run, Error>;

    /// Reserves exactly this run, which must lie in one group.
    ///
    /// # Errors
    /// [`Error::NoSpace`] when a cluster of it is not free or outside the volume.
    fn take_exact(&self, run: Run, loader: &dyn Loader) -> Result<(), Error>;

    /// Reserves every free run of at least `min_len` clusters of a group, for a trim; return each
    /// with [`Self::release`].
    ///
    /// # Errors
    /// [`Error::Unreadable`].
    fn take_free_runs(
        &self,
        group: GroupNr,
        min_len: u32,
        loader: &dyn Loader,
    ) -> Result<Vec<Run>, Error>;

    /// Reserved → in use: the bits of `run` are set on disk (in the running transaction) now.
    fn mark_in_use(&self, run: Run);

    /// Reserved → free: `run`, a reservation or a part of one, is not needed.
    fn release(&self, run: Run);

    /// In use → freed-pending by transaction `epoch`. Call *before* the bits are cleared. Panics
    /// on a run that is pending already: check the bits first.
    fn defer_free(&self, epoch: Tid, run: Run) {
        self.pending().defer(epoch, run, self.stats());
    }

    /// Collects the frees of transactions up to `epoch`, one group per run, ascending. The runs are
    /// not reusable before [`Self::finish_return`].
    fn start_return(&self, epoch: Tid) -> Vec<Run> {
        self.pending().start_return(self.volume(), epoch)
    }

    /// Freed-pending → free, for runs from [`Self::start_return`]; one lock per group. Returns the
    /// clusters that can be allocated again: those in groups without a usable bitmap cannot.
    fn finish_return(&self, runs: &[Run]) -> u64;

    /// Both halves at once; returns the clusters that became free.
    fn give_back(&self, epoch: Tid) -> u64 {
        let runs = self.start_return(epoch);
        self.finish_return(&runs)
    }

    /// Clusters that can be allocated: neither in use, reserved nor pending. Walks all groups; for
    /// claims use [`crate::FreeCount`].
    fn free_clusters(&self) -> u64 {
        let groups = (0..self.volume().groups).map(GroupNr);
        groups.map(|nr| u64::from(self.group_free(nr))).sum()
    }

    /// Clusters of one group that can be allocated, without a lock.
    fn group_free(&self, group: GroupNr) -> u32;

    /// The row of a group in `mb_groups`.
    fn report(&self, group: GroupNr) -> GroupReport;

    /// Reads bitmaps ahead of all requests, the most promising first, while `go_on` returns true.
    /// Any number of threads may call it concurrently.
    fn learn(&self, loader: &dyn Loader, go_on: &dyn Fn() -> bool);

    /// Number of regions (buddy groups: groups) that [`Self::learn`] has not seen yet.
    fn unknown_regions(&self) -> u32;

    /// Loads a group in advance; errors are remembered as in `allocate`.
    ///
    /// # Errors
    /// [`Error::Unreadable`].
    fn load(&self, group: GroupNr, loader: &dyn Loader) -> Result<(), Error>;

    /// Drops a group (or its region) from memory if nothing in it is reserved.
    fn evict(&self, group: GroupNr) -> bool;

    /// Continues with a larger `volume`, of the same shape and at most `groups_max` groups. In
    /// these old groups and in all new ones the space is as `summary` says. Answers how many
    /// clusters there were reserved or unusable before. No other thread allocates, frees or learns
    /// meanwhile.
    fn grow(&self, volume: Volume, old: &[GroupNr], summary: &dyn Fn(GroupNr) -> Summary) -> u64;

    /// Clusters that wait for a commit.
    fn pending(&self) -> &PendingFree;

    /// Groups per order, by largest free chunk and by average free run (`mb_structs_summary`);
    /// empty for an engine without orders.
    fn groups_by_order(&self) -> Vec<(u32, u32)> {
        Vec::new()
    }

    /// Memory of the free-space trees; `None` for an engine without trees.
    fn tree_memory(&self) -> Option<TreeMemory> {
        None
    }

    /// Limits that may change at run time.
    fn tunables(&self) -> &Tunables;

    /// The counters of this engine, since it was made.
    fn stats(&self) -> &Stats;

    /// The geometry of the volume, in clusters.
    fn volume(&self) -> &Volume;
}

/// Runs one search and counts it.
pub(crate) fn counted(
    stats: &Stats,
    request: &Request,
    search: impl FnOnce() -> Result<Run, Error>,
) -> Result<Run, Error> {
    assert!(
        request.min_len > 0 && request.min_len <= request.len,
        "1 <= min_len <= len"
    );
    stats.count(Stat::Requests);
    let run = search()?;
    stats.count(Stat::Success);
    if run.len == request.len {
        stats.count(Stat::LengthGoalHits);
    }
    stats.add(Stat::Clusters, u64::from(run.len));
    Ok(run)
}

/// The groups that a growth renews: `old` and all new ones.
pub(crate) fn renewed_groups(
    from: &Volume,
    to: &Volume,
    old: &[GroupNr],
) -> impl Iterator<Item = GroupNr> {
    assert!(
        from.groups <= to.groups && to.groups <= from.groups_max,
        "a volume grows up to what it has memory for"
    );
    old.iter()
        .copied()
        .chain((from.groups..to.groups).map(GroupNr))
}

/// Memory of free-space trees, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeMemory {
    /// Memory in use now, in bytes.
    pub used_bytes: u64,
    /// Limit of the memory, in bytes.
    pub limit_bytes: u64,
}

/// Order in which groups are visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanOrder {
    /// Sequentially from the goal (`allocator=linear`).
    Linear,
    /// By the indexes of largest order and average fragment (`allocator=optimized`).
    Optimized,
}

/// Construction parameters of an engine.
#[derive(Clone, Debug)]
pub struct Config {
    /// The geometry of the volume, in clusters.
    pub volume: Volume,
    /// Whether threads prefer separate groups.
    pub affinity: Affinity,
}

/// Groups surveyed per step: a flexible group as mke2fs makes them.
const LEARNED_AT_ONCE: u32 = 16;

/// Buddy groups, searched by the kernel's criteria.
pub struct BuddyEngine {
    pub(crate) groups: Groups,
    locality: Locality,
    tunables: Tunables,
    order: ScanOrder,
    /// Progress of [`Engine::learn`], in groups.
    learned: AtomicU64,
}

impl BuddyEngine {
    /// An engine that knows the descriptors of all groups. No bitmap is loaded.
    pub fn new(config: Config, order: ScanOrder, summary: &dyn Fn(GroupNr) -> Summary) -> Self {
        let locality = Locality::new(config.affinity, config.volume.groups_max, 1);
        let groups = Groups::new(config.volume, summary);
        Self {
            groups,
            locality,
            tunables: Tunables::default(),
            order,
            learned: AtomicU64::new(0),
        }
    }

    /// The engine with earlier behaviour, for experiments.
    #[must_use]
    pub fn with_base_lines(mut self, base_lines: BuddyBaseLines) -> Self {
        self.locality.set_base_lines(base_lines);
        self
    }

    /// Groups per order, by largest free chunk and by average free run (`mb_structs_summary`).
    pub fn groups_by_order(&self) -> Vec<(u32, u32)> {
        (0..=self.groups.max_order)
            .map(|order| {
                (
                    self.groups.by_largest.count(order),
                    self.groups.by_average.count(order),
                )
            })
            .collect()
    }
}

impl Engine for BuddyEngine {
    fn name(&self) -> &'static str {
        match self.order {
            ScanOrder::Linear => "linear",
            ScanOrder::Optimized => "optimized",
        }
    }
    fn allocate(&self, request: &Request, loader: &dyn Loader) -> Result<Run, Error> {
        let (groups, limits) = (&self.groups, self.tunables.read());
        counted(&groups.stats, request, || {
            Search::new(groups, &self.locality, limits, self.order, request, loader).run()
        })
    }
    fn take_exact(&self, run: Run, loader: &dyn Loader) -> Result<(), Error> {
        self.groups.take_exact(run, loader)
    }
    fn take_free_runs(
        &self,
        group: GroupNr,
        min_len: u32,
        loader: &dyn Loader,
    ) -> Result<Vec<Run>, Error> {
        self.groups.take_all(group, min_len, loader)
    }
    fn mark_in_use(&self, run: Run) {
        self.groups.mark_in_use(run);
    }
    fn release(&self, run: Run) {
        self.groups.release(run);
    }
    fn finish_return(&self, runs: &[Run]) -> u64 {
        self.groups.finish_return(runs)
    }
    fn group_free(&self, group: GroupNr) -> u32 {
        self.groups.free(group)
    }
    fn report(&self, group: GroupNr) -> GroupReport {
        self.groups.report(group)
    }
    fn load(&self, group: GroupNr, loader: &dyn Loader) -> Result<(), Error> {
        self.groups
            .load(group, loader)
            .map_err(|_| Error::Unreadable(group))
    }
    fn evict(&self, group: GroupNr) -> bool {
        self.groups.evict(group)
    }
    fn grow(&self, volume: Volume, old: &[GroupNr], summary: &dyn Fn(GroupNr) -> Summary) -> u64 {
        let renewed = renewed_groups(self.volume(), &volume, old);
        let dropped = renewed.map(|nr| self.groups.renew(nr, summary(nr)));
        let dropped = dropped.sum();
        self.groups.volume.replace(volume);
        self.learned.store(0, Relaxed);
        dropped
    }
    fn pending(&self) -> &PendingFree {
        &self.groups.pending
    }
    fn learn(&self, loader: &dyn Loader, go_on: &dyn Fn() -> bool) {
        let volume = &self.groups.volume;
        let step = match volume.groups_per_flex {
            0 | 1 => LEARNED_AT_ONCE,
            groups => groups.min(LEARNED_AT_ONCE),
        };
        let groups = u64::from(volume.groups);
        while go_on() && !self.locality.base_lines().loads_all {
            let from = self.learned.fetch_add(step.into(), Relaxed).min(groups);
            let end = groups.min(from + u64::from(step));
            if from == end {
                return;
            }
            // Both are at most the number of groups.
            self.groups.survey(clamp_u32(from)..clamp_u32(end), loader);
        }
    }
    fn unknown_regions(&self) -> u32 {
        self.groups.unknown()
    }
    fn groups_by_order(&self) -> Vec<(u32, u32)> {
        Self::groups_by_order(self)
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
