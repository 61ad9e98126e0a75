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
        assert!(bits.has(60) && bits.has(74) && !bits.has(75) && !bits.has(5000));
        assert_eq!(bits.put_all(5000..5001), 0);
        assert!(bits.may_have(&(0..1)) && bits.more_bytes(&(0..1)) == 0);
    }
}
