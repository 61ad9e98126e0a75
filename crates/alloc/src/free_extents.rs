//! Free runs of one region in two B-trees, by offset and by length.
//!
//! Offsets are clusters from the start of the region. Runs are maximal inside their block group and
//! never cross into the next one, so every allocation lies in one group.
//!
//! Growing files take from the front of one run repeatedly. So runs are keyed by their *ends*,
//! which do not change, and the run taken from last, the *current* one, keeps its old length in the
//! length tree: the next take from it changes one number in place.
//!
//! Invariants: both trees hold the same runs. All but the current run are filed under their length;
//! the current run under at least its length and at most twice that.

use crate::words::len;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use uext4_num::u64_of;

/// Memory of one free run in both trees, with the slack of the tree nodes.
pub(crate) const RUN_BYTES: u64 = 32;

pub(crate) struct FreeExtents {
    /// Starts of runs by their ends.
    starts: BTreeMap<u32, u32>,
    /// Filed lengths and ends.
    by_len: BTreeSet<(u32, u32)>,
    current: Option<Current>,
    clusters_per_group: u32,
}

/// The run whose front was taken last.
#[derive(Clone, Copy)]
struct Current {
    end: u32,
    filed_len: u32,
}

impl FreeExtents {
    /// The trees of these runs, which are ascending and maximal in their groups. Bulk building is
    /// many times faster than inserting run by run.
    pub(crate) fn new(clusters_per_group: u32, runs: Vec<Range<u32>>) -> Self {
        Self {
            by_len: runs.iter().map(|run| (len(run), run.end)).collect(),
            starts: runs.into_iter().map(|run| (run.end, run.start)).collect(),
            current: None,
            clusters_per_group,
        }
    }

    /// Number of free runs.
    pub(crate) fn runs(&self) -> u64 {
        u64_of(self.starts.len())
    }

    /// Length of the longest run; 0 when nothing is free.
    pub(crate) fn largest(&self) -> u32 {
        self.longest().map_or(0, |run| len(&run))
    }

    pub(crate) fn longest(&self) -> Option<Range<u32>> {
        let mut filed = self.by_len.iter().rev().map(|filed| self.run(*filed));
        let last = filed.next()?;
        match (self.current, filed.next()) {
            (Some(current), Some(next)) if current.end == last.end && len(&next) > len(&last) => {
                Some(next)
            }
            _ => Some(last),
        }
    }

    /// The run of an entry of the length tree.
    fn run(&self, (filed_len, end): (u32, u32)) -> Range<u32> {
        match self.current {
            Some(current) if current.end == end => self.starts[&end]..end,
            _ => end - filed_len..end,
        }
    }

    /// The free run that contains `at`.
    pub(crate) fn containing(&self, at: u32) -> Option<Range<u32>> {
        let (&end, &start) = self.starts.range(at + 1..).next()?;
        (start <= at).then_some(start..end)
    }

    /// Contiguous free clusters from `at`, at most `cap`.
    pub(crate) fn free_at(&self, at: u32, cap: u32) -> u32 {
        self.containing(at).map_or(0, |run| (run.end - at).min(cap))
    }

