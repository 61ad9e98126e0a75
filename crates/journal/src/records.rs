//! The committed transactions that the log holds, and how many blocks each still has to bring home.
//!
//! Invariants: records are of consecutive transactions, oldest first. `pending` counts, by record,
//! the blocks whose newest image is of its transaction. A newer image, a home write and a revoke
//! each take one away, so nothing is ever scanned. The counters lie side by side: to find one is a
//! subtraction, and those of a long log fit into the nearest cache.

use crate::images::Wanted;
use crate::newest::Entry;
use std::collections::VecDeque;
use uext4_format::{BlockNr, Tid};

/// A committed transaction that the log still holds.
pub(crate) struct Record {
    pub(crate) tid: Tid,
    /// Its first block in the log.
    pub(crate) log_start: u32,
    /// Blocks it wrote, ascending, until a checkpoint takes them. A list of its own, because a
    /// common one would be copied when it grows.
    blocks: Vec<BlockNr>,
}

/// Oldest first.
#[derive(Default)]
pub(crate) struct Records {
    records: VecDeque<Record>,
    pending: VecDeque<u32>,
    /// So many of the oldest gave their blocks to a checkpoint, or had none to give.
    taken: usize,
}

impl Records {
    /// A transaction is durable, and all its images are the newest of their blocks.
    pub(crate) fn push(&mut self, tid: Tid, log_start: u32, blocks: Vec<BlockNr>) {
        let last = self.records.back();
        debug_assert!(
            last.is_none_or(|last| last.tid.next() == tid),
            "transactions follow each other"
        );
        self.pending.push_back(blocks.len() as u32);
        self.records.push_back(Record {
            tid,
            log_start,
            blocks,
        });
    }

    /// These images no longer wait.
    pub(crate) fn retire<'a>(&mut self, retired: impl Iterator<Item = &'a Entry>) {
        let oldest = self.records.front().map(|record| record.tid);
        for (_, owner) in retired {
            let oldest = oldest.expect("what waits belongs to a record");
            self.pending[owner.0.wrapping_sub(oldest.0) as usize] -= 1;
        }
    }

    /// Nothing of the oldest one waits.
    pub(crate) fn is_oldest_done(&self) -> bool {
        self.pending.front() == Some(&0)
    }

    /// The oldest ones of which nothing waits, counted.
    pub(crate) fn done(&self) -> usize {
        self.pending.iter().take_while(|left| **left == 0).count()
    }

    /// Forgets the `count` oldest ones.
    pub(crate) fn forget(&mut self, count: usize) {
        self.records.drain(..count);
        self.pending.drain(..count);
        self.taken = self.taken.saturating_sub(count);
    }

    pub(crate) fn get(&self, nr: usize) -> Option<&Record> {
        self.records.get(nr)
    }

    /// Where the oldest one starts that [`Self::take_next`] did not have yet.
    pub(crate) fn next_start(&self) -> Option<u32> {
        self.get(self.taken).map(|record| record.log_start)
    }

    /// Takes the blocks of that one, if any of them waits; answers how many.
    pub(crate) fn take_next(&mut self, wanted: &mut Vec<Wanted>) -> usize {
        let Some(record) = self.records.get_mut(self.taken) else {
            return 0;
        };
        self.taken += 1;
        if self.pending[self.taken - 1] == 0 {
            return 0;
        }
        let blocks = std::mem::take(&mut record.blocks);
        wanted.extend(blocks.iter().map(|block| (*block, record.tid)));
        blocks.len()
    }
}
