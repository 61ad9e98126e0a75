//! Clusters freed by a transaction that has not committed.
//!
//! Each shard keeps the freed clusters of some parts of the volume, per transaction, as maximal
//! runs. A run is merged with its neighbours at insertion, so a file freed piece by piece is one
//! entry. Threads that free in one group share its bitmap anyway, and a load of a bitmap looks at
//! the few shards of its clusters.
//!
//! Invariants: a cluster is in at most one entry. An entry is inserted before its bits are cleared
//! anywhere. [`PendingFree::overlapping`] reports it until [`PendingFree::forget`] is called under
//! the lock of the group that takes it back, so a bitmap loaded at any time can be corrected.
//!
//! Locking: `Rank::PendingFree`; shards in ascending order, the returning map after them all.

use crate::{ClusterNr, Run, Stat, Stats, Volume};
use std::collections::BTreeMap;
use uext4_format::Tid;
use uext4_num::nonnegative;
use uext4_sync::{Counter, Mutex, Rank, Sharded, stripe_shard};

/// Log2 of the clusters of a part: a group of the usual size.
const PART_BITS: u32 = 15;

/// Maximal runs by start; values are lengths in clusters.
#[derive(Default)]
struct Runs(BTreeMap<u64, u64>);

impl Runs {
    /// Inserts `[start, start + len)`; true when it merged with a neighbour.
    fn insert(&mut self, start: u64, len: u64) -> bool {
        let (mut first, mut total) = (start, len);
        let before = self
            .0
            .range(..=start)
            .next_back()
            .map(|(&at, &len)| (at, len));
        if let Some((at, before_len)) = before {
            assert!(
                at + before_len <= start,
                "cluster freed twice in one transaction"
            );
            if at + before_len == start {
                (first, total) = (at, before_len + len);
            }
        }
        if let Some(after) = self.0.remove(&(start + len)) {
            total += after;
        }
        self.0.insert(first, total);
        total != len
    }

    /// Calls `each` with the part inside `[from, to)` of every run that overlaps it.
    fn overlapping(&self, from: u64, to: u64, each: &mut dyn FnMut(u64, u64)) {
        let before = self.0.range(..from).next_back();
        for (&at, &len) in before.into_iter().chain(self.0.range(from..to)) {
            let (start, end) = (at.max(from), (at + len).min(to));
            if start < end {
                each(start, end);
            }
        }
    }

    /// Removes `[from, to)`, which must be covered by one run.
    fn cut(&mut self, from: u64, to: u64) {
        let found = self
            .0
            .range(..=from)
            .next_back()
            .map(|(&at, &len)| (at, len));
        let (at, len) = found.expect("a returning run is known until it is forgotten");
        assert!(
            to <= at + len,
            "a returning run is known until it is forgotten"
        );
        self.0.remove(&at);
        if at < from {
            self.0.insert(at, from - at);
        }
        if to < at + len {
            self.0.insert(to, at + len - to);
        }
    }
}

/// All pending frees of a file system.
pub struct PendingFree {
    shards: Sharded<Mutex<Vec<(Tid, Runs)>>>,
    returning: Mutex<Runs>,
    clusters: Counter,
}

/// Cuts `[from, to)` where parts begin.
fn by_part(from: u64, to: u64) -> impl Iterator<Item = (u64, u64)> {
    let mut at = from;
    std::iter::from_fn(move || {
        let start = at;
        at = to.min((start | ((1 << PART_BITS) - 1)).saturating_add(1));
        (start < to).then_some((start, at))
    })
}

impl Default for PendingFree {
    fn default() -> Self {
        Self {
            shards: Sharded::new(|_| Mutex::new(Rank::PendingFree, Vec::new())),
            returning: Mutex::new(Rank::PendingFree, Runs::default()),
            clusters: Counter::new(0),
        }
    }
}

/// Whether a run became a new entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Inserted {
    Alone,
    Merged,
}

impl Inserted {
    fn or(self, other: Self) -> Self {
        match self {
            Self::Merged => self,
            Self::Alone => other,
        }
    }
}

impl PendingFree {
    /// Clusters that wait for a commit or are being returned.
    pub fn clusters(&self) -> u64 {
        nonnegative(self.clusters.sum())
    }

    /// Inserts a run freed by `epoch` and counts it.
    pub(crate) fn defer(&self, epoch: Tid, run: Run, stats: &Stats) {
        stats.count(Stat::DeferredFrees);
        if self.insert(epoch, run) == Inserted::Merged {
            stats.count(Stat::DeferredMerges);
        }
    }

    fn insert(&self, epoch: Tid, run: Run) -> Inserted {
        self.clusters.add(i64::from(run.len));
        by_part(run.start.0, run.end().0)
            .map(|(from, to)| self.insert_part(epoch, from, to - from))
            .fold(Inserted::Alone, Inserted::or)
    }

    /// The shard of the part that begins with, or contains, this cluster.
    fn shard(&self, cluster: u64) -> &Mutex<Vec<(Tid, Runs)>> {
        let shards = self.shards.count();
        self.shards.slot(stripe_shard::<PART_BITS>(cluster, shards))
    }

    fn insert_part(&self, epoch: Tid, start: u64, len: u64) -> Inserted {
        let mut epochs = self.shard(start).lock();
        let at = epochs
            .iter()
            .position(|(tid, _)| *tid == epoch)
            .unwrap_or_else(|| {
                epochs.push((epoch, Runs::default()));
                epochs.len() - 1
            });
        if epochs[at].1.insert(start, len) {
            Inserted::Merged
        } else {
            Inserted::Alone
        }
    }

