//! The plain crc32 of old commit blocks. (The rest is [`crate::crc32c`].)

use crc_fast::{CrcAlgorithm, Digest};
use uext4_num::low_u32;

/// The checksum over a whole transaction that old commit blocks carry (feature `checksum`, "v1"):
/// crc32, most significant bit first, started with ones, over descriptors and images as stored.
pub struct TransactionChecksum(Digest);

impl TransactionChecksum {
    /// The state before the first byte.
    pub fn new() -> Self {
        Self(Digest::new(CrcAlgorithm::Crc32Mpeg2))
    }
    /// Adds one journal block.
    pub fn update(&mut self, block: &[u8]) {
        self.0.update(block);
    }
    /// The checksum of all blocks added so far.
    pub fn value(&self) -> u32 {
        low_u32(self.0.finalize())
    }
}

impl Default for TransactionChecksum {
    fn default() -> Self {
        Self::new()
    }
}
