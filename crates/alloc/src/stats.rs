//! Counters of `mb_stats` and more; relaxed and per thread shard, so counting is local.
//!
//! Layout: the counters of [`Stat`], then a row of [`Effort`] counters per [`Criterion`].

use std::time::Duration;
use uext4_num::clamp_u64;
use uext4_sync::Sharded;
use uext4_sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The events that [`Stats`] counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Stat {
    /// Calls of `allocate`, successful or not.
    Requests,
    /// Calls that found at least the minimum.
    Success,
    /// Clusters that successful calls returned.
    Clusters,
    /// Groups whose free space was searched under the lock.
    GroupsScanned,
    /// Requests served exactly at their goal.
    GoalHits,
    /// Requests that got the full length.
    LengthGoalHits,
    /// Stream requests served in the group of their stream goal.
    StreamGoalHits,
    /// Requests served as an aligned chunk of a power of two.
    PowerOfTwoHits,
    /// Requests served by the fast goal length criterion.
    GoalFastHits,
    /// Requests served by the shortened goal criterion.
    BestAvailHits,
    /// Requests served by the slow goal length criterion.
    GoalSlowHits,
    /// Requests served by the any free criterion.
    AnyFreeHits,
    /// Groups skipped because their lock was held.
    BusySkips,
    /// Searches ended by `max_to_scan`.
    Breaks,
    /// Remembered best runs that another thread took.
    Lost,
    /// Bitmaps loaded and turned into buddy levels (or trees).
    Loads,
    /// Time to build those, without reading, in nanoseconds.
    LoadNs,
    /// Regions whose longest run was found without building a tree; buddy groups whose orders were
    /// found without keeping them.
    Surveys,
    /// Block bitmaps that the loader read from the device.
    BitmapsRead,
    /// Block bitmaps that were prefetched.
    BitmapsAhead,
    /// Groups (or trees) dropped from memory.
    Evictions,
    /// Clusters preallocated for files and threads.
    Preallocated,
    /// Of these, clusters given back unused.
    Discarded,
    /// Runs freed with a deferral until commit.
    DeferredFrees,
    /// Such runs that were merged with a neighbour.
    DeferredMerges,
    /// Groups to which commits returned clusters.
    GiveBackGroups,
}

const STATS: usize = Stat::GiveBackGroups.slot() + 1;

impl Stat {
    #[expect(clippy::as_conversions, reason = "the number of the variant")]
    const fn slot(self) -> usize {
        self as usize
    }

    /// Every counter with its name.
    pub const NAMES: [(Self, &'static str); STATS] = [
        (Self::Requests, "requests"),
        (Self::Success, "success"),
        (Self::Clusters, "clusters"),
        (Self::GroupsScanned, "groups_scanned"),
        (Self::GoalHits, "goal_hits"),
        (Self::LengthGoalHits, "length_goal_hits"),
        (Self::StreamGoalHits, "stream_goal_hits"),
        (Self::PowerOfTwoHits, "power_of_two_hits"),
        (Self::GoalFastHits, "goal_fast_hits"),
        (Self::BestAvailHits, "best_avail_hits"),
        (Self::GoalSlowHits, "goal_slow_hits"),
        (Self::AnyFreeHits, "any_free_hits"),
        (Self::BusySkips, "busy_skips"),
        (Self::Breaks, "breaks"),
        (Self::Lost, "lost"),
        (Self::Loads, "loads"),
        (Self::LoadNs, "load_ns"),
        (Self::Surveys, "surveys"),
        (Self::BitmapsRead, "bitmaps_read"),
        (Self::BitmapsAhead, "bitmaps_ahead"),
        (Self::Evictions, "evictions"),
        (Self::Preallocated, "preallocated"),
        (Self::Discarded, "discarded"),
        (Self::DeferredFrees, "deferred_frees"),
        (Self::DeferredMerges, "deferred_merges"),
        (Self::GiveBackGroups, "give_back_groups"),
    ];
}

/// How a pass chooses groups; strictest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Criterion {
    /// A free chunk of the request's power of two.
    PowerOf2,
    /// Long enough free runs on average (trees: outside the space reserved for metadata).
    GoalFast,
    /// As `GoalFast`, for a shortened request.
    BestAvail,
    /// As many free clusters as wanted; loads bitmaps.
    GoalSlow,
    /// Any free cluster; loads bitmaps and waits for locks.
    AnyFree,
}

