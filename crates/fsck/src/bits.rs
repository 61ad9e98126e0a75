//! Sparse bit set of numbers below a bound.

use super::paged::Paged;
use std::ops::Range;

#[derive(Default)]
pub(crate) struct Bits(Paged<u64>);

impl Bits {
    pub(crate) fn new(len: u64) -> Self {
        Self(Paged::new(len.div_ceil(64)))
    }

    /// Memory of an empty set, in bytes.
    pub(crate) fn empty_bytes(len: u64) -> u64 {
        Paged::<u64>::empty_bytes(len.div_ceil(64))
    }

    /// Memory that the insertion of these numbers takes, in bytes.
    pub(crate) fn more_bytes(&self, range: &Range<u64>) -> u64 {
        self.0.more_bytes(words(range))
    }

    /// Whether any of these numbers may be there.
    pub(crate) fn may_have(&self, range: &Range<u64>) -> bool {
        self.0.may_have(words(range))
    }

    pub(crate) fn has(&self, at: u64) -> bool {
        self.0.get(at / 64) & 1 << (at % 64) != 0
    }

    /// How many numbers are there.
    pub(crate) fn count(&self) -> u64 {
        let words = self.0.numbers();
        words.map(|at| u64::from(self.0.get(at).count_ones())).sum()
    }

    /// The first number of a range that is not there.
    pub(crate) fn first_missing(&self, range: &Range<u64>) -> Option<u64> {
        let mut missing = words(range).filter_map(|at| {
            let skipped = range.start.saturating_sub(at * 64).min(63);
            let free = !self.0.get(at) & u64::MAX << skipped;
            (free != 0).then(|| at * 64 + u64::from(free.trailing_zeros()))
        });
        missing.next().filter(|first| *first < range.end)
    }

    /// How many numbers below a bound are there.
    pub(crate) fn count_below(&self, end: u64) -> u64 {
        let words = words(&(0..end)).map(|at| u64::from(self.0.get(at).count_ones()));
        words.sum()
    }

    /// The numbers of a range that are there, as runs in ascending order.
    pub(crate) fn runs_in(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        for at in words(range) {
            let word = self.0.get(at);
            let first = at * 64;
            for bit in (0..64).filter(|bit| word & 1 << bit != 0) {
                let nr = first + bit;
                match runs.last_mut() {
                    _ if !range.contains(&nr) => {}
                    Some(last) if last.end == nr => last.end += 1,
                    _ => runs.push(nr..nr + 1),
                }
            }
        }
        runs
    }

    /// Inserts numbers; returns how many of those inside the set were new.
    pub(crate) fn put_all(&mut self, range: Range<u64>) -> u64 {
        let mut n_new = 0;
        for at in words(&range) {
            let Some(word) = self.0.get_mut(at) else {
                break;
            };
            let bits = range.start.max(at * 64)..range.end.min(at * 64 + 64);
            let mask = (u64::MAX >> (64 - (bits.end - bits.start))) << (bits.start % 64);
            n_new += u64::from((mask & !*word).count_ones());
            *word |= mask;
        }
        n_new
    }
}

/// The words that have these bits.
fn words(range: &Range<u64>) -> Range<u64> {
    if range.is_empty() {
        0..0
    } else {
        range.start / 64..(range.end - 1) / 64 + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_new_once() {
        let mut bits = Bits::new(100);
        assert_eq!(bits.put_all(60..70), 10);
        assert_eq!(bits.put_all(65..75), 5);
        assert_eq!((bits.put_all(7..7), bits.put_all(0..60)), (0, 60));
        assert_eq!((bits.count(), Bits::new(9).count()), (75, 0));
        assert!(bits.has(60) && bits.has(74) && !bits.has(75) && !bits.has(5000));
        assert_eq!(bits.put_all(5000..5001), 0);
        assert!(bits.may_have(&(0..1)) && bits.more_bytes(&(0..1)) == 0);
    }

    #[test]
    fn the_first_missing_number_is_in_the_range() {
        let mut bits = Bits::new(3000);
        bits.put_all(60..2000);
        let first = |range| bits.first_missing(&range);
        assert_eq!((first(0..9), first(59..70)), (Some(0), Some(59)));
        assert_eq!(
            (first(60..2001), first(100..3000)),
            (Some(2000), Some(2000))
        );
        assert_eq!((first(60..2000), first(7..7)), (None, None));
        assert_eq!((first(2001..2002), first(1999..2000)), (Some(2001), None));
    }

    #[test]
    fn runs_end_with_their_range() {
        let mut bits = Bits::new(300);
        bits.put_all(60..70);
        bits.put_all(128..200);
        assert_eq!(bits.runs_in(&(62..130)), [62..70, 128..130]);
        assert_eq!(bits.runs_in(&(70..128)), []);
        assert_eq!(bits.runs_in(&(190..5000)), vec![190..200; 1]);
        assert_eq!(bits.runs_in(&(9..9)), []);
        assert_eq!((bits.count_below(300), bits.count_below(64)), (82, 4));
    }
}
