//! Undo files (`E2UNDO02`): what blocks held before a change, for `e2undo`.
//!
//! Layout: blocks of [`BLOCK_BYTES`]. Block 0 is the header, block 1 a copy of the superblock, by
//! which the file is compared with the image. Then key blocks, each followed by the old contents
//! of the blocks that its keys name.
//! References: `e2undo(8)`.

use crate::bytes::{get_u32, get_u64, put_slice, put_u32, put_u64, upto};
use crate::crc32c;
use std::ops::Range;
use uext4_num::{clamp_u32, u64_of, usize_of};

/// Size of a block of a new file, and unit of its keys, in bytes.
pub const BLOCK_BYTES: usize = 4096;
/// Bytes of the superblock's magic number, which is inverted in the copy, so that the file is taken
/// for no file system.
pub const SUPERBLOCK_MAGIC: Range<usize> = 0x38..0x3A;
/// Bytes of the superblock's UUID.
pub const SUPERBLOCK_UUID: Range<usize> = 0x68..0x78;

const MAGIC: &[u8; 8] = b"E2UNDO02";
const KEY_MAGIC: u32 = 0xCADE_CADE;
/// The file is complete.
const FINISHED: u32 = 1;
/// The file says where the file system begins on its device.
const HAS_OFFSET: u32 = 1;
/// Size of the header in bytes.
pub const HEADER_BYTES: usize = 512;
/// A key block has a header of the size of a key.
pub const KEYS_PER_BLOCK: usize = BLOCK_BYTES / KEY_BYTES - 1;
const KEY_BYTES: usize = 16;
const HEADER_CHECKSUM_AT: usize = HEADER_BYTES - 4;

/// Block of the copy of the superblock.
pub const SUPERBLOCK_BLOCK: u64 = 1;
/// The first block of keys.
pub const FIRST_KEY_BLOCK: u64 = 2;

/// The fields of the header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Number of keys.
    pub n_keys: u64,
    /// Block of the copy of the superblock.
    pub superblock_block: u64,
    /// The first block of keys.
    pub first_key_block: u64,
    /// Size of a block of the file, in bytes.
    pub block_bytes: u32,
    /// Unit of the places of keys, in bytes.
    pub unit_bytes: u32,
    /// Checksum of the superblock after the changes.
    pub superblock_checksum: u32,
    /// The change came to its end.
    pub is_finished: bool,
    /// Where the file system begins on its device, in bytes.
    pub offset: u64,
}

/// A changed run: where it is, and its old contents' checksum and size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Start of the run, in units of the header.
    pub at: u64,
    /// Checksum of the old contents.
    pub checksum: u32,
    /// Length of the run in bytes.
    pub len_bytes: u32,
}

/// The register of crc32c after `bytes`, as ext4 stores checksums.
pub fn checksum(bytes: &[u8]) -> u32 {
    crc32c(!0, bytes)
}

