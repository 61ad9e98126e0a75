//! Hashes of entries and of blocks, for the search for equal blocks.

use crate::bytes::put_slice;

/// The hash of an entry in a block whose value is in the same block.
pub fn entry_hash(name: &[u8], value: &[u8]) -> u32 {
    with_value(name_hash(name), value)
}

/// As [`entry_hash`], as computed by kernels with a signed `char`: bytes of the name from 0x80 on
/// are negative.
pub(super) fn signed_entry_hash(name: &[u8], value: &[u8]) -> u32 {
    with_value(signed_name_hash(name), value)
}

fn with_value(name_hash: u32, value: &[u8]) -> u32 {
    let (words, last) = value.as_chunks();
    let hash = words.iter().fold(name_hash, |hash, word| {
        mix_word(hash, u32::from_le_bytes(*word))
    });
    if last.is_empty() {
        return hash;
    }
    let mut word = [0; 4];
    put_slice(&mut word, 0, last);
    mix_word(hash, u32::from_le_bytes(word))
}

/// The hash of an entry whose value is in an inode; `value_hash` is stored in that inode.
pub fn entry_hash_of_inode(name: &[u8], value_hash: u32) -> u32 {
    mix_word(name_hash(name), value_hash)
}

/// As [`entry_hash_of_inode`], as computed by kernels with a signed `char`.
pub fn signed_entry_hash_of_inode(name: &[u8], value_hash: u32) -> u32 {
    mix_word(signed_name_hash(name), value_hash)
}

/// The hash of a block with these entry hashes, in their order. If an entry has no hash it is 0:
/// never shared.
pub fn block_hash(entries: impl IntoIterator<Item = u32>) -> u32 {
    let mut hash = 0;
    for entry in entries {
        if entry == 0 {
            return 0;
        }
        hash = mix_word(hash, entry);
    }
    hash
}

fn name_hash(name: &[u8]) -> u32 {
    name.iter()
        .fold(0_u32, |hash, &byte| hash.rotate_left(5) ^ u32::from(byte))
}

fn signed_name_hash(name: &[u8]) -> u32 {
    name.iter().fold(0, |hash, &byte| {
        hash.rotate_left(5) ^ i32::from(byte.cast_signed()).cast_unsigned()
    })
}

fn mix_word(hash: u32, word: u32) -> u32 {
    hash.rotate_left(16) ^ word
}
