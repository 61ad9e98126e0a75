//! Buddy bitmaps of the free clusters of one group.
//!
//! Layout: level `o` has a bit per aligned block of `2^o` clusters, set when the whole block is
//! free; level 0 is the inverted bitmap. All levels lie in one slice. A block that is free at
//! level `o` and whose parent is not is what ext4 calls a free chunk of order `o`.
//!
//! Invariants ([`Buddy::check`]): a bit of level `o + 1` is the AND of its two below; `counts[o]`
//! is the number of set bits of level `o`; `fragments` is the number of maximal free runs.

use crate::{Bitmap, words};
use std::ops::Range;
use uext4_num::{clamp_u32, usize_of};

/// Maximum number of levels: groups have at most `2^19` clusters (64 KiB blocks), the top two
/// levels are not kept.
const MAX_LEVELS: usize = 18;
/// Level whose bits are whole words of level 0.
const WORD_LEVEL: usize = 6;

/// Largest order kept for groups of this size; ext4's block size bits + 1 for full-size groups.
pub(crate) fn max_order(clusters_per_group: u32) -> u32 {
    (clusters_per_group.max(1).ilog2().saturating_sub(2)).clamp(1, clamp_u32(MAX_LEVELS) - 1)
}

/// Free space of one group.
pub(crate) struct Buddy {
    words: Box<[u64]>,
    offsets: [u32; MAX_LEVELS + 1],
    counts: [u32; MAX_LEVELS],
    levels: usize,
    clusters: u32,
    fragments: u32,
    /// No cluster below this one is free.
    first_free: u32,
}

impl Buddy {
    /// Builds the levels from a bitmap of used clusters.
    pub(crate) fn new(used: &Bitmap, max_order: u32) -> Self {
        let levels = usize_of(max_order) + 1;
        let mut offsets = [0; MAX_LEVELS + 1];
        for level in 0..levels {
            // One bit more than there are whole blocks, so that a range that ends in the
            // partial last block stays inside.
            let bits = (used.len() >> level) + 1;
            offsets[level + 1] = offsets[level] + clamp_u32(words::words_for(bits));
        }
        let words = vec![0; usize_of(offsets[levels])].into();
        let counts = [0; MAX_LEVELS];
        let clusters = used.len();
        let mut buddy = Self {
            words,
            offsets,
            counts,
            levels,
            clusters,
            fragments: 0,
            first_free: 0,
        };
        buddy.build(used);
        buddy
    }

    fn build(&mut self, used: &Bitmap) {
        for (word, used) in self.words.iter_mut().zip(used.words()) {
            *word = !used;
        }
        if !self.clusters.is_multiple_of(64) {
            self.words[usize_of(self.clusters / 64)] &= !(!0 << (self.clusters % 64));
        }
        for level in 1..self.levels {
            let below = self.span(level - 1);
            let here = self.span(level);
            let (low, high) = self.words.split_at_mut(here.start);
            let low = &low[below];
            for (at, word) in high[..here.len()].iter_mut().enumerate() {
                let half = |i: usize| low.get(i).copied().map_or(0, words::and_pairs);
                *word = half(at * 2) | half(at * 2 + 1) << 32;
            }
        }
        for level in 0..self.levels {
            self.counts[level] = self.level(level).iter().map(|word| word.count_ones()).sum();
        }
        self.fragments = self.count_fragments();
        self.first_free = words::next_set(self.level(0), 0, self.clusters);
    }

    fn count_fragments(&self) -> u32 {
        let mut before = 0;
        let mut starts = 0;
        for &word in self.level(0) {
            starts += (word & !(word << 1 | before)).count_ones();
            before = word >> 63;
        }
        starts
    }

    fn span(&self, level: usize) -> Range<usize> {
        usize_of(self.offsets[level])..usize_of(self.offsets[level + 1])
    }

    fn level(&self, level: usize) -> &[u64] {
        &self.words[self.span(level)]
    }

    fn level_mut(&mut self, level: usize) -> &mut [u64] {
        let span = self.span(level);
        &mut self.words[span]
    }

