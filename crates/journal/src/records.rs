//! Records of the committed transactions in the log, with reference counts of pending blocks.
//!
//! Invariants: records are of consecutive transactions, oldest first. `pending[i]` counts the
//! blocks whose newest image is of record i's transaction. A newer image, a home write and a revoke
//! each decrement it, so no list is scanned. The counters are an array indexed by transaction
//! number, small enough for the L1 cache.

use crate::config::Tracking;
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

    /// The baseline of [`Self::retire`]: drops the blocks of each record whose newest image, by
    /// `owner`, is another transaction's or at home, and counts the others.
    pub(crate) fn scan(&mut self, owner: impl Fn(BlockNr) -> Option<Tid>) {
        for (record, pending) in self.records.iter_mut().zip(&mut self.pending) {
            record
                .blocks
                .retain(|block| owner(*block) == Some(record.tid));
            *pending = clamp_u32(record.blocks.len());
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

    /// Takes the blocks of that record if any is pending; returns their number. Scanned records
    /// keep them.
    pub(crate) fn take_next(&mut self, wanted: &mut Vec<Wanted>, tracking: Tracking) -> usize {
        let Some(record) = self.records.get_mut(self.taken) else {
            return 0;
        };
        self.taken += 1;
        if self.pending[self.taken - 1] == 0 {
            return 0;
        }
        let blocks = match tracking {
            Tracking::Counted => std::mem::take(&mut record.blocks),
            Tracking::Scanned => record.blocks.clone(),
        };
        wanted.extend(blocks.iter().map(|block| (*block, record.tid)));
        blocks.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Image;
    use std::collections::BTreeMap;
    use uext4_sync::Rng;

    /// Transactions of few blocks, some of which a checkpoint then takes.
    #[test]
    fn scanned_records_know_what_counted_ones_do() {
        let (mut counted, mut scanned) = (Records::default(), Records::default());
        let (mut newest, mut rng) = (BTreeMap::new(), Rng::new(11));
        let image = Image::from([0].as_slice());
        for tid in (1..400).map(Tid) {
            let blocks: Vec<_> = (0..60).filter(|_| rng.chance(1, 6)).map(BlockNr).collect();
            let replaced = blocks.iter().filter_map(|block| newest.insert(*block, tid));
            let mut retired: Vec<Entry> = replaced.map(|owner| (image.clone(), owner)).collect();
            counted.push(tid, tid.0, blocks.clone());
            scanned.push(tid, tid.0, blocks);
            if rng.chance(1, 3) {
                let (mut due, mut same) = (Vec::new(), Vec::new());
                counted.take_next(&mut due, Tracking::Counted);
                scanned.take_next(&mut same, Tracking::Scanned);
                due.retain(|(block, owner)| newest.get(block) == Some(owner));
                same.retain(|(block, owner)| newest.get(block) == Some(owner));
                assert_eq!(due, same, "{tid:?}");
                due.iter().for_each(|(block, _)| _ = newest.remove(block));
                retired.extend(due.iter().map(|(_, owner)| (image.clone(), *owner)));
            }
            counted.retire(retired.iter());
            scanned.scan(|block| newest.get(&block).copied());
            assert_eq!(counted.pending, scanned.pending, "{tid:?}");
            let listed: usize = scanned.records.iter().map(|one| one.blocks.len()).sum();
            assert_eq!(listed, newest.len(), "scanning drops the others");
            counted.forget(counted.done());
            scanned.forget(scanned.done());
        }
    }
}
