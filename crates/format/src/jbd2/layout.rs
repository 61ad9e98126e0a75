//! The shape of descriptor, revoke and commit blocks, as determined by the feature words.

use super::HEADER_BYTES;
use crate::Tid;
use crate::bytes::{get_u32_be, put_u32_be, upto};
use crate::crc32c;

/// Checksum format of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksumKind {
    /// Blocks of the log have no checksums.
    None,
    /// One crc32 over the transaction, in the commit block.
    V1,
    /// crc32c in descriptor, revoke and commit blocks; 16 bits of it per image.
    V2,
    /// As `V2`, with all 32 bits per image.
    V3,
}

/// Bytes of the checksum at the end of descriptor and revoke blocks.
const TAIL_BYTES: usize = 4;

/// The shape of one journal's blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Bytes of a journal block (and of a file system block).
    pub block_size: usize,
    /// The checksum format of the blocks of the log.
    pub checksums: ChecksumKind,
    /// Block numbers have 64 bits.
    pub wide: bool,
    /// crc32c register after the journal's UUID.
    pub seed: u32,
}

impl Layout {
    /// A layout for a journal with this UUID.
    pub fn new(block_size: usize, checksums: ChecksumKind, wide: bool, uuid: &[u8; 16]) -> Self {
        Self {
            block_size,
            checksums,
            wide,
            seed: crc32c(!0, uuid),
        }
    }

    /// True when blocks carry crc32c sums.
    pub fn has_block_checksums(&self) -> bool {
        matches!(self.checksums, ChecksumKind::V2 | ChecksumKind::V3)
    }

    /// Bytes of one tag in a descriptor block, without the UUID that may follow it.
    pub fn tag_bytes(&self) -> usize {
        match (self.checksums, self.wide) {
            (ChecksumKind::V3, _) => 16,
            (ChecksumKind::V2, true) => 14,
            (ChecksumKind::V2, false) => 10,
            (_, true) => 12,
            (_, false) => 8,
        }
    }

    /// Bytes of one number in a revoke block.
    pub fn revoke_entry_bytes(&self) -> usize {
        if self.wide { 8 } else { 4 }
    }

    /// The end of the payload of descriptor and revoke blocks, in bytes.
    pub fn payload_end(&self) -> usize {
        if self.has_block_checksums() {
            self.block_size.saturating_sub(TAIL_BYTES)
        } else {
            self.block_size
        }
    }

    /// Images that one descriptor block written by uext4 can list.
    pub fn tags_per_descriptor(&self) -> usize {
        // The first tag is followed by the 16-byte UUID.
        let space = self.payload_end().saturating_sub(HEADER_BYTES + 16);
        space.checked_div(self.tag_bytes()).unwrap_or(0)
    }

    /// The checksum of an image as stored in the log; includes its transaction number.
    pub fn image_checksum(&self, sequence: Tid, stored: &[u8]) -> u32 {
        crc32c(crc32c(self.seed, &sequence.0.to_be_bytes()), stored)
    }

    /// Writes the checksum at the end of a descriptor or revoke block, if this journal has one.
    pub fn seal(&self, block: &mut [u8]) {
        if self.has_block_checksums() {
            let sum = self.tail_checksum(block);
            put_u32_be(block, self.payload_end(), sum);
        }
    }

    /// True if a descriptor or revoke block ends with the right checksum, or the journal has none.
    pub fn verify_seal(&self, block: &[u8]) -> bool {
        !self.has_block_checksums()
            || get_u32_be(block, self.payload_end()) == self.tail_checksum(block)
    }

    fn tail_checksum(&self, block: &[u8]) -> u32 {
        let payload = upto(block, self.payload_end());
        crc32c(crc32c(self.seed, payload), &[0; TAIL_BYTES])
    }
}