    pub(crate) fn clusters(&self) -> u32 {
        self.clusters
    }
    pub(crate) fn free(&self) -> u32 {
        self.counts[0]
    }
    pub(crate) fn fragments(&self) -> u32 {
        self.fragments
    }
    /// Largest order with a free chunk; `None` when the group is full.
    pub(crate) fn largest_order(&self) -> Option<u32> {
        (0..self.levels)
            .rev()
            .find(|&level| self.counts[level] > 0)
            .map(clamp_u32)
    }
    /// Free chunks of exactly this order.
    pub(crate) fn chunks(&self, order: u32) -> u32 {
        let order = usize_of(order);
        let count = |at: usize| if at < self.levels { self.counts[at] } else { 0 };
        count(order) - 2 * count(order + 1)
    }
    pub(crate) fn first_free(&self) -> u32 {
        words::next_set(self.level(0), self.first_free, self.clusters)
    }

    /// Takes `[start, start + len)`, which must be free.
    pub(crate) fn take(&mut self, start: u32, len: u32) {
        let (mut from, mut to) = (start, start + len);
        assert!(to <= self.clusters && len > 0, "run outside the group");
        self.count_neighbours(start, to, 1);
        for level in 0..self.levels {
            let cleared = words::clear(self.level_mut(level), from, to);
            assert!(
                level > 0 || cleared == len,
                "clusters to take were not free"
            );
            if cleared == 0 {
                break;
            }
            self.counts[level] -= cleared;
            (from, to) = (from / 2, to.div_ceil(2));
        }
        if start <= self.first_free {
            self.first_free = start + len;
        }
    }

    /// Gives back `[start, start + len)`, which must be taken.
    pub(crate) fn give(&mut self, start: u32, len: u32) {
        let (mut from, mut to) = (start, start + len);
        assert!(to <= self.clusters && len > 0, "run outside the group");
        let set = words::set(self.level_mut(0), from, to);
        assert_eq!(set, len, "clusters to give back were free");
        self.counts[0] += len;
        self.count_neighbours(start, to, -1);
        self.first_free = self.first_free.min(start);
        for level in 1..self.levels {
            let below = self.level(level - 1);
            let low_half = from % 2 == 1 && !words::get(below, from - 1);
            let high_half = to % 2 == 1 && !words::get(below, to);
            from = from / 2 + u32::from(low_half);
            to = to.div_ceil(2) - u32::from(high_half);
            if from >= to {
                break;
            }
            words::set(self.level_mut(level), from, to);
            self.counts[level] += to - from;
        }
    }

    /// Corrects `fragments` when `[start, end)` leaves (`1`) or joins (`-1`) the free clusters.
    fn count_neighbours(&mut self, start: u32, end: u32, sign: i32) {
        let left = start > 0 && words::get(self.level(0), start - 1);
        let right = words::get(self.level(0), end);
        let delta = sign * (i32::from(left) + i32::from(right) - 1);
        self.fragments = self.fragments.wrapping_add_signed(delta);
    }

    /// Length of the free run that starts at `at`, measured up to `cap`; 0 when `at` is taken.
    pub(crate) fn free_at(&self, at: u32, cap: u32) -> u32 {
        let limit = self.clusters.min(at.saturating_add(cap));
        words::next_clear(self.level(0), at, limit).saturating_sub(at)
    }

    /// The end of the free run that contains `at`.
    fn run_end(&self, at: u32) -> u32 {
        let border = (at | 63) + 1;
        let end = words::next_clear(self.level(0), at, border.min(self.clusters));
        if end < border || self.levels <= WORD_LEVEL {
            return if end < border {
                end
            } else {
                self.slow_end(end)
            };
        }
        // Whole free words are bits of WORD_LEVEL: jump over them 64 at a time.
        let whole = self.clusters >> WORD_LEVEL;
        let word = words::next_clear(self.level(WORD_LEVEL), border / 64, whole.max(border / 64));
        self.slow_end(word * 64)
    }

    fn slow_end(&self, from: u32) -> u32 {
        words::next_clear(self.level(0), from, self.clusters)
    }

