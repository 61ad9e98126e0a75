//! Checksums of bytes that are not parsed, because a tool has put any value into them.

use crate::bytes::{
    get_u8, get_u16, get_u32, get_u32_be, part, put_u16, put_u32, put_u32_be, rest,
};
use crate::checksum::{Checksums, Seed};
use crate::jbd2::{INCOMPAT_CSUM_V2, INCOMPAT_CSUM_V3, SUPERBLOCK_BYTES};
use crate::{Feature, GOOD_OLD_INODE_BYTES, InodeNr, crc32c};
use uext4_num::{high_u16, low_u16};

const INODE_LOW_AT: usize = 0x7C;
const INODE_HIGH_AT: usize = 0x82;
/// Checksum of the superblock and of multiple mount protection.
const END_CHECKSUM_AT: usize = 0x3FC;
const JOURNAL_FEATURES_AT: usize = 40;
const JOURNAL_TYPE_AT: usize = 80;
const JOURNAL_CHECKSUM_AT: usize = 252;
/// Type of checksum that means crc32c.
const CRC32C: u8 = 4;

/// Writes the checksum of an inode into all its bytes, if the file system has checksums.
pub fn seal_inode(bytes: &mut [u8], nr: InodeNr, checksums: &Checksums) {
    let Some(seed) = checksums.metadata else {
        return;
    };
    let is_large = bytes.len() > GOOD_OLD_INODE_BYTES;
    let extra = usize::from(if is_large { get_u16(bytes, 0x80) } else { 0 });
    let has_high = GOOD_OLD_INODE_BYTES.saturating_add(extra) >= INODE_HIGH_AT + 2;
    put_u16(bytes, INODE_LOW_AT, 0);
    if has_high {
        put_u16(bytes, INODE_HIGH_AT, 0);
    }
    let seed = seed.inode(nr, get_u32(bytes, 0x64));
    let value = seed.update(bytes).value();
    put_u16(bytes, INODE_LOW_AT, low_u16(value));
    if has_high {
        put_u16(bytes, INODE_HIGH_AT, high_u16(value));
    }
}

/// Writes the checksum of a superblock into its bytes, if its features ask for one.
pub fn seal_superblock(bytes: &mut [u8]) {
    let has_checksum = get_u32(bytes, 0x64) & Feature::METADATA_CSUM.bit != 0;
    if has_checksum {
        seal_end(bytes, Seed::ONES);
    }
}

/// Writes the checksum of multiple mount protection, if the file system has checksums.
pub fn seal_mmp(bytes: &mut [u8], checksums: &Checksums) {
    if let Some(seed) = checksums.metadata {
        seal_end(bytes, seed);
    }
}

/// Writes a checksum that covers all bytes before it.
fn seal_end(bytes: &mut [u8], seed: Seed) {
    let sum = seed.update(part(bytes, 0..END_CHECKSUM_AT)).value();
    put_u32(bytes, END_CHECKSUM_AT, sum);
}

/// Writes the checksum of a journal's superblock into its bytes, if its features ask for one.
pub fn seal_journal(bytes: &mut [u8]) {
    let features = get_u32_be(bytes, JOURNAL_FEATURES_AT);
    let has_checksum = features & (INCOMPAT_CSUM_V2 | INCOMPAT_CSUM_V3) != 0;
    if !has_checksum || get_u8(bytes, JOURNAL_TYPE_AT) != CRC32C {
        return;
    }
    let raw = part(bytes, 0..SUPERBLOCK_BYTES);
    let head = crc32c(!0, part(raw, 0..JOURNAL_CHECKSUM_AT));
    let sum = crc32c(crc32c(head, &[0; 4]), rest(raw, JOURNAL_CHECKSUM_AT + 4));
    put_u32_be(bytes, JOURNAL_CHECKSUM_AT, sum);
}
