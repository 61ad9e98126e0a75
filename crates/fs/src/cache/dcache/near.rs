//! Interpolation search in a sorted list of evenly spread hashes.
//!
//! A binary search of an index node misses a cache line per step; this one mostly touches one or
//! two lines.

use std::ops::Range;
use uext4_num::{clamp_usize, u64_of};

/// Distance from the guess that is searched first, on both sides.
const AROUND: usize = 8;

/// Expected index of a hash among `len` hashes spread evenly over the range.
pub(super) fn interpolate(range: &Range<u32>, hash: u32, len: usize) -> usize {
    let width = u64::from(range.end.saturating_sub(range.start)).max(1);
    let within = u64::from(hash.saturating_sub(range.start)).min(width);
    clamp_usize(within * u64_of(len) / width)
}

/// As `slice::partition_point`, searched outwards from `guess`.
pub(super) fn partition_point<T>(
    sorted: &[T],
    guess: usize,
    is_before: impl Fn(&T) -> bool,
) -> usize {
    let mut around = AROUND;
    loop {
        let from = guess.saturating_sub(around).min(sorted.len());
        let to = guess.saturating_add(around).min(sorted.len());
        let begins = from == 0 || is_before(&sorted[from - 1]);
        let ends = to == sorted.len() || !is_before(&sorted[to]);
        if begins && ends {
            return from + sorted[from..to].partition_point(is_before);
        }
        around = around.saturating_mul(4);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_guess_leads_to_the_same_place(
            mut sorted in prop::collection::vec(0u32..1000, 0..600),
            guess in prop_oneof![0usize..700, Just(usize::MAX)],
            hash in 0u32..1001,
        ) {
            sorted.sort_unstable();
            let expected = sorted.partition_point(|other| *other <= hash);
            prop_assert_eq!(partition_point(&sorted, guess, |other| *other <= hash), expected);
        }

        #[test]
        fn what_is_in_no_order_leads_somewhere(
            words in prop::collection::vec(any::<u32>(), 0..99),
        ) {
            let place = partition_point(&words, 50, |word| word % 2 == 0);
            prop_assert!(place <= words.len());
        }
    }

    #[test]
    fn what_is_spread_evenly_is_where_it_is_expected() {
        let evenly: Vec<u32> = (0..500).map(|nr| 1000 + nr * 20).collect();
        for hash in 1000..11_000 {
            let guess = interpolate(&(1000..11_000), hash, evenly.len());
            let place = evenly.partition_point(|other| *other <= hash);
            assert!(guess.abs_diff(place) <= 1, "{hash}");
        }
    }

    #[test]
    fn a_range_that_does_not_hold_the_hash_leads_to_its_ends() {
        let backwards = Range { start: 20, end: 10 };
        assert_eq!(interpolate(&(10..20), 5, 7), 0);
        assert_eq!(interpolate(&(10..20), 50, 7), 7);
        assert_eq!(interpolate(&backwards, 50, 7), 7);
        assert_eq!(interpolate(&(0..u32::MAX), u32::MAX, 0), 0);
    }
}
