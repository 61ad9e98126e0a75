//! Sparse bit set of numbers below a bound.

use super::paged::Paged;
use std::ops::Range;
use uext4_device::Scratch;
use uext4_num::low_u32;
use uext4_sync::Arc;

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

    pub(crate) fn has(&self, at: u64) -> bool {
        self.0.get(at / 64) & 1 << (at % 64) != 0
    }

    /// How many numbers are there.
    pub(crate) fn count(&self) -> u64 {
        let words = self.0.places();
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
            let first = at * 64;
            let mut word = self.0.get(at) & mask(first, range);
            while word != 0 {
                let start = first + u64::from(word.trailing_zeros());
                let len = (word >> (start - first)).trailing_ones();
                let end = start + u64::from(len);
                match runs.last_mut() {
                    Some(last) if last.end == start => last.end = end,
                    _ => runs.push(start..end),
                }
                word &= u64::MAX.checked_shl(low_u32(end - first)).unwrap_or(0);
            }
        }
        runs
    }

    /// Whether none of these numbers is there.
    pub(crate) fn has_none(&self, range: &Range<u64>) -> bool {
        let mut words = words(range);
        !self.0.may_have(words.clone())
            || words.all(|at| self.0.get(at) & mask(at * 64, range) == 0)
    }

    /// The 64 numbers from `first` on, the lowest first.
    pub(crate) fn word_from(&self, first: u64) -> u64 {
        let (at, skipped) = (first / 64, first % 64);
        let low = self.0.get(at) >> skipped;
        match skipped {
            0 => low,
            _ => low | self.0.get(at + 1) << (64 - skipped),
        }
    }

    /// As [`Paged::make_room`].
    pub(crate) fn make_room(&mut self, scratch: Option<&Arc<Scratch>>) -> u64 {
        self.0.make_room(scratch)
    }

    /// Inserts numbers; returns how many of those inside the set were new.
    pub(crate) fn put_all(&mut self, range: Range<u64>) -> u64 {
        let mut n_new = 0;
        for at in words(&range) {
            let (mask, word) = (mask(at * 64, &range), self.0.get(at));
            let new = mask & !word;
            if new != 0 && !self.0.set(at, word | mask) {
                break;
            }
            n_new += u64::from(new.count_ones());
        }
        n_new
    }
}

/// The numbers of a range that are in the word of `first`, as its bits.
fn mask(first: u64, range: &Range<u64>) -> u64 {
    let start = range.start.max(first);
    let end = range.end.min(first + 64);
    (u64::MAX >> (64 - (end - start))) << (start - first)
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
        assert_eq!(bits.more_bytes(&(0..1)), 0);
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
    fn words_begin_anywhere() {
        let mut bits = Bits::new(300);
        bits.put_all(60..70);
        bits.put_all(127..129);
        let expected = |first: u64| {
            let there = (0..64).filter(|at| bits.has(first + at));
            there.fold(0, |word, at| word | 1 << at)
        };
        for first in 0..300 {
            assert_eq!(bits.word_from(first), expected(first), "{first}");
        }
        for (range, none) in [
            (0..60, true),
            (0..61, false),
            (69..71, false),
            (70..127, true),
        ] {
            assert_eq!(bits.has_none(&range), none, "{range:?}");
        }
        assert!(bits.has_none(&(9..9)) && bits.has_none(&(200..5000)));
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
