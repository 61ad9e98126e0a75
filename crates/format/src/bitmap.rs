//! Bitmaps of a group, and their contents when the descriptor marks them uninitialised.
//!
//! Bit `n` of a bitmap is bit `n % 8` of byte `n / 8`. Bits past the group's last cluster or inode
//! are set. A block bitmap marked BLOCK_UNINIT is computed from the geometry; an inode bitmap
//! marked INODE_UNINIT has no inode in use.
//!
//! References: kernel doc `filesystems/ext4/bitmaps.rst`.

use uext4_num::{clamp_u32, usize_of};

use crate::bytes::put_slice;
use crate::{BlockNr, Geometry, GroupDescriptor, GroupNr};

/// Sets the bits from `start` up to, not including, `end`, or to the bitmap's end.
pub fn set_bits(bitmap: &mut [u8], start: u32, end: u32) {
    if start >= end {
        return;
    }
    let (first, last) = (usize_of(start / 8), usize_of(end / 8));
    let (from, upto) = (!0 << (start % 8), !(!0 << (end % 8)));
    let mut or = |at: usize, mask: u8| {
        if let Some(byte) = bitmap.get_mut(at) {
            *byte |= mask;
        }
    };
    if first == last {
        return or(first, from & upto);
    }
    or(first, from);
    or(last, upto);
    let between = first.saturating_add(1)..last.min(bitmap.len());
    bitmap.get_mut(between).unwrap_or_default().fill(0xFF);
}

/// Clears the bits from `start` up to, not including, `end`, or to the bitmap's end.
pub fn clear_bits(bitmap: &mut [u8], start: u32, end: u32) {
    for bit in start..end {
        if let Some(byte) = bitmap.get_mut(usize_of(bit / 8)) {
            *byte &= !(1 << (bit % 8));
        }
    }
}

/// The 64 bits from `64 * at` on, least significant bit first; `None` behind the bitmap's end.
pub fn word(bitmap: &[u8], at: usize) -> Option<u64> {
    let (whole, _) = bitmap.as_chunks();
    whole.get(at).map(|raw| u64::from_le_bytes(*raw))
}

/// Replaces the words by those of a bitmap, least significant bit first; bytes that are missing
/// read as in use.
pub fn copy_words(words: &mut [u64], bitmap: &[u8]) {
    let (whole, rest) = bitmap.as_chunks();
    let mut last = [0xFF; 8];
    put_slice(&mut last, 0, rest);
    let missing = std::iter::once(&last).chain(std::iter::repeat(&[0xFF; 8]));
    let filled = words.iter_mut().zip(whole);
    filled.for_each(|(word, raw)| *word = u64::from_le_bytes(*raw));
    let unfilled = words.iter_mut().skip(whole.len()).zip(missing);
    unfilled.for_each(|(word, raw)| *word = u64::from_le_bytes(*raw));
}

/// The block bitmap of a group marked BLOCK_UNINIT, one block long: superblock copy, descriptors
/// and reserved blocks, and those of the group's own bitmaps and inode table that lie in the group.
pub fn uninit_block_bitmap(
    geometry: &Geometry,
    group: GroupNr,
    descriptor: &GroupDescriptor,
) -> Vec<u8> {
    let mut bitmap = vec![0; usize_of(geometry.block_size())];
    let ratio = geometry.blocks_per_cluster();
    set_bits(
        &mut bitmap,
        0,
        geometry.base_metadata_blocks(group).div_ceil(ratio),
    );
    let own = [
        (descriptor.block_bitmap, 1),
        (descriptor.inode_bitmap, 1),
        (descriptor.inode_table, geometry.inode_table_blocks()),
    ];
    for (start, len) in own {
        if let Some((first, end)) = part_in_group(geometry, group, start, len) {
            let first = first >> geometry.cluster_bits;
            set_bits(&mut bitmap, first, end.div_ceil(ratio));
        }
    }
    set_bits(&mut bitmap, geometry.clusters_in_group(group), u32::MAX);
    bitmap
}

/// The inode bitmap of a group marked INODE_UNINIT, one block long.
pub fn uninit_inode_bitmap(geometry: &Geometry) -> Vec<u8> {
    let mut bitmap = vec![0; usize_of(geometry.block_size())];
    set_bits(&mut bitmap, geometry.inodes_per_group, u32::MAX);
    bitmap
}

/// The part of a run that lies in a group, as blocks from the group's start: first and end.
fn part_in_group(
    geometry: &Geometry,
    group: GroupNr,
    start: BlockNr,
    len: u32,
) -> Option<(u32, u32)> {
    let group_start = geometry.group_first_block(group).0;
    let group_len = u64::from(geometry.blocks_in_group(group));
    let end = start.0.saturating_add(u64::from(len));
    let first = start.0.saturating_sub(group_start);
    let end = end.saturating_sub(group_start).min(group_len);
    (first < end).then_some((clamp_u32(first), clamp_u32(end)))
}

#[cfg(test)]
mod tests {
    use super::{clear_bits, copy_words, set_bits};

    #[test]
    fn cleared_bits_are_the_opposite_of_set_ones() {
        for (start, end) in [(0, 0), (3, 3), (3, 5), (0, 24), (7, 17), (8, 16), (20, 99)] {
            let (mut set, mut cleared) = ([0; 3], [0xFF; 3]);
            set_bits(&mut set, start, end);
            clear_bits(&mut cleared, start, end);
            assert_eq!(set.map(|byte: u8| !byte), cleared, "{start}..{end}");
        }
    }

    #[test]
    fn missing_bytes_of_words_are_in_use() {
        for len in 0..=24 {
            let bitmap: Vec<u8> = (1..=len).collect();
            let mut words = [0; 2];
            copy_words(&mut words, &bitmap);
            let byte = |at: usize| bitmap.get(at).copied().unwrap_or(0xFF);
            let expected =
                |word: usize| u64::from_le_bytes(std::array::from_fn(|i| byte(word * 8 + i)));
            assert_eq!(words, [expected(0), expected(1)], "{len} bytes");
        }
    }

    #[test]
    fn bits_are_set_from_start_to_end() {
        for start in 0..40 {
            for end in start..=40 {
                let mut bitmap = [0; 5];
                set_bits(&mut bitmap, start, end);
                for bit in 0..40u32 {
                    let set = bitmap[bit as usize / 8] & 1 << (bit % 8) != 0;
                    assert_eq!(set, (start..end).contains(&bit), "{bit} of {start}..{end}");
                }
            }
        }
        let mut bitmap = [0; 2];
        set_bits(&mut bitmap, 9, u32::MAX);
        assert_eq!(bitmap, [0, 0xFE]);
    }
}
