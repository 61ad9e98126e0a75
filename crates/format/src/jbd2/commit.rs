//! Commit blocks: the end of a transaction.
//!
//! Layout: header, checksum type (byte 12) and size (13), eight checksum words from 16, time of
//! the commit as 64-bit seconds at 48 and nanoseconds at 56. With v2 or v3 the first checksum word
//! is the crc32c of the block with type, size and that word zero.

use super::layout::Layout;
use super::{BlockType, Header};
use crate::Tid;
use crate::bytes::{get_u8, get_u32_be, get_u64_be, put_u32_be, put_u64_be};
use crate::crc32c;

const CHECKSUM_TYPE: usize = 12;
const CHECKSUM_SIZE: usize = 13;
const CHECKSUM: usize = 16;
const SECONDS: usize = 48;
const NANOSECONDS: usize = 56;
const FIELDS_BYTES: usize = 60;
/// Type and size that a v1 commit block gives for its crc32.
const CRC32_TYPE: u8 = 1;
const CRC32_SIZE: u8 = 4;

/// The fields of a commit block, which ends a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitBlock {
    /// Kind of the v1 checksum; 0 when absent and with v2/v3.
    pub checksum_type: u8,
    /// Bytes of the v1 checksum.
    pub checksum_size: u8,
    /// The checksum of the whole transaction, for `ChecksumKind::V1`.
    pub checksum: u32,
    /// Time of the commit, seconds since 1970.
    pub seconds: u64,
    /// Nanoseconds of that time.
    pub nanoseconds: u32,
}

impl CommitBlock {
    /// Reads a block whose header marks it as a commit block.
    pub fn parse(block: &[u8]) -> CommitBlock {
        CommitBlock {
            checksum_type: get_u8(block, CHECKSUM_TYPE),
            checksum_size: get_u8(block, CHECKSUM_SIZE),
            checksum: get_u32_be(block, CHECKSUM),
            seconds: get_u64_be(block, SECONDS),
            nanoseconds: get_u32_be(block, NANOSECONDS),
        }
    }

    /// A commit block of transaction `sequence`, with its checksum when the journal has crc32c.
    pub fn encode(layout: &Layout, sequence: Tid, seconds: u64, nanoseconds: u32) -> Vec<u8> {
        let mut block = vec![0; layout.block_size];
        Header {
            block_type: BlockType::Commit,
            sequence,
        }
        .write(&mut block);
        put_u64_be(&mut block, SECONDS, seconds);
        put_u32_be(&mut block, NANOSECONDS, nanoseconds);
        if layout.has_block_checksums() {
            let sum = crc32c(layout.seed, &block);
            put_u32_be(&mut block, CHECKSUM, sum);
        }
        block
    }

    /// True when the crc32c of a v2 or v3 commit block is right, or the journal has none.
    ///
    /// As in Linux, a block of which only the fields were written passes: the rest counts as zero,
    /// whatever the previous cycle of the log left there.
    pub fn verify(layout: &Layout, block: &[u8]) -> bool {
        if !layout.has_block_checksums() {
            return true;
        }
        let (Some(head), Some(rest)) = (block.get(..CHECKSUM), block.get(CHECKSUM + 4..)) else {
            return false;
        };
        let upto = crc32c(crc32c(layout.seed, head), &[0; 4]);
        let is_right = |rest| crc32c(upto, rest) == get_u32_be(block, CHECKSUM);
        is_right(rest) || is_right(&fields_alone(rest))
    }

    /// True when a v1 commit block carries `sum`, or no checksum at all.
    pub fn matches_v1(&self, sum: u32) -> bool {
        let absent = self.checksum_type == 0 && self.checksum_size == 0 && self.checksum == 0;
        let right = self.checksum_type == CRC32_TYPE
            && self.checksum_size == CRC32_SIZE
            && self.checksum == sum;
        absent || right
    }
}

/// `rest` of a commit block, after the first checksum word, with zeros after its last field.
fn fields_alone(rest: &[u8]) -> Vec<u8> {
    let mut alone = rest.to_vec();
    if let Some(behind) = alone.get_mut(FIELDS_BYTES - CHECKSUM - 4..) {
        behind.fill(0);
    }
    alone
}