    /// Maximal free runs inside `range`, ascending; the first is cut at `range.start`, the last may
    /// extend past `range.end`.
    pub(crate) fn runs(&self, range: Range<u32>) -> impl Iterator<Item = Range<u32>> + '_ {
        let mut at = range.start.max(self.first_free);
        let to = range.end.min(self.clusters);
        std::iter::from_fn(move || {
            let start = words::next_set(self.level(0), at, to);
            if start >= to {
                return None;
            }
            at = self.run_end(start);
            Some(start..at)
        })
    }

    /// Start of a free chunk whose order is the smallest that is at least `order`.
    pub(crate) fn find_chunk(&self, order: u32) -> Option<u32> {
        let mut orders = order..clamp_u32(self.levels);
        let order = usize_of(orders.find(|order| self.chunks(*order) > 0)?);
        let above = if order + 1 < self.levels {
            self.level(order + 1)
        } else {
            &[]
        };
        self.level(order)
            .iter()
            .enumerate()
            .find_map(|(at, &word)| {
                let parents = above.get(at / 2).map_or(0, |word| word >> (at % 2 * 32));
                let chunks = word & !words::double_bits(parents);
                (chunks != 0).then(|| (words::first_bit(at) + chunks.trailing_zeros()) << order)
            })
    }

    /// Asserts the invariants of the module.
    #[cfg(test)]
    pub(crate) fn check(&self) {
        let bit = |level: usize, at: u32| words::get(self.level(level), at);
        for level in 1..self.levels {
            for at in 0..self.clusters >> level {
                let both = bit(level - 1, at * 2) && bit(level - 1, at * 2 + 1);
                assert_eq!(bit(level, at), both, "level {level} bit {at}");
            }
        }
        for level in 0..self.levels {
            let ones: u32 = self.level(level).iter().map(|word| word.count_ones()).sum();
            assert_eq!(self.counts[level], ones, "count of level {level}");
        }
        assert_eq!(self.fragments, self.count_fragments());
        assert_eq!(words::count(self.level(0), 0, self.first_free), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn naive_runs(free: &[bool]) -> Vec<Range<u32>> {
        let mut runs: Vec<Range<u32>> = Vec::new();
        for (at, _) in free.iter().enumerate().filter(|(_, free)| **free) {
            let at = at as u32;
            match runs.last_mut() {
                Some(run) if run.end == at => run.end += 1,
                _ => runs.push(at..at + 1),
            }
        }
        runs
    }

    proptest! {
        #[test]
        fn follows_a_plain_bitmap(
            clusters in 8u32..900,
            ops in proptest::collection::vec((any::<u32>(), 1u32..200), 1..60),
            order in 0u32..8,
        ) {
            let mut free = vec![true; clusters as usize];
            let mut buddy = Buddy::new(&Bitmap::new(clusters), max_order(clusters));
            for (start, len) in ops {
                let start = start % clusters;
                let now = free[start as usize];
                let same = free[start as usize..].iter().take(len as usize);
                let len = same.take_while(|free| **free == now).count() as u32;
                free[start as usize..(start + len) as usize].fill(!now);
                if now { buddy.take(start, len) } else { buddy.give(start, len) }
                buddy.check();
            }
            let runs = naive_runs(&free);
            prop_assert_eq!(buddy.runs(0..clusters).collect::<Vec<_>>(), runs.clone());
            prop_assert_eq!(buddy.fragments() as usize, runs.len());
            prop_assert_eq!(buddy.free() as usize, free.iter().filter(|free| **free).count());
            if let Some(at) = buddy.find_chunk(order) {
                let len = 1 << order;
                prop_assert!(at % len == 0 && buddy.free_at(at, len) == len);
            } else {
                prop_assert!(buddy.largest_order().is_none_or(|largest| largest < order));
            }
            let mut used = Bitmap::new(clusters);
            for at in (0..clusters).filter(|at| !free[*at as usize]) {
                used.fill_range(at..at + 1);
            }
            let rebuilt = Buddy::new(&used, max_order(clusters));
            rebuilt.check();
            prop_assert_eq!(&rebuilt.words, &buddy.words);
        }
    }
}
