//! Bit set of numbers below a bound.

use std::ops::Range;
use uext4_num::clamp_usize;

/// See the module.
#[derive(Default)]
pub(super) struct Bits(Vec<u64>);

impl Bits {
    pub(super) fn new(len: u64) -> Self {
        Self(vec![0; clamp_usize(len.div_ceil(64))])
    }

    pub(super) fn has(&self, at: u64) -> bool {
        let word = self.0.get(clamp_usize(at / 64));
        word.is_some_and(|word| word & 1 << (at % 64) != 0)
    }

    /// Inserts a number; false if it was there or is out of bounds.
    pub(super) fn put(&mut self, at: u64) -> bool {
        let Some(word) = self.0.get_mut(clamp_usize(at / 64)) else {
            return false;
        };
        let bit = 1 << (at % 64);
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }

    /// Inserts numbers; answers how many were new.
    pub(super) fn put_all(&mut self, range: Range<u64>) -> u64 {
        range.map(|at| u64::from(self.put(at))).sum()
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
        assert!(bits.has(60) && bits.has(74) && !bits.has(75) && !bits.has(5000));
        assert!(!bits.put(5000));
    }
}
