//! Clusters that more than one structure claims: for a repair, which gives each later one copies.

use crate::state::{Check, Step};
use std::collections::BTreeMap;
use std::ops::Range;
use uext4_format::InodeNr;
use uext4_num::u64_of;

/// Memory for each run of clusters, with its part of the map, in bytes.
const BYTES_PER_RUN: u64 = 48;

/// By inode, the clusters in its map that had an owner before.
#[derive(Default)]
pub(crate) struct Contested(BTreeMap<u32, Vec<Range<u64>>>);

impl Contested {
    /// The clusters of an inode, sorted and merged.
    pub(crate) fn of(&self, nr: InodeNr) -> Vec<Range<u64>> {
        let mut runs = self.0.get(&nr.0).cloned().unwrap_or_default();
        runs.sort_unstable_by_key(|run| (run.start, run.end));
        merged(runs)
    }
}

/// Joins sorted runs that meet or overlap.
pub(crate) fn merged(runs: Vec<Range<u64>>) -> Vec<Range<u64>> {
    let mut out: Vec<Range<u64>> = Vec::with_capacity(runs.len());
    for run in runs {
        match out.last_mut() {
            Some(last) if last.end >= run.start => last.end = last.end.max(run.end),
            _ => out.push(run),
        }
    }
    out
}

/// Whether a number is in one of these sorted runs.
pub(crate) fn lies_in(runs: &[Range<u64>], at: u64) -> bool {
    let after = runs.partition_point(|run| run.end <= at);
    runs.get(after).is_some_and(|run| run.start <= at)
}

impl Check<'_> {
    /// As [`Check::claim`], for the map of an inode.
    pub(crate) fn claim_for(&mut self, nr: InodeNr, clusters: Range<u64>) -> Step<u64> {
        if self.gate.is_some() {
            let before = self.claimed.runs_in(&clusters);
            if !before.is_empty() {
                self.take(u64_of(before.len()) * BYTES_PER_RUN)?;
                self.contested.0.entry(nr.0).or_default().extend(before);
            }
        }
        self.claim(clusters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_an_inode_are_sorted_and_apart() {
        let mut contested = Contested::default();
        let runs = contested.0.entry(12).or_default();
        runs.extend([50..60, 3..4, 4..9, 55..70, 80..81]);
        assert_eq!(contested.of(InodeNr(12)), [3..9, 50..70, 80..81]);
        assert_eq!(contested.of(InodeNr(13)), []);
        let runs = contested.of(InodeNr(12));
        assert!(lies_in(&runs, 3) && lies_in(&runs, 69) && lies_in(&runs, 80));
        assert!(!lies_in(&runs, 9) && !lies_in(&runs, 81) && !lies_in(&[], 0));
    }
}
