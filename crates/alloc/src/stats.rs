//! What `mb_stats` shows, and more; a relaxed counter per thread shard, so counting is local.

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
    /// Groups that the summary was asked about.
    GroupsConsidered,
    /// Free runs looked at.
    ExtentsScanned,
    /// Requests served exactly at their goal.
    GoalHits,
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
    /// Passes over the groups that found nothing.
    UselessLoops,
    /// Groups passed over because their lock was taken.
    BusySkips,
    /// Searches ended by `max_to_scan`.
    Breaks,
    /// Remembered best runs that somebody else took.
    Lost,
    /// Bitmaps loaded and turned into buddy levels (or trees).
    Loads,
    /// Groups (or trees) dropped from memory.
    Evictions,
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
        (Self::GroupsConsidered, "groups_considered"),
        (Self::ExtentsScanned, "extents_scanned"),
        (Self::GoalHits, "goal_hits"),
        (Self::StreamGoalHits, "stream_goal_hits"),
        (Self::PowerOfTwoHits, "power_of_two_hits"),
        (Self::GoalFastHits, "goal_fast_hits"),
        (Self::BestAvailHits, "best_avail_hits"),
        (Self::GoalSlowHits, "goal_slow_hits"),
        (Self::AnyFreeHits, "any_free_hits"),
        (Self::UselessLoops, "useless_loops"),
        (Self::BusySkips, "busy_skips"),
        (Self::Breaks, "breaks"),
        (Self::Lost, "lost"),
        (Self::Loads, "loads"),
        (Self::Evictions, "evictions"),
        (Self::DeferredFrees, "deferred_frees"),
        (Self::DeferredMerges, "deferred_merges"),
        (Self::GiveBackGroups, "give_back_groups"),
    ];
}

/// All counters.
pub struct Stats {
    shards: Sharded<[AtomicU64; STATS]>,
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
    /// The sum over all threads.
    pub fn get(&self, stat: Stat) -> u64 {
        self.shards
            .iter()
            .map(|shard| shard[stat as usize].load(Relaxed))
            .sum()
    }
}
