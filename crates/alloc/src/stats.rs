//! What `mb_stats` shows, and more; a relaxed counter per thread shard, so counting is local.
//!
//! Layout: the counters of [`Stat`], then a row per [`Criterion`] of those of [`Effort`].

use std::time::Duration;
use uext4_sync::Sharded;
use uext4_sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Stat {
    /// Calls of `allocate`.
    Requests,
    /// Calls that found at least the clusters they needed.
    Success,
    /// Clusters handed out.
    Clusters,
    /// Groups whose free space was searched under the lock.
    GroupsScanned,
    /// Requests served exactly at their goal.
    GoalHits,
    /// Requests that got all that they wanted.
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
    /// Groups passed over because their lock was taken.
    BusySkips,
    /// Searches ended by `max_to_scan`.
    Breaks,
    /// Remembered best runs that somebody else took.
    Lost,
    /// Bitmaps loaded and turned into buddy levels (or trees).
    Loads,
    /// Nanoseconds that took, without reading.
    LoadNs,
    /// Regions whose longest run was found without building their tree; buddy groups whose orders
    /// were found without keeping them.
    Surveys,
    /// Block bitmaps that the loader read from the device.
    BitmapsRead,
    /// Block bitmaps that the device was told of ahead of their use.
    BitmapsAhead,
    /// Groups (or trees) dropped from memory.
    Evictions,
    /// Clusters taken in advance, for files and threads.
    Preallocated,
    /// Of these, clusters given back unused.
    Discarded,
    /// Runs whose free was put off until a commit.
    DeferredFrees,
    /// Such runs that were merged with a neighbour at once.
    DeferredMerges,
    /// Groups given back to by commits.
    GiveBackGroups,
}

const STATS: usize = Stat::GiveBackGroups as usize + 1;

impl Stat {
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

/// By what a pass over the groups chooses; strictest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Criterion {
    /// A free chunk of the request's power of two.
    PowerOf2,
    /// Free runs that are long enough on average (trees: outside of what is kept for metadata).
    GoalFast,
    /// As `GoalFast`, for a shortened request.
    BestAvail,
    /// As many free clusters as wanted; loads bitmaps.
    GoalSlow,
    /// Any free cluster; loads bitmaps and waits for locks.
    AnyFree,
}

/// What passes by one criterion cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Effort {
    /// Groups that the summary was asked about.
    GroupsConsidered,
    /// Free runs looked at.
    ExtentsScanned,
    /// Passes over the groups that found nothing.
    UselessLoops,
}

const EFFORTS: usize = Effort::UselessLoops as usize + 1;
const COUNTERS: usize = STATS + Criterion::ALL.len() * EFFORTS;

impl Criterion {
    /// Every criterion in the order of passes, with its name.
    pub const ALL: [(Self, &'static str); 5] = [
        (Self::PowerOf2, "power_of_two"),
        (Self::GoalFast, "goal_fast"),
        (Self::BestAvail, "best_avail"),
        (Self::GoalSlow, "goal_slow"),
        (Self::AnyFree, "any_free"),
    ];

    /// Counts the requests that it served.
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
        Self::ALL[self as usize].1
    }

    fn slot(self, effort: Effort) -> usize {
        STATS + self as usize * EFFORTS + effort as usize
    }
}

/// All counters.
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
    /// Counts one.
    pub fn count(&self, stat: Stat) {
        self.add(stat, 1);
    }
    /// Counts `n`.
    pub fn add(&self, stat: Stat, n: u64) {
        self.shards.local()[stat as usize].fetch_add(n, Relaxed);
    }
    /// Counts a bitmap (or those of a tree) that was turned into what is searched.
    pub fn count_load(&self, took: Duration) {
        self.count(Stat::Loads);
        self.add(Stat::LoadNs, took.as_nanos() as u64);
    }
    /// Counts `n` of what passes by `criterion` cost.
    pub fn add_effort(&self, criterion: Criterion, effort: Effort, n: u64) {
        self.shards.local()[criterion.slot(effort)].fetch_add(n, Relaxed);
    }
    /// The sum over all threads.
    pub fn get(&self, stat: Stat) -> u64 {
        self.sum(stat as usize)
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
