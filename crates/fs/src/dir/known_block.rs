//! One block of a directory, as the directory remembers it.
//!
//! In a large directory nearly every name is in a block that is in no cache, and what a look for it
//! reads lies in three pieces of memory of which each leads to the next: the block, the rows of its
//! table, the counts of its bytes. So the directory remembers where all of them lay when somebody
//! looked last, and asks for them at once.
//!
//! Invariants: addresses are hints, good for nothing else; those that are past cost a fetch.
//! Locking: `Rank::CacheShard` for the block itself, which is one step; none for the addresses: who
//! notes has the block locked, shared at least.

use crate::meta::{BlockState, MetaBlock};
use std::sync::{Arc, Weak};
use uext4_device::prefetch;
use uext4_sync::atomic::{AtomicUsize, Ordering::Relaxed};
use uext4_sync::{Mutex, Rank};

/// Bytes of rows that are asked for: those of a leaf of 4 KiB whose names have 32 characters.
const ROWS_BYTES: usize = 448;

/// See the module. A cache line.
#[repr(align(64))]
pub(super) struct KnownBlock {
    block: Mutex<Weak<MetaBlock>>,
    /// Addresses; zero is none.
    counted: AtomicUsize,
    rows: AtomicUsize,
    counts: AtomicUsize,
}

impl Default for KnownBlock {
    fn default() -> Self {
        Self {
            block: Mutex::new(Rank::CacheShard, Weak::new()),
            counted: AtomicUsize::new(0),
            rows: AtomicUsize::new(0),
            counts: AtomicUsize::new(0),
        }
    }
}

impl KnownBlock {
    /// It is this block.
    pub(super) fn put(&self, block: &Arc<MetaBlock>) {
        self.be(Arc::downgrade(block));
    }

    /// Nothing is known of it.
    pub(super) fn clear(&self) {
        self.be(Weak::new());
    }

    fn be(&self, block: Weak<MetaBlock>) {
        self.rows.store(0, Relaxed);
        self.counted.store(block.as_ptr().addr(), Relaxed);
        *self.block.lock() = block;
    }

    /// Asks for what a look for a name reads.
    pub(super) fn expect(&self) {
        MetaBlock::prefetch(self.counted.load(Relaxed));
        let rows = self.rows.load(Relaxed);
        if rows != 0 {
            prefetch(std::ptr::without_provenance(rows), ROWS_BYTES);
            prefetch(std::ptr::without_provenance(self.counts.load(Relaxed)), 1);
        }
    }

    /// The block, if it is in memory.
    pub(super) fn block(&self) -> Option<Arc<MetaBlock>> {
        let block = self.block.lock().upgrade()?;
        block.note_use();
        (!block.is_gone()).then_some(block)
    }

    /// Keeps where `state`, that of the block, lies.
    pub(super) fn note(&self, state: &BlockState) {
        let (rows, counts) = state.addresses();
        self.rows.store(rows, Relaxed);
        self.counts.store(counts, Relaxed);
    }
}