impl Header {
    /// The bytes, with their checksum.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        put_slice(&mut bytes, 0, MAGIC);
        put_u64(&mut bytes, 8, self.n_keys);
        put_u64(&mut bytes, 16, self.superblock_block);
        put_u64(&mut bytes, 24, self.first_key_block);
        put_u32(&mut bytes, 32, self.block_bytes);
        put_u32(&mut bytes, 36, self.unit_bytes);
        put_u32(&mut bytes, 40, self.superblock_checksum);
        let state = if self.is_finished { FINISHED } else { 0 };
        put_u32(&mut bytes, 44, state);
        let compat = if self.offset == 0 { 0 } else { HAS_OFFSET };
        put_u32(&mut bytes, 48, compat);
        put_u64(&mut bytes, 64, self.offset);
        let sum = checksum(upto(&bytes, HEADER_CHECKSUM_AT));
        put_u32(&mut bytes, HEADER_CHECKSUM_AT, sum);
        bytes
    }

    /// The header; what is wrong with it otherwise.
    pub fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        if bytes.get(..MAGIC.len()) != Some(MAGIC) {
            return Err("it is no undo file");
        }
        let covered = upto(bytes, HEADER_CHECKSUM_AT);
        if get_u32(bytes, HEADER_CHECKSUM_AT) != checksum(covered) {
            return Err("the checksum of its header does not match");
        }
        if get_u32(bytes, 52) != 0 || get_u32(bytes, 56) != 0 {
            return Err("it has features that are not known");
        }
        let (block_bytes, unit_bytes) = (get_u32(bytes, 32), get_u32(bytes, 36));
        let is_size = |size: u32| size.is_power_of_two() && (512..=1 << 20).contains(&size);
        if !is_size(block_bytes) || block_bytes < 1024 || !is_size(unit_bytes) {
            return Err("its block size is wrong");
        }
        let has_offset = get_u32(bytes, 48) & HAS_OFFSET != 0;
        Ok(Self {
            n_keys: get_u64(bytes, 8),
            superblock_block: get_u64(bytes, 16),
            first_key_block: get_u64(bytes, 24),
            block_bytes,
            unit_bytes,
            superblock_checksum: get_u32(bytes, 40),
            is_finished: get_u32(bytes, 44) & FINISHED != 0,
            offset: if has_offset { get_u64(bytes, 64) } else { 0 },
        })
    }
}

/// A block of keys.
pub fn encode_keys(keys: &[Key]) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK_BYTES];
    put_u32(&mut bytes, 0, KEY_MAGIC);
    let slots = bytes.chunks_exact_mut(KEY_BYTES).skip(1);
    for (slot, key) in slots.zip(keys) {
        put_u64(slot, 0, key.at);
        put_u32(slot, 8, key.checksum);
        put_u32(slot, 12, key.len_bytes);
    }
    let sum = checksum(&bytes);
    put_u32(&mut bytes, 4, sum);
    bytes
}

/// The first `count` keys of a block; what is wrong with it otherwise.
pub fn decode_keys(mut bytes: Vec<u8>, count: usize) -> Result<Vec<Key>, &'static str> {
    if get_u32(&bytes, 0) != KEY_MAGIC {
        return Err("a block of keys has another magic number");
    }
    let stored = get_u32(&bytes, 4);
    put_u32(&mut bytes, 4, 0);
    if stored != checksum(&bytes) {
        return Err("the checksum of a block of keys does not match");
    }
    let slots = bytes.chunks_exact(KEY_BYTES).skip(1).take(count);
    let keys = slots.map(|slot| Key {
        at: get_u64(slot, 0),
        checksum: get_u32(slot, 8),
        len_bytes: get_u32(slot, 12),
    });
    Ok(keys.collect())
}

/// Keys of a block of this size.
pub fn keys_per_block(block_bytes: u32) -> u64 {
    u64_of(usize_of(block_bytes) / KEY_BYTES).saturating_sub(1)
}

/// A key for the old contents of the block at `at`.
pub fn key_of(at: u64, contents: &[u8]) -> Key {
    Key {
        at,
        checksum: checksum(contents),
        len_bytes: clamp_u32(contents.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_and_keys_are_read_as_they_were_written() {
        let header = Header {
            n_keys: 7,
            superblock_block: SUPERBLOCK_BLOCK,
            first_key_block: FIRST_KEY_BLOCK,
            block_bytes: 4096,
            unit_bytes: 4096,
            superblock_checksum: 0x1234_5678,
            is_finished: true,
            offset: 1 << 20,
        };
        let mut bytes = header.encode();
        assert_eq!(Header::decode(&bytes), Ok(header));
        bytes[9] ^= 1;
        assert!(Header::decode(&bytes).is_err());
        let keys = [key_of(9, b"old"), key_of(4, b"older")];
        let mut block = encode_keys(&keys);
        assert_eq!(decode_keys(block.clone(), 2), Ok(keys.to_vec()));
        block[20] ^= 1;
        assert!(decode_keys(block, 2).is_err());
    }
}
