//! Where the parts of one block of a directory lay when somebody looked last.
//!
//! In a large directory nearly every name is in a block that is in no cache, and what a look for it
//! reads lies in three pieces of memory of which each leads to the next: the block, the rows of its
//! table, the counts of its bytes. So the directory remembers where all of them lay, and asks for
//! them at once; of itself it reads a cache line that four blocks have together.
//!
//! Layout: a part is so many cache lines from here; 0 is none.
//! Invariants: these are hints, good for nothing else; those that are past cost a fetch.
//! Locking: none.

use crate::meta::{BlockState, MetaBlock};
use std::sync::Arc;
use uext4_device::{LINE_BYTES, prefetch};
use uext4_sync::atomic::{AtomicI32, Ordering::Relaxed};

/// Bytes of rows that are asked for: those of a leaf of 4 KiB whose names have 32 characters.
const ROWS_BYTES: usize = 448;

/// See the module.
#[derive(Default)]
#[repr(align(16))]
pub(super) struct Whereabouts {
    block: AtomicI32,
    rows: AtomicI32,
    counts: AtomicI32,
}

impl Whereabouts {
    /// The block lies where this one does. Nothing is known of its parts.
    pub(super) fn put(&self, block: &Arc<MetaBlock>) {
        self.rows.store(0, Relaxed);
        self.counts.store(0, Relaxed);
        self.block
            .store(self.lines_to(MetaBlock::address(block)), Relaxed);
    }

    /// Keeps where `state`, that of the block, lies.
    pub(super) fn note(&self, state: &BlockState) {
        let (rows, counts) = state.addresses();
        self.rows.store(self.lines_to(rows), Relaxed);
        self.counts.store(self.lines_to(counts), Relaxed);
    }

    /// Asks for what a look for a name reads.
    pub(super) fn expect(&self) {
        if let Some(block) = self.address(&self.block) {
            MetaBlock::prefetch(block);
        }
        if let Some(rows) = self.address(&self.rows) {
            prefetch(std::ptr::without_provenance(rows), ROWS_BYTES);
        }
        if let Some(counts) = self.address(&self.counts) {
            prefetch(std::ptr::without_provenance(counts), 1);
        }
    }

    fn line(&self) -> usize {
        std::ptr::from_ref(self).addr() / LINE_BYTES
    }

    /// None when it is too far away.
    fn lines_to(&self, address: usize) -> i32 {
        let lines = (address / LINE_BYTES).wrapping_sub(self.line());
        i32::try_from(lines.cast_signed()).unwrap_or(0)
    }

    /// What [`Self::lines_to`] kept: where the line begins.
    fn address(&self, lines: &AtomicI32) -> Option<usize> {
        let lines = lines.load(Relaxed);
        let line = self.line().wrapping_add_signed(lines as isize);
        (lines != 0).then(|| line.wrapping_mul(LINE_BYTES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_where_it_was_unless_that_is_far_away() {
        let place = Whereabouts::default();
        assert_eq!(place.address(&place.rows), None);
        let here = std::ptr::from_ref(&place).addr() / LINE_BYTES * LINE_BYTES;
        for (distance, is_known) in [
            (64, true),
            (1 << 36, true),
            (-(1 << 36), true),
            (1 << 40, false),
            (-(1 << 40), false),
            (0, false),
        ] {
            let part = here.wrapping_add_signed(distance);
            place.rows.store(place.lines_to(part + 63), Relaxed);
            assert_eq!(place.address(&place.rows), is_known.then_some(part));
        }
        place.expect();
    }
}