/// Cost counters of the passes with one criterion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Effort {
    /// Groups whose summary was checked.
    GroupsConsidered,
    /// Free runs that a search examined.
    ExtentsScanned,
    /// Passes over the groups that found nothing.
    UselessLoops,
}

const EFFORTS: usize = Effort::UselessLoops.column() + 1;
const COUNTERS: usize = STATS + Criterion::ALL.len() * EFFORTS;

impl Effort {
    #[expect(clippy::as_conversions, reason = "the number of the variant")]
    const fn column(self) -> usize {
        self as usize
    }
}

impl Criterion {
    /// Every criterion in the order of passes, with its name.
    pub const ALL: [(Self, &'static str); 5] = [
        (Self::PowerOf2, "power_of_two"),
        (Self::GoalFast, "goal_fast"),
        (Self::BestAvail, "best_avail"),
        (Self::GoalSlow, "goal_slow"),
        (Self::AnyFree, "any_free"),
    ];

    /// The counter of the requests that it served.
    pub fn hits(self) -> Stat {
        match self {
            Self::PowerOf2 => Stat::PowerOfTwoHits,
            Self::GoalFast => Stat::GoalFastHits,
            Self::BestAvail => Stat::BestAvailHits,
            Self::GoalSlow => Stat::GoalSlowHits,
            Self::AnyFree => Stat::AnyFreeHits,
        }
    }

    /// Its name among [`Self::ALL`].
    pub fn name(self) -> &'static str {
        Self::ALL[self.row()].1
    }

    #[expect(clippy::as_conversions, reason = "the number of the variant")]
    fn row(self) -> usize {
        self as usize
    }

    fn slot(self, effort: Effort) -> usize {
        STATS + self.row() * EFFORTS + effort.column()
    }
}

/// A counter for each [`Stat`], sharded by thread.
pub struct Stats {
    shards: Sharded<[AtomicU64; COUNTERS]>,
}

impl Default for Stats {
    fn default() -> Self {
        Self {
            shards: Sharded::new(|_| std::array::from_fn(|_| AtomicU64::new(0))),
        }
    }
}

impl Stats {
    /// Adds one to the counter of `stat`.
    pub fn count(&self, stat: Stat) {
        self.add(stat, 1);
    }
    /// Adds `n` to the counter of `stat`.
    pub fn add(&self, stat: Stat, n: u64) {
        self.shards.local()[stat.slot()].fetch_add(n, Relaxed);
    }
    /// Counts a bitmap (or those of a tree) that was loaded, and the build time.
    pub fn count_load(&self, took: Duration) {
        self.count(Stat::Loads);
        self.add(Stat::LoadNs, clamp_u64(took.as_nanos()));
    }
    /// Adds `n` to a cost counter of `criterion`.
    pub fn add_effort(&self, criterion: Criterion, effort: Effort, n: u64) {
        self.shards.local()[criterion.slot(effort)].fetch_add(n, Relaxed);
    }
    /// The sum over all threads.
    pub fn get(&self, stat: Stat) -> u64 {
        self.sum(stat.slot())
    }
    /// The sum over all threads.
    pub fn effort(&self, criterion: Criterion, effort: Effort) -> u64 {
        self.sum(criterion.slot(effort))
    }
    fn sum(&self, slot: usize) -> u64 {
        self.shards
            .iter()
            .map(|shard| shard[slot].load(Relaxed))
            .sum()
    }
}