    /// Moves all frees of `epoch` or before to `returning`: ascending, merged across parts.
    fn collect(&self, epoch: Tid) -> Vec<(u64, u64)> {
        let mut merged = Runs::default();
        for (key, shard) in (0..).zip(self.shards.iter()) {
            let mut epochs = shard.lock_ordered(key);
            if epochs.iter().all(|(tid, _)| tid.is_after(epoch)) {
                continue;
            }
            // Each shard moves from "waiting" to "returning" with both locked, so a reader that
            // visits the shards first and then `returning` misses nothing.
            let mut returning = self.returning.lock_ordered(u64::MAX);
            epochs.retain_mut(|(tid, runs)| {
                let stays = tid.is_after(epoch);
                if !stays {
                    for (start, len) in std::mem::take(&mut runs.0) {
                        returning.insert(start, len);
                        merged.insert(start, len);
                    }
                }
                stays
            });
        }
        merged.0.into_iter().collect()
    }

    /// Starts the return of all frees up to `epoch`: runs inside one group each, ascending. Each
    /// stays pending until it is forgotten.
    pub(crate) fn start_return(&self, volume: &Volume, epoch: Tid) -> Vec<Run> {
        let mut runs = Vec::new();
        for (mut start, mut len) in self.collect(epoch) {
            while len > 0 {
                let part = u32::try_from(len).unwrap_or(1 << 31);
                for (nr, offset, len) in volume.split(Run::new(ClusterNr(start), part)) {
                    let first = volume.first_cluster(nr).0 + u64::from(offset);
                    runs.push(Run::new(ClusterNr(first), len));
                }
                (start, len) = (start + u64::from(part), len - u64::from(part));
            }
        }
        runs
    }

    /// Ends the return of a run. Called under the lock of the run's group.
    pub(crate) fn forget(&self, run: Run) {
        self.returning.lock().cut(run.start.0, run.end().0);
        self.clusters.add(-i64::from(run.len));
    }

    /// Calls `each` with every pending part of `[from, to)`; a part may be reported twice.
    pub(crate) fn overlapping(
        &self,
        from: ClusterNr,
        to: ClusterNr,
        mut each: impl FnMut(u64, u64),
    ) {
        for (from, to) in by_part(from.0, to.0) {
            for (_, runs) in self.shard(from).lock().iter() {
                runs.overlapping(from, to, &mut each);
            }
        }
        self.returning.lock().overlapping(from.0, to.0, &mut each);
    }

    /// Whether any cluster of `[from, to)` is pending.
    pub fn is_pending(&self, from: ClusterNr, to: ClusterNr) -> bool {
        let mut found = false;
        self.overlapping(from, to, |_, _| found = true);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(start: u64, len: u32) -> Run {
        Run::new(ClusterNr(start), len)
    }

    #[test]
    fn neighbours_merge_in_either_order() {
        let pending = PendingFree::default();
        assert_eq!(pending.insert(Tid(1), run(10, 5)), Inserted::Alone);
        assert_eq!(pending.insert(Tid(1), run(20, 5)), Inserted::Alone);
        assert_eq!(pending.insert(Tid(1), run(15, 5)), Inserted::Merged);
        assert_eq!(pending.insert(Tid(2), run(25, 5)), Inserted::Alone);
        assert_eq!(pending.clusters(), 20);
        assert_eq!(pending.collect(Tid(1)), [(10, 15)]);
        assert_eq!(pending.collect(Tid(1)), []);
    }

    #[test]
    fn returning_runs_are_known_until_forgotten() {
        let pending = PendingFree::default();
        pending.insert(Tid(u32::MAX), run(10, 10));
        pending.insert(Tid(0), run(40, 10));
        assert_eq!(pending.collect(Tid(0)), [(10, 10), (40, 10)]);
        assert!(pending.is_pending(ClusterNr(0), ClusterNr(11)));
        assert!(!pending.is_pending(ClusterNr(20), ClusterNr(40)));
        pending.forget(run(12, 3));
        assert!(!pending.is_pending(ClusterNr(12), ClusterNr(15)));
        let mut parts = Vec::new();
        pending.overlapping(ClusterNr(11), ClusterNr(18), |from, to| {
            parts.push((from, to))
        });
        assert_eq!(parts, [(11, 12), (15, 18)]);
        assert_eq!(pending.clusters(), 17);
    }

    #[test]
    fn runs_across_parts_are_whole_when_they_return() {
        let pending = PendingFree::default();
        const PART: u32 = 1 << PART_BITS;
        pending.insert(Tid(1), run(10, 2 * PART));
        pending.insert(Tid(1), run(10 + 2 * u64::from(PART), PART));
        let (end, behind) = (10 + 3 * u64::from(PART), ClusterNr(5 * u64::from(PART)));
        assert!(pending.is_pending(ClusterNr(end - 1), behind));
        assert!(!pending.is_pending(ClusterNr(end), behind));
        assert!(!pending.is_pending(ClusterNr(0), ClusterNr(10)));
        let mut seen = 0;
        pending.overlapping(ClusterNr(0), behind, |from, to| seen += to - from);
        assert_eq!(seen, end - 10);
        assert_eq!(pending.collect(Tid(1)), [(10, end - 10)]);
    }

    #[test]
    #[should_panic(expected = "freed twice")]
    fn double_free_panics() {
        let pending = PendingFree::default();
        pending.insert(Tid(1), run(10, 10));
        pending.insert(Tid(1), run(15, 1));
    }
}
