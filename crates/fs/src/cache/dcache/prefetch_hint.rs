//! Prefetch hints: addresses of the parts of one directory block.
//!
//! In a large directory a lookup misses the CPU cache three times in a chain: the block, the rows
//! of its table, its byte counts. The hints hold all three addresses, so the loads overlap; four
//! blocks share a cache line of hints.
//!
//! Layout: an address is a distance in cache lines from the hint itself; 0 is none.
//! Invariants: addresses are used for prefetches only; a stale one costs a useless load.
//! Locking: none.

use crate::cache::meta::{BlockState, MetaBlock};
use uext4_device::{LINE_BYTES, prefetch};
use uext4_num::isize_of;
use uext4_sync::Arc;
use uext4_sync::atomic::{AtomicI32, Ordering::Relaxed};

/// Bytes of rows to prefetch: those of a 4 KiB leaf with names of 32 characters.
const ROWS_BYTES: usize = 448;

/// Hints of one block; see the module.
#[derive(Default)]
#[repr(align(16))]
pub(super) struct PrefetchHint {
    block: AtomicI32,
    rows: AtomicI32,
    counts: AtomicI32,
}

impl PrefetchHint {
    /// Sets the block's address and clears those of its parts.
    pub(super) fn put(&self, block: &Arc<MetaBlock>) {
        self.rows.store(0, Relaxed);
        self.counts.store(0, Relaxed);
        self.block
            .store(self.lines_to(MetaBlock::address(block)), Relaxed);
    }

    /// Sets the addresses of the parts of the block's `state`.
    pub(super) fn update(&self, state: &BlockState) {
        let (rows, counts) = state.addresses();
        self.rows.store(self.lines_to(rows), Relaxed);
        self.counts.store(self.lines_to(counts), Relaxed);
    }

    /// Prefetches what a search for a name reads.
    pub(super) fn prefetch(&self) {
        let [block, rows, counts] = self.addresses();
        if let Some(block) = block {
            MetaBlock::prefetch(block);
        }
        if let Some(rows) = rows {
            prefetch(std::ptr::without_provenance(rows), ROWS_BYTES);
        }
        if let Some(counts) = counts {
            prefetch(std::ptr::without_provenance(counts), 1);
        }
    }

    /// Lines of the block, its rows and its counts, where known.
    fn addresses(&self) -> [Option<usize>; 3] {
        [&self.block, &self.rows, &self.counts].map(|lines| self.address(lines))
    }

    fn line(&self) -> usize {
        std::ptr::from_ref(self).addr() / LINE_BYTES
    }

    /// 0 when the distance does not fit.
    fn lines_to(&self, address: usize) -> i32 {
        let lines = (address / LINE_BYTES).wrapping_sub(self.line());
        i32::try_from(lines.cast_signed()).unwrap_or(0)
    }

    /// The address of the line at this distance.
    fn address(&self, lines: &AtomicI32) -> Option<usize> {
        let lines = lines.load(Relaxed);
        let line = self.line().wrapping_add_signed(isize_of(lines));
        (lines != 0).then(|| line.wrapping_mul(LINE_BYTES))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_rig::Rig;
    use crate::types::attr::Caller;
    use crate::types::error::Error;
    use uext4_format::LogicalBlock;

    #[derive(Default)]
    #[repr(align(64))]
    struct OwnLine(PrefetchHint);

    #[test]
    fn an_address_is_kept_unless_it_is_far_away() {
        let place = PrefetchHint::default();
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
    }

    #[test]
    fn the_addresses_are_those_of_the_block_and_its_parts() {
        let rig = Rig::new(8, &[]);
        let root = rig.mounted.root().unwrap();
        // The search makes the table of the block's names.
        let answer = rig.mounted.lookup(&root, b"none", &Caller::root());
        assert!(matches!(answer, Err(Error::NotFound)));
        let block = root.dir_blocks().block(LogicalBlock(0));
        let block = block.expect("the search leaves it here");
        let line = |address: usize| Some(address / LINE_BYTES * LINE_BYTES);
        // On the heap, as in a directory: a stack is far away. In a line of its own, since a
        // distance of 0 is none.
        let hints = Box::<OwnLine>::default();
        let hints = &hints.0;
        let at = line(MetaBlock::address(&block));
        for _ in 0..2 {
            hints.put(&block);
            assert_eq!(hints.addresses(), [at, None, None]);
            let state = block.read();
            hints.update(&state);
            let (rows, counts) = state.addresses();
            assert_ne!(rows, 0, "the block has a table");
            assert_eq!(hints.addresses(), [at, line(rows), line(counts)]);
        }
    }
}
