//! Records of the committed transactions in the log, with reference counts of pending blocks.
//!
//! Invariants: records are of consecutive transactions, oldest first. `pending[i]` counts the
//! blocks whose newest image is of record i's transaction. A newer image, a home write and a revoke
//! each decrement it, so no list is scanned. The counters are an array indexed by transaction
//! number, small enough for the L1 cache.

use crate::images::Wanted;
use crate::newest::Entry;
use std::collections::VecDeque;
use uext4_format::{BlockNr, Tid};
use uext4_num::{clamp_u32, usize_of};

/// A committed transaction that the log still holds.
pub(crate) struct Record {
    pub(crate) tid: Tid,
    /// Its first block in the log.
    pub(crate) log_start: u32,
    /// Blocks it wrote, ascending, until a checkpoint takes them. One list per record: a common
    /// list would be copied when it grows.
    blocks: Vec<BlockNr>,
}

/// Queue of records, oldest first.
#[derive(Default)]
pub(crate) struct Records {
    records: VecDeque<Record>,
    pending: VecDeque<u32>,
    /// Number of oldest records whose blocks a checkpoint took, or that had none to take.
    taken: usize,
}

impl Records {
    /// Adds a durable transaction; all its images are the newest of their blocks.
    pub(crate) fn push(&mut self, tid: Tid, log_start: u32, blocks: Vec<BlockNr>) {
        let last = self.records.back();
        debug_assert!(
            last.is_none_or(|last| last.tid.next() == tid),
            "transactions follow each other"
        );
        self.pending.push_back(clamp_u32(blocks.len()));
        self.records.push_back(Record {
            tid,
            log_start,
            blocks,
        });
    }

    /// Decrements the counters of these images' transactions.
    pub(crate) fn retire<'a>(&mut self, retired: impl Iterator<Item = &'a Entry>) {
        let oldest = self.records.front().map(|record| record.tid);
        for (_, owner) in retired {
            let oldest = oldest.expect("what waits belongs to a record");
            self.pending[usize_of(owner.0.wrapping_sub(oldest.0))] -= 1;
        }
    }

    /// Whether the oldest record has no pending block.
    pub(crate) fn is_oldest_done(&self) -> bool {
        self.pending.front() == Some(&0)
    }

    /// Number of oldest records without a pending block.
    pub(crate) fn done(&self) -> usize {
        self.pending.iter().take_while(|left| **left == 0).count()
    }

    /// Removes the `count` oldest records.
    pub(crate) fn forget(&mut self, count: usize) {
        self.records.drain(..count);
        self.pending.drain(..count);
        self.taken = self.taken.saturating_sub(count);
    }

    pub(crate) fn get(&self, nr: usize) -> Option<&Record> {
        self.records.get(nr)
    }

    /// First log block of the oldest record that [`Self::take_next`] has not taken yet.
    pub(crate) fn next_start(&self) -> Option<u32> {
        self.get(self.taken).map(|record| record.log_start)
    }

    /// Takes the blocks of that record if any is pending; answers their number.
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
