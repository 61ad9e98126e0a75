//! Bit ranges over `u64` words: bit `i` is bit `i % 64` of word `i / 64`, as in ext4 bitmaps
//! read little endian. All ranges are half open and in bits.

use std::ops::Range;
use uext4_num::{clamp_u32, usize_of};

/// Words that hold `bits` bits.
pub(crate) const fn words_for(bits: u32) -> usize {
    usize_of(bits.div_ceil(64))
}

/// The first bit of a word of a bitmap, whose bits have numbers of 32 bits.
pub(crate) fn first_bit(word: usize) -> u32 {
    clamp_u32(word) * 64
}

/// Number of bits in a range.
pub(crate) fn len(range: &Range<u32>) -> u32 {
    range.end.saturating_sub(range.start)
}

/// The word index and mask of every word that `[from, to)` touches.
fn masks(from: u32, to: u32) -> impl Iterator<Item = (usize, u64)> {
    let (first, last) = (usize_of(from / 64), words_for(to));
    (first..if from < to { last } else { first }).map(move |word| {
        let base = first_bit(word);
        let low = if from > base { !0 << (from - base) } else { !0 };
        let high = if to < base + 64 {
            !(!0 << (to - base))
        } else {
            !0
        };
        (word, low & high)
    })
}

/// Whether bit `at` is set; bits past the words are clear.
pub(crate) fn get(words: &[u64], at: u32) -> bool {
    words
        .get(usize_of(at / 64))
        .is_some_and(|word| word >> (at % 64) & 1 == 1)
}

/// Sets `[from, to)`; returns how many bits changed.
pub(crate) fn set(words: &mut [u64], from: u32, to: u32) -> u32 {
    masks(from, to)
        .map(|(at, mask)| {
            let changed = mask & !words[at];
            words[at] |= mask;
            changed.count_ones()
        })
        .sum()
}

/// Clears `[from, to)`; returns how many bits changed.
pub(crate) fn clear(words: &mut [u64], from: u32, to: u32) -> u32 {
    masks(from, to)
        .map(|(at, mask)| {
            let changed = mask & words[at];
            words[at] &= !mask;
            changed.count_ones()
        })
        .sum()
}

/// Set bits in `[from, to)`.
pub(crate) fn count(words: &[u64], from: u32, to: u32) -> u32 {
    masks(from, to)
        .map(|(at, mask)| (words[at] & mask).count_ones())
        .sum()
}

/// First bit in `[from, to)` of `words` xor `flip`; `to` when there is none.
fn next(words: &[u64], from: u32, to: u32, flip: u64) -> u32 {
    if from >= to {
        return to;
    }
    let (mut at, end) = (usize_of(from / 64), words_for(to));
    let mut word = (words[at] ^ flip) & (!0 << (from % 64));
    while word == 0 {
        at += 1;
        if at >= end {
            return to;
        }
        word = words[at] ^ flip;
    }
    (first_bit(at) + word.trailing_zeros()).min(to)
}

/// First set bit in `[from, to)`; `to` when there is none.
pub(crate) fn next_set(words: &[u64], from: u32, to: u32) -> u32 {
    next(words, from, to, 0)
}

/// First clear bit in `[from, to)`; `to` when there is none.
pub(crate) fn next_clear(words: &[u64], from: u32, to: u32) -> u32 {
    next(words, from, to, !0)
}

/// Length of the longest run of clear bits among the first `bits`.
///
/// One pass over the words, without walking run by run: a few shifts test whether a word has a
/// longer run inside than the longest so far.
pub(crate) fn longest_clear(words: &[u64], bits: u32) -> u32 {
    // `open` clear bits end where the word begins.
    let (mut longest, mut open) = (0, 0);
    for (at, word) in words[..words_for(bits)].iter().enumerate() {
        let left = bits - first_bit(at);
        let clear = !word & if left < 64 { !(!0 << left) } else { !0 };
        if clear == !0 {
            open += 64;
            continue;
        }
        longest = longest.max(open + clear.trailing_ones());
        while longest < 64 && has_run(clear, longest + 1) {
            longest += 1;
        }
        open = clear.leading_ones();
    }
    longest.max(open)
}

/// Whether `word` has `len` contiguous set bits; `len` is 1 to 64.
fn has_run(word: u64, len: u32) -> bool {
    let (mut word, mut known) = (word, 1);
    while known < len {
        let step = known.min(len - known);
        word &= word >> step;
        known += step;
    }
    word != 0
}

/// Bit `i` of the result is the AND of bits `2i` and `2i + 1`; the upper half is zero.
pub(crate) fn and_pairs(word: u64) -> u64 {
    let mut x = word & (word >> 1) & 0x5555_5555_5555_5555;
    for (shift, mask) in [
        (1, 0x3333_3333_3333_3333),
        (2, 0x0f0f_0f0f_0f0f_0f0f),
        (4, 0x00ff_00ff_00ff_00ff),
        (8, 0x0000_ffff_0000_ffff),
        (16, 0x0000_0000_ffff_ffff),
    ] {
        x = (x | (x >> shift)) & mask;
    }
    x
}

/// Bits `2i` and `2i + 1` of the result are bit `i` of the lower half of `word`.
pub(crate) fn double_bits(word: u64) -> u64 {
    let mut x = word & 0x0000_0000_ffff_ffff;
    for (shift, mask) in [
        (16, 0x0000_ffff_0000_ffff),
        (8, 0x00ff_00ff_00ff_00ff),
        (4, 0x0f0f_0f0f_0f0f_0f0f),
        (2, 0x3333_3333_3333_3333),
        (1, 0x5555_5555_5555_5555),
    ] {
        x = (x | (x << shift)) & mask;
    }
    x | (x << 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pairs_fold_and_unfold() {
        let word = 0b1111_0110_0011u64;
        assert_eq!(and_pairs(word), 0b11_0001);
        assert_eq!(double_bits(0b110101), 0b1111_0011_0011);
        assert_eq!(and_pairs(double_bits(0xdead_beef)), 0xdead_beef);
    }

    proptest! {
        #[test]
        fn ranges_match_single_bits(
            words in proptest::collection::vec(
                prop_oneof![any::<u64>(), Just(0), any::<(u64, u64)>().prop_map(|(a, b)| a & b)],
                4,
            ),
            a in 0u32..=256, b in 0u32..=256,
        ) {
            let (from, to) = (a.min(b), a.max(b));
            let bits: Vec<bool> = (0..256).map(|i| get(&words, i)).collect();
            let inside = |i: &u32| (from..to).contains(i);
            let ones = (0..256).filter(inside).filter(|&i| bits[i as usize]).count() as u32;
            prop_assert_eq!(count(&words, from, to), ones);
            let first = (from..to).find(|&i| bits[i as usize]).unwrap_or(to);
            prop_assert_eq!(next_set(&words, from, to), first);
            let first = (from..to).find(|&i| !bits[i as usize]).unwrap_or(to);
            prop_assert_eq!(next_clear(&words, from, to), first);
            let runs = bits[..to as usize].split(|used| *used).map(<[bool]>::len);
            prop_assert_eq!(longest_clear(&words, to) as usize, runs.max().unwrap_or(0));
            let mut other = words.clone();
            prop_assert_eq!(set(&mut other, from, to), to - from - ones);
            prop_assert!((0..256).all(|i| get(&other, i) == (bits[i as usize] || inside(&i))));
            let mut other = words.clone();
            prop_assert_eq!(clear(&mut other, from, to), ones);
            prop_assert!((0..256).all(|i| get(&other, i) == (bits[i as usize] && !inside(&i))));
        }
    }
}
