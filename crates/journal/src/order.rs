//! LSD radix sort of blocks: time linear in their number.
//!
//! A checkpoint merges the ascending lists of many transactions. A comparison sort would cost more
//! per block with more transactions; a radix sort makes as many passes as the range of the blocks
//! has digits.

use crate::images::Wanted;
use uext4_format::{BlockNr, Tid};
use uext4_num::{clamp_usize, u64_of, usize_of};

const DIGIT_BITS: u32 = 11;
const DIGIT: usize = 1 << DIGIT_BITS;
/// Shorter lists are sorted by comparison, which is faster than counting digits.
const FEW: usize = DIGIT / 4;

/// Sorts the list by block; the sort is stable.
pub(crate) fn ascending(mut list: Vec<Wanted>) -> Vec<Wanted> {
    if list.len() < FEW || list.is_sorted_by_key(|(block, _)| *block) {
        list.sort_by_key(|(block, _)| *block);
        return list;
    }
    let blocks = || list.iter().map(|(block, _)| block.0);
    let least = blocks().min().unwrap_or(0);
    let range = blocks().max().unwrap_or(0) - least;
    let mut sorted = vec![(BlockNr(0), Tid(0)); list.len()];
    for shift in (0..u64::BITS).step_by(usize_of(DIGIT_BITS)) {
        if range >> shift == 0 {
            break;
        }
        by_digit(&list, &mut sorted, |block| {
            clamp_usize((block.0 - least) >> shift & u64_of(DIGIT - 1))
        });
        std::mem::swap(&mut list, &mut sorted);
    }
    list
}

fn by_digit(list: &[Wanted], sorted: &mut [Wanted], digit: impl Fn(BlockNr) -> usize) {
    let mut next = [0; DIGIT];
    for (block, _) in list {
        next[digit(*block)] += 1;
    }
    let mut sum = 0;
    for count in &mut next {
        (sum, *count) = (sum + *count, sum);
    }
    for wanted in list {
        let next = &mut next[digit(wanted.0)];
        sorted[*next] = *wanted;
        *next += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uext4_sync::Rng;

    #[test]
    fn lists_of_every_range_are_sorted_and_keep_the_order_of_equals() {
        let mut rng = Rng::new(5);
        for bits in [0, 1, 5, 11, 12, 23, 40, 63] {
            for len in [0, 1, FEW - 1, FEW, 3000] {
                let base = rng.below(1 << 40);
                let block = |rng: &mut Rng| BlockNr(base + rng.below(1 << bits));
                let list: Vec<Wanted> = (0..len as u32)
                    .map(|nr| (block(&mut rng), Tid(nr)))
                    .collect();
                let mut sorted = list.clone();
                sorted.sort_by_key(|(block, _)| *block);
                assert_eq!(ascending(list), sorted, "{len} of {bits} bits");
            }
        }
    }
}
