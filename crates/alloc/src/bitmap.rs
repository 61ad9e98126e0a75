//! A bitmap of one group, for clusters or inodes: set means in use.
//!
//! Layout: on disk bit `i` is bit `i % 8` of byte `i / 8`; in memory `u64` words, read little
//! endian. Invariant: bits at and past [`Bitmap::len`] are clear in memory. The padding that ext4
//! sets on disk is left to the writer of the block.

use crate::words;
use std::ops::Range;
use uext4_num::{low_u8, usize_of};

/// Bits of one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bitmap {
    words: Box<[u64]>,
    bits: u32,
}

impl Bitmap {
    /// Makes a bitmap of `bits` bits, all clear.
    pub fn new(bits: u32) -> Self {
        Self {
            words: vec![0; words::words_for(bits)].into(),
            bits,
        }
    }
    /// The first `bits` bits of a bitmap block; bytes that are missing read as in use.
    pub fn from_bytes(bytes: &[u8], bits: u32) -> Self {
        let mut bitmap = Self::new(bits);
        bitmap.copy_from_bytes(bytes);
        bitmap
    }
    /// The number of bits, set and clear.
    pub fn len(&self) -> u32 {
        self.bits
    }
    /// True for a bitmap of no bits.
    pub fn is_empty(&self) -> bool {
        self.bits == 0
    }
    /// The words, least significant bit first.
    pub fn words(&self) -> &[u64] {
        &self.words
    }
    /// Replaces the bits by those of a bitmap block; bytes that are missing read as in use.
    pub fn copy_from_bytes(&mut self, bytes: &[u8]) {
        uext4_format::bitmap::copy_words(&mut self.words, bytes);
        if let (Some(last), true) = (self.words.last_mut(), !self.bits.is_multiple_of(64)) {
            *last &= !(!0 << (self.bits % 64));
        }
    }
    /// Replaces the bits by those of another bitmap of the same length.
    pub fn copy_from(&mut self, other: &Bitmap) {
        assert_eq!(
            self.bits, other.bits,
            "bitmaps of one group have one length"
        );
        self.words.copy_from_slice(&other.words);
    }
    /// Writes the bits to the front of a bitmap block. Bits past the end, up to the next byte,
    /// and all bytes after them keep what `bytes` holds.
    pub fn write_to(&self, bytes: &mut [u8]) {
        let whole = usize_of(self.bits / 8);
        for (at, byte) in bytes.iter_mut().enumerate().take(whole) {
            *byte = low_u8(self.words[at / 8] >> (at % 8 * 8));
        }
        if let (Some(byte), true) = (bytes.get_mut(whole), !self.bits.is_multiple_of(8)) {
            let mask = !(0xffu8 << (self.bits % 8));
            *byte = *byte & !mask | low_u8(self.words[whole / 8] >> (whole % 8 * 8)) & mask;
        }
    }
    /// Whether bit `at` is set; false past the end.
    pub fn get(&self, at: u32) -> bool {
        words::get(&self.words, at)
    }
    /// First clear bit in `range`.
    pub fn next_clear(&self, range: Range<u32>) -> Option<u32> {
        let to = range.end.min(self.bits);
        let at = words::next_clear(&self.words, range.start, to);
        (at < to).then_some(at)
    }
    /// First set bit in `range`.
    pub fn next_set(&self, range: Range<u32>) -> Option<u32> {
        let to = range.end.min(self.bits);
        let at = words::next_set(&self.words, range.start, to);
        (at < to).then_some(at)
    }
    /// The first maximal run of clear bits at or after `from`, cut off at the end.
    pub fn next_clear_run(&self, from: u32) -> Option<Range<u32>> {
        let start = self.next_clear(from..self.bits)?;
        Some(start..words::next_set(&self.words, start, self.bits))
    }
    /// The first `len` contiguous clear bits at or after `from`.
    pub fn find_clear(&self, from: u32, len: u32) -> Option<u32> {
        let mut at = from;
        while let Some(run) = self.next_clear_run(at) {
            if words::len(&run) >= len {
                return Some(run.start);
            }
            at = run.end;
        }
        None
    }
    /// Length of the longest run of clear bits.
    pub fn longest_clear(&self) -> u32 {
        words::longest_clear(&self.words, self.bits)
    }
    /// Number of clear bits.
    pub fn count_clear(&self) -> u32 {
        self.bits - words::count(&self.words, 0, self.bits)
    }
    /// True when `range` lies inside and every bit of it is clear.
    pub fn is_clear(&self, range: Range<u32>) -> bool {
        range.end <= self.bits && words::count(&self.words, range.start, range.end) == 0
    }
    /// True when `range` lies inside and every bit of it is set.
    pub fn is_set(&self, range: Range<u32>) -> bool {
        range.end <= self.bits
            && words::count(&self.words, range.start, range.end) == words::len(&range)
    }
    /// Sets clear bits. Panics when one was set: check bits from a disk with
    /// [`Self::is_clear`] first.
    pub fn set_range(&mut self, range: Range<u32>) {
        assert!(range.end <= self.bits, "range past the bitmap");
        let changed = words::set(&mut self.words, range.start, range.end);
        assert_eq!(changed, words::len(&range), "bits to set were set");
    }
    /// Clears set bits. Panics when one was clear: check bits from a disk with
    /// [`Self::is_set`] first.
    pub fn clear_range(&mut self, range: Range<u32>) {
        assert!(range.end <= self.bits, "range past the bitmap");
        let changed = words::clear(&mut self.words, range.start, range.end);
        assert_eq!(changed, words::len(&range), "bits to clear were clear");
    }
    /// Replaces word `at`; bits past the end are clear in it.
    pub(crate) fn fill_word(&mut self, at: usize, word: u64) {
        self.words[at] = word;
    }
    /// Sets all bits of `range`, set before or not; the part past the end is ignored.
    pub fn fill_range(&mut self, range: Range<u32>) {
        words::set(&mut self.words, range.start, range.end.min(self.bits));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_and_padding_is_kept() {
        let bytes = [0b1010_0001, 0xff, 0x0f];
        let bitmap = Bitmap::from_bytes(&bytes, 21);
        assert!(bitmap.get(0) && bitmap.get(5) && !bitmap.get(20) && !bitmap.get(21));
        let mut out = [0xff; 4];
        bitmap.write_to(&mut out);
        assert_eq!(out, [0b1010_0001, 0xff, 0xef, 0xff]);
    }

    #[test]
    fn missing_bytes_are_in_use() {
        let bitmap = Bitmap::from_bytes(&[0], 100);
        assert_eq!(bitmap.count_clear(), 8);
    }

    #[test]
    fn runs_are_found() {
        let mut bitmap = Bitmap::new(200);
        bitmap.set_range(0..10);
        bitmap.set_range(12..70);
        bitmap.set_range(80..199);
        assert_eq!(bitmap.next_clear_run(0), Some(10..12));
        assert_eq!(bitmap.find_clear(0, 3), Some(70));
        assert_eq!(bitmap.find_clear(0, 11), None);
        assert_eq!(bitmap.next_clear_run(80), Some(199..200));
        assert_eq!(bitmap.next_clear(80..150), None);
        bitmap.clear_range(12..70);
        assert_eq!(bitmap.count_clear(), 71);
    }

    /// All bitmaps of up to 12 bits, all starts and lengths, beside a search bit by bit.
    #[test]
    fn every_small_bitmap_is_searched_right() {
        for (bits, set) in
            (1..=12_u32).flat_map(|bits| (0..1_u32 << bits).map(move |set| (bits, set)))
        {
            let bitmap = Bitmap::from_bytes(&set.to_le_bytes(), bits);
            let is_clear = |at: u32| at < bits && set >> at & 1 == 0;
            for from in 0..bits {
                let start = (from..bits).find(|at| is_clear(*at));
                let run = start.map(|start| start..(start..).find(|at| !is_clear(*at)).unwrap());
                assert_eq!(bitmap.next_clear(from..bits), start, "{set:b} from {from}");
                assert_eq!(bitmap.next_clear_run(from), run, "{set:b} from {from}");
                assert_eq!(
                    bitmap.next_set(from..bits),
                    (from..bits).find(|at| !is_clear(*at))
                );
                for len in 1..=bits {
                    let fits = |at: &u32| (*at..at + len).all(is_clear);
                    assert_eq!(bitmap.find_clear(from, len), (from..bits).find(fits));
                }
            }
            let longest = (1..=bits)
                .rev()
                .find(|len| bitmap.find_clear(0, *len).is_some());
            assert_eq!(bitmap.longest_clear(), longest.unwrap_or(0));
            assert_eq!(bitmap.count_clear(), bits - set.count_ones());
        }
    }

    #[test]
    #[should_panic(expected = "were set")]
    fn setting_twice_panics() {
        let mut bitmap = Bitmap::new(64);
        bitmap.set_range(3..5);
        bitmap.set_range(4..6);
    }
}
