//! Per-thread allocation goals: the last group of a thread, for streams and for other data.
//!
//! All goals are hints in relaxed atomics, checked for range at use. Threads begin far apart and
//! continue where they were, so that files that grow concurrently do not interleave. A thread that
//! needs a new group for its streams avoids those of other threads at first ([`streams`]).

mod streams;

pub(crate) use streams::Others;

use crate::base_lines::BuddyBaseLines;
use crate::{ClusterNr, ClusterUse, Volume};
use streams::Streams;
use uext4_format::GroupNr;
use uext4_num::{clamp_u32, u64_of};
use uext4_sync::atomic::{AtomicU32, Ordering::Relaxed};
use uext4_sync::{Mutex, Sharded, shard_index};

const NONE: u32 = u32::MAX;

/// Whether threads are led to separate groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Affinity {
    /// Each thread starts in its own group of the goal's flexible group.
    PerThread,
    /// The goal alone decides: equal request sequences get equal clusters.
    None,
}

/// Goal for the first cluster of an inode that has none: the start of its flexible group for
/// directories, of the group after it for files.
pub fn inode_goal(volume: &Volume, inode_group: GroupNr, kind: ClusterUse) -> ClusterNr {
    let mut group = inode_group;
    if volume.groups_per_flex >= 4 {
        group = volume.flex_start(inode_group);
        if kind == ClusterUse::Data && group.0 + 1 < volume.groups {
            group.0 += 1;
        }
    }
    volume.first_cluster(group)
}

pub(crate) struct Locality {
    affinity: Affinity,
    base_lines: BuddyBaseLines,
    /// A baseline: one goal for all threads, under a lock.
    one_goal: Option<Mutex<GroupNr>>,
    /// Group of the last stream allocation, by thread.
    goals: Sharded<AtomicU32>,
    streams: Streams,
    /// Group of the last other allocation, by thread.
    last: Sharded<AtomicU32>,
}

impl Locality {
    /// Streams of different threads avoid each other's ranges of `separated` groups.
    pub(crate) fn new(affinity: Affinity, groups: u32, separated: u32) -> Self {
        Self {
            affinity,
            base_lines: BuddyBaseLines::default(),
            one_goal: None,
            goals: Sharded::new(|_| AtomicU32::new(NONE)),
            streams: Streams::new(groups, separated),
            last: Sharded::new(|_| AtomicU32::new(NONE)),
        }
    }

    #[cfg(any(test, feature = "experiments"))]
    pub(crate) fn set_base_lines(&mut self, base_lines: BuddyBaseLines) {
        self.one_goal = base_lines
            .have_one_goal()
            .then(|| Mutex::new(uext4_sync::Rank::Queue, GroupNr(0)));
        self.base_lines = base_lines;
    }

    /// Those of [`BuddyEngine::with_base_lines`](crate::BuddyEngine); else none, at compile time.
    pub(crate) fn base_lines(&self) -> BuddyBaseLines {
        if cfg!(any(test, feature = "experiments")) {
            self.base_lines
        } else {
            BuddyBaseLines::default()
        }
    }

    /// The slot of this thread, or the shared one.
    fn slot<'a>(&self, slots: &'a Sharded<AtomicU32>) -> &'a AtomicU32 {
        match self.affinity {
            Affinity::PerThread => slots.local(),
            Affinity::None => slots.slot(0),
        }
    }

    /// The group where this thread's streams continue.
    pub(crate) fn stream(&self, end: u32) -> GroupNr {
        let group = match &self.one_goal {
            Some(goal) => goal.lock().0,
            None => self.slot(&self.goals).load(Relaxed),
        };
        if group < end {
            GroupNr(group)
        } else {
            self.first(end)
        }
    }

    /// Records that a stream of this thread found space in `group`.
    pub(crate) fn streamed(&self, group: GroupNr) {
        match &self.one_goal {
            Some(goal) => *goal.lock() = group,
            None => {
                let goal = self.slot(&self.goals);
                if goal.load(Relaxed) != group.0 {
                    let before = goal.swap(group.0, Relaxed);
                    self.streams.moved(in_use(before), group);
                }
            }
        }
    }

    /// The streams of other threads, if there are any and `end` groups are enough to separate them.
    pub(crate) fn others(&self, end: u32) -> Option<Others<'_>> {
        match self.affinity {
            Affinity::PerThread => {
                let mine = self.goals.local().load(Relaxed);
                self.streams.others(in_use(mine), end)
            }
            Affinity::None => None,
        }
    }

    /// Records that this thread found space in `group`.
    pub(crate) fn used(&self, group: GroupNr) {
        if self.affinity == Affinity::PerThread {
            store_changed(self.last.local(), group.0);
        }
    }

    /// The group where this thread starts without a goal.
    pub(crate) fn anywhere(&self, end: u32) -> GroupNr {
        if self.affinity == Affinity::None {
            return GroupNr(0);
        }
        let last = self.last.local().load(Relaxed);
        if last < end {
            return GroupNr(last);
        }
        self.first(end)
    }

    /// The first group of a thread.
    fn first(&self, end: u32) -> GroupNr {
        if self.affinity == Affinity::None || self.base_lines().have_one_goal() {
            return GroupNr(0);
        }
        // Bit reversal spreads the first threads the farthest apart.
        let shards = self.goals.count();
        let spread = shard_index().reverse_bits() >> (usize::BITS - shards.trailing_zeros());
        GroupNr(clamp_u32(u64_of(spread) * u64::from(end) / u64_of(shards))) // below `end`
    }

    /// The group where this thread starts for data near `group`: its last group if that is in the
    /// same flexible group, else one chosen by its shard (never the first, which is left to
    /// directories).
    pub(crate) fn near(&self, volume: &Volume, group: GroupNr, end: u32) -> GroupNr {
        let first = volume.flex_start(group).0;
        let size = volume.groups_per_flex.min(end - first);
        if self.affinity == Affinity::None || size < 4 {
            return group;
        }
        let last = self.last.local().load(Relaxed);
        if (first..first + size).contains(&last) {
            return GroupNr(last);
        }
        let wanted = (group.0 - first).max(1) - 1;
        GroupNr(first + 1 + (wanted + clamp_u32(shard_index())) % (size - 1))
    }
}

fn in_use(group: u32) -> Option<GroupNr> {
    (group != NONE).then_some(GroupNr(group))
}

/// Stores only changes, so that the cache line stays shared otherwise.
fn store_changed(slot: &AtomicU32, value: u32) {
    if slot.load(Relaxed) != value {
        slot.store(value, Relaxed);
    }
}
