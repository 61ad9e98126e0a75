//! One block of a directory, as the directory remembers it.
//!
//! In a large directory nearly every name is in a block that is in no cache, and what a look for it
//! reads lies in three pieces of memory of which each leads to the next: the block, the rows of its
//! table, the counts of its bytes. So the directory remembers where all of them lay when somebody
//! looked last, and asks for them at once.
//!
//! Invariants: addresses are hints, good for nothing else; those that are past cost a fetch.
//! Locking: none; who notes has the block locked, shared at least.

use crate::meta::{BlockState, MetaBlock};
use std::sync::{Arc, Weak};
use uext4_device::prefetch;
use uext4_sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Bytes of rows that are asked for: those of a leaf of 4 KiB whose names have 32 characters.
const ROWS_BYTES: usize = 448;

/// See the module.
#[derive(Default)]
pub(super) struct KnownBlock {
    block: Weak<MetaBlock>,
    /// Addresses; zero is none.
    rows: AtomicUsize,
    counts: AtomicUsize,
}

impl KnownBlock {
    pub(super) fn of(block: &Arc<MetaBlock>) -> Self {
        Self {
            block: Arc::downgrade(block),
            ..Self::default()
        }
    }

    /// Asks for what a look for a name reads.
    pub(super) fn expect(&self) {
        MetaBlock::prefetch(&self.block);
        let rows = self.rows.load(Relaxed);
        if rows != 0 {
            prefetch(std::ptr::without_provenance(rows), ROWS_BYTES);
            prefetch(std::ptr::without_provenance(self.counts.load(Relaxed)), 1);
        }
    }

    /// The block, if it is in memory.
    pub(super) fn block(&self) -> Option<Arc<MetaBlock>> {
        let block = self.block.upgrade()?;
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