    /// Runs that begin in `range`, ascending.
    pub(crate) fn starting_in(&self, range: Range<u32>) -> impl Iterator<Item = Range<u32>> + '_ {
        self.starts
            .range(range.start.saturating_add(1)..)
            .map(|(&end, &start)| start..end)
            .skip_while(move |run| run.start < range.start)
            .take_while(move |run| run.start < range.end)
    }

    /// Runs of at least `least` clusters, shortest first; the current one may come too late.
    pub(crate) fn fitting(&self, least: u32) -> impl DoubleEndedIterator<Item = Range<u32>> + '_ {
        let filed = self.by_len.range((least, 0)..);
        filed
            .map(|filed| self.run(*filed))
            .filter(move |run| len(run) >= least)
    }

    /// Takes `run`, which must lie inside one free run.
    pub(crate) fn take(&mut self, run: Range<u32>) {
        let around = self.starts.range_mut(run.start + 1..).next();
        let (&end, start) = around.expect("clusters to take are free");
        let around = *start..end;
        let inside = around.start <= run.start && run.end <= around.end;
        assert!(inside, "clusters to take are free");
        if run.end == around.end {
            self.remove(&around);
        } else {
            *start = run.end;
            self.shorten(around.clone(), run.end);
        }
        if around.start < run.start {
            self.insert(around.start..run.start);
        }
    }

    /// Moves the start of the run `before` to `start`.
    fn shorten(&mut self, before: Range<u32>, start: u32) {
        let end = before.end;
        if self.current.is_none_or(|current| current.end != end) {
            self.file_current();
            let filed_len = len(&before);
            self.current = Some(Current { end, filed_len });
        }
        let filed_len = self.current.map_or(0, |current| current.filed_len);
        if filed_len / 2 > end - start {
            self.file_current();
        }
    }

    /// Files the current run under its actual length.
    fn file_current(&mut self) {
        if let Some(Current { end, filed_len }) = self.current.take() {
            let now = end - self.starts[&end];
            if now != filed_len {
                self.by_len.remove(&(filed_len, end));
                self.by_len.insert((now, end));
            }
        }
    }

    fn insert(&mut self, run: Range<u32>) {
        self.starts.insert(run.end, run.start);
        self.by_len.insert((len(&run), run.end));
    }

    fn remove(&mut self, run: &Range<u32>) {
        let current = self.current.take_if(|current| current.end == run.end);
        let filed_len = current.map_or(len(run), |current| current.filed_len);
        self.starts.remove(&run.end);
        self.by_len.remove(&(filed_len, run.end));
    }

    /// Returns `run`, which must be taken and inside one block group.
    pub(crate) fn give(&mut self, run: Range<u32>) {
        let mut merged = run.clone();
        let after = self.starts.range(run.start + 1..).next();
        let after = after.map(|(&end, &start)| start..end);
        if let Some(after) = after {
            assert!(run.end <= after.start, "clusters to give back were free");
            if run.end == after.start && !run.end.is_multiple_of(self.clusters_per_group) {
                merged.end = after.end;
                self.remove(&after);
            }
        }
        if !run.start.is_multiple_of(self.clusters_per_group)
            && let Some(&start) = self.starts.get(&run.start)
        {
            merged.start = start;
            self.remove(&(start..run.start));
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

    #[test]
    fn the_current_run_is_found_by_what_is_left_of_it() {
        let mut free = FreeExtents::new(1000, vec![0..100, 200..260]);
        (0..45).for_each(|at| free.take(at..at + 1));
        assert_eq!(free.longest(), Some(200..260));
        assert_eq!(free.fitting(55).collect::<Vec<_>>(), [200..260, 45..100]);
        assert!(free.fitting(56).eq(std::iter::once(200..260)));
        free.take(45..90);
        assert_eq!(free.fitting(1).collect::<Vec<_>>(), [90..100, 200..260]);
        free.give(80..90);
        assert_eq!(free.fitting(1).collect::<Vec<_>>(), [80..100, 200..260]);
        assert!(free.starting_in(70..90).eq(std::iter::once(80..100)));
        free.take(80..100);
        assert_eq!((free.runs(), free.largest()), (1, 60));
    }

    /// Against a plain array: the longest run and every length are checked at each step.
    #[test]
    fn agrees_with_an_array() {
        let (mut free, mut map) = (FreeExtents::new(64, vec![]), [false; 192]);
        for step in 0..20_000_u32 {
            let draw = step.wrapping_mul(0x9E37_79B1) >> 7;
            let at = (draw % 192) as usize;
            let stop = map.iter().enumerate().skip(at + 1);
            let stop = stop.take(1 + draw as usize / 192 % 40);
            let same =
                |(next, is_free): &(usize, &bool)| **is_free == map[at] && !next.is_multiple_of(64);
            let end = stop.take_while(same).last().map_or(at, |(next, _)| next) + 1;
            let run = at as u32..end as u32;
            if map[at] {
                free.take(run)
            } else {
                free.give(run)
            }
            let was = map[at];
            map[at..end].fill(!was);
            let mut runs = maximal_runs(&map);
            assert_eq!(free.starting_in(0..192).collect::<Vec<_>>(), runs);
            runs.sort_by_key(len);
            assert_eq!(free.largest(), runs.last().map_or(0, len), "step {step}");
            let least = draw / 64 % 20;
            let mut found: Vec<_> = free.fitting(least).collect();
            found.sort_by_key(|run| (len(run), run.start));
            runs.retain(|run| len(run) >= least);
            assert_eq!(found, runs, "step {step}");
        }
    }

    fn maximal_runs(map: &[bool; 192]) -> Vec<Range<u32>> {
        let mut runs: Vec<Range<u32>> = Vec::new();
        for (at, _) in (0..192).zip(map).filter(|(_, is_free)| **is_free) {
            match runs.last_mut() {
                Some(run) if run.end == at && at % 64 != 0 => run.end += 1,
                _ => runs.push(at..at + 1),
            }
        }
        runs
    }
}
