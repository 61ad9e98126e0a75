//! Free runs of one flexible group, by offset and by length.
//!
//! Offsets are clusters from the start of the flexible group. Runs are maximal inside their
//! block group and never cross into the next one, so what is handed out lies in one group.
//!
//! Invariant: both orders hold the same runs.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Memory of one free run in both orders, with the slack of the tree nodes.
pub(crate) const RUN_BYTES: u64 = 32;

pub(crate) struct FreeExtents {
    by_offset: BTreeMap<u32, u32>,
    by_len: BTreeSet<(u32, u32)>,
    clusters_per_group: u32,
}

impl FreeExtents {
    /// The tree of these runs, which come by offset and are maximal in their groups. Both orders
    /// are built in one go, which is many times faster than run by run.
    pub(crate) fn new(clusters_per_group: u32, runs: Vec<Range<u32>>) -> Self {
        Self {
            by_len: runs
                .iter()
                .map(|run| (run.end - run.start, run.start))
                .collect(),
            by_offset: runs
                .into_iter()
                .map(|run| (run.start, run.end - run.start))
                .collect(),
            clusters_per_group,
        }
    }

    /// Number of free runs.
    pub(crate) fn runs(&self) -> u64 {
        self.by_offset.len() as u64
    }

    /// Length of the longest run; 0 when nothing is free.
    pub(crate) fn largest(&self) -> u32 {
        self.by_len.last().map_or(0, |(len, _)| *len)
    }

    /// The longest run.
    pub(crate) fn longest(&self) -> Option<Range<u32>> {
        self.by_len.last().map(|&(len, start)| start..start + len)
    }

    fn insert(&mut self, run: Range<u32>) {
        self.by_offset.insert(run.start, run.end - run.start);
        self.by_len.insert((run.end - run.start, run.start));
    }

    fn remove(&mut self, run: Range<u32>) {
        self.by_offset.remove(&run.start);
        self.by_len.remove(&(run.end - run.start, run.start));
    }

    /// The free run that contains `at`.
    pub(crate) fn containing(&self, at: u32) -> Option<Range<u32>> {
        let (&start, &len) = self.by_offset.range(..=at).next_back()?;
        (at < start + len).then_some(start..start + len)
    }

    /// Free clusters in a row from `at`, at most `cap`.
    pub(crate) fn free_at(&self, at: u32, cap: u32) -> u32 {
        self.containing(at).map_or(0, |run| (run.end - at).min(cap))
    }

    /// Runs that begin in `range`, ascending.
    pub(crate) fn starting_in(&self, range: Range<u32>) -> impl Iterator<Item = Range<u32>> + '_ {
        self.by_offset
            .range(range)
            .map(|(&start, &len)| start..start + len)
    }

    /// Runs of at least `len` clusters, shortest first.
    pub(crate) fn fitting(&self, len: u32) -> impl DoubleEndedIterator<Item = Range<u32>> + '_ {
        self.by_len
            .range((len, 0)..)
            .map(|&(len, start)| start..start + len)
    }

    /// Takes `run`, which must lie inside one free run.
    pub(crate) fn take(&mut self, run: Range<u32>) {
        let around = self
            .containing(run.start)
            .filter(|around| run.end <= around.end);
        let around = around.expect("clusters to take are free");
        self.remove(around.clone());
        for rest in [around.start..run.start, run.end..around.end] {
            if !rest.is_empty() {
                self.insert(rest);
            }
        }
    }

    /// Gives back `run`, which must be taken and inside one block group.
    pub(crate) fn give(&mut self, run: Range<u32>) {
        let mut merged = run.clone();
        let before = self.by_offset.range(..run.end).next_back();
        let before = before.map(|(&start, &len)| start..start + len);
        if let Some(before) = before {
            assert!(before.end <= run.start, "clusters to give back were free");
            if before.end == run.start && !run.start.is_multiple_of(self.clusters_per_group) {
                merged.start = before.start;
                self.remove(before);
            }
        }
        if !run.end.is_multiple_of(self.clusters_per_group)
            && let Some(&len) = self.by_offset.get(&run.end)
        {
            merged.end = run.end + len;
            self.remove(run.end..merged.end);
        }
        self.insert(merged);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_merge_inside_their_group_only() {
        let mut free = FreeExtents::new(100, vec![]);
        free.give(90..100);
        free.give(100..110);
        free.give(120..130);
        assert_eq!((free.runs(), free.largest()), (3, 10));
        free.give(110..120);
        assert_eq!((free.runs(), free.longest()), (2, Some(100..130)));
        free.take(104..106);
        assert_eq!(free.fitting(5).collect::<Vec<_>>(), [90..100, 106..130]);
        assert_eq!(free.free_at(106, 9), 9);
        assert_eq!(free.free_at(104, 9), 0);
    }
}
