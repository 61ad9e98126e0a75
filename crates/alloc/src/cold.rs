//! Cold regions, whose longest free run is unknown, ordered by the longest run that they may have.
//!
//! Before any bitmap is read, the free count of every group is known, and no run is longer than
//! that. A region is indexed by the largest free count of its groups, in steps of a quarter of a
//! power of two.
//!
//! Invariant: a region is either known or in exactly one step; changed under its lock.

use crate::group_index::OrderIndex;
use std::ops::Range;
use uext4_format::GroupNr;
use uext4_num::{clamp_u32, usize_of};
use uext4_sync::atomic::{AtomicU32, Ordering::Relaxed};

pub(crate) struct ColdIndex {
    index: OrderIndex,
    /// Number of regions in each step.
    counts: Box<[AtomicU32]>,
}

/// The step of this many free clusters; 0 has none.
pub(crate) fn step_of(clusters: u32) -> Option<u32> {
    let log = clusters.checked_ilog2()?;
    let quarter = if log >= 2 {
        clusters >> (log - 2) & 3
    } else {
        0
    };
    Some(log * 4 + quarter)
}

impl ColdIndex {
    pub(crate) fn new(clusters_per_group: u32, regions: u32) -> Self {
        let steps = step_of(clusters_per_group).map_or(1, |step| step + 1);
        Self {
            index: OrderIndex::new(steps, regions),
            counts: (0..steps).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    /// Moves a region from one step to another. The caller holds the region's lock.
    pub(crate) fn change(&self, nr: u32, from: Option<u32>, to: Option<u32>) {
        if from == to {
            return;
        }
        self.index.change(GroupNr(nr), from, to);
        if let Some(step) = from {
            self.counts[usize_of(step)].fetch_sub(1, Relaxed);
        }
        if let Some(step) = to {
            self.counts[usize_of(step)].fetch_add(1, Relaxed);
        }
    }

    /// Steps that may hold regions with `clusters` free clusters in a group, the highest first.
    pub(crate) fn steps(&self, clusters: u32) -> impl Iterator<Item = u32> + '_ {
        let least = step_of(clusters).unwrap_or(0);
        let steps = (least..clamp_u32(self.counts.len())).rev();
        steps.filter(|step| self.counts[usize_of(*step)].load(Relaxed) > 0)
    }

    /// First region of this step in `range`.
    pub(crate) fn next(&self, step: u32, range: Range<u32>) -> Option<u32> {
        let found = self.index.next(step, range.start, range.end);
        found.map(|GroupNr(nr)| nr)
    }

    /// Regions of all steps.
    pub(crate) fn len(&self) -> u32 {
        self.counts.iter().map(|count| count.load(Relaxed)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_promising_come_first() {
        let cold = ColdIndex::new(32768, 100);
        for (nr, free) in [(7, 6500), (3, 13107), (90, 6600), (5, 0), (4, 1)] {
            cold.change(nr, None, step_of(free));
        }
        let order: Vec<_> = cold
            .steps(1)
            .filter_map(|step| cold.next(step, 0..100))
            .collect();
        assert_eq!(order, [3, 7, 4]);
        assert_eq!(cold.steps(8192).count(), 1);
        cold.change(3, step_of(13107), None);
        assert_eq!((cold.steps(8192).count(), cold.len()), (0, 3));
    }

    #[test]
    fn steps_ascend_and_fit() {
        let steps: Vec<_> = (1..40000).map(|free| step_of(free).unwrap()).collect();
        assert!(steps.is_sorted());
        assert_eq!(step_of(0), None);
        assert!(step_of(6554) < step_of(8192));
    }
}
