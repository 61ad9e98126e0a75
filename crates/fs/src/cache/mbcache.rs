//! Index of shareable attribute blocks by content hash (mbcache).
//!
//! Layout: a table of words, each a block number and a part of its hash; a new block replaces the
//! word of its slot. The words are hints: the user compares the bytes.

use uext4_format::BlockNr;
use uext4_num::usize_of;
use uext4_sync::atomic::{AtomicU64, Ordering};

const SLOTS: usize = 1024;
const BLOCK_BITS: u32 = 48;

/// Last known blocks by hash.
pub(crate) struct SharedBlocks {
    slots: Box<[AtomicU64]>,
}

impl Default for SharedBlocks {
    fn default() -> Self {
        Self {
            slots: (0..SLOTS).map(|_| AtomicU64::new(0)).collect(),
        }
    }
}

impl SharedBlocks {
    fn slot(&self, hash: u32) -> &AtomicU64 {
        let mixed = hash.wrapping_mul(0x9E37_79B1);
        &self.slots[usize_of(mixed) >> 22 & (SLOTS - 1)]
    }

    fn word(hash: u32, nr: BlockNr) -> u64 {
        u64::from(hash & 0xFFFF) << BLOCK_BITS | nr.0
    }

    /// Records that `nr` has content with `hash`.
    pub(crate) fn insert(&self, hash: u32, nr: BlockNr) {
        if hash != 0 {
            self.slot(hash)
                .store(Self::word(hash, nr), Ordering::Relaxed);
        }
    }

    /// A block that may have content with `hash`.
    pub(crate) fn candidate(&self, hash: u32) -> Option<BlockNr> {
        let word = self.slot(hash).load(Ordering::Relaxed);
        let nr = BlockNr(word & ((1 << BLOCK_BITS) - 1));
        (hash != 0 && nr.0 != 0 && Self::word(hash, nr) == word).then_some(nr)
    }
}
