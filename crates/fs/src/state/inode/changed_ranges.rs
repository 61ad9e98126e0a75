//! Ranges of a file whose mapping changed in the running transaction, for its fast commits.

use std::ops::Range;

/// More ranges are joined to one.
const RANGES_MAX: usize = 32;

/// Ranges of blocks, in no order.
#[derive(Default)]
pub(crate) struct ChangedRanges {
    ranges: Vec<Range<u64>>,
}

impl ChangedRanges {
    pub(crate) fn add(&mut self, range: Range<u64>) {
        let join = |a: &Range<u64>, b: &Range<u64>| a.start.min(b.start)..a.end.max(b.end);
        let mut others = self.ranges.iter_mut();
        if let Some(met) = others.find(|other| other.start <= range.end && range.start <= other.end)
        {
            *met = join(met, &range);
            return;
        }
        self.ranges.push(range);
        if self.ranges.len() > RANGES_MAX {
            let first = self.ranges.swap_remove(0);
            let all = self
                .ranges
                .drain(..)
                .fold(first, |all, one| join(&all, &one));
            self.ranges.push(all);
        }
    }

    /// The ranges; two may overlap.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.ranges.iter().cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uext4_sync::Rng;

    #[test]
    fn every_block_that_was_added_is_in_a_range() {
        for seed in 0..200 {
            let (mut rng, mut changed) = (Rng::new(seed), ChangedRanges::default());
            let mut added = Vec::new();
            for _ in 0..rng.below(80) {
                let start = rng.below(1000);
                let range = start..start + 1 + rng.below(5);
                added.extend(range.clone());
                changed.add(range);
                let is_in = |block: &u64| changed.iter().any(|range| range.contains(block));
                assert!(added.iter().all(is_in) && changed.ranges.len() <= RANGES_MAX);
            }
        }
    }
}
