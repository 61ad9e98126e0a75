//! How much may wait, and who makes room.
//!
//! Beyond half the bound the thread writes out what has waited longest, so that writers seldom meet
//! the bound. Beyond the bound each writer makes room for somewhat more than it brought, and goes
//! on: nobody waits for more than a few steps, whatever the file has. Between two steps a file is
//! free for others.
//! Locking: no lock is held by the callers.

use super::Pool;
use crate::inode::Inode;
use crate::{Fs, Result, file};
use std::sync::Arc;

/// What a background step of one file holds it for.
const STEP_BYTES: u64 = 8 << 20;
/// What a writer makes room for at least.
const ROOM_BYTES_MIN: u64 = 256 << 10;

/// How far to write out without being asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// What is old, and the oldest while more than half the bound waits.
    Usual,
    /// Also half of everything else: memory is short.
    Relief,
}

impl Fs {
    /// After a write of so many bytes, when more waits than should.
    pub(crate) fn balance_delayed(&self, written_bytes: u64) {
        if !self.delayed.is_crowded() {
            return;
        }
        if !self.flusher.hurry() || self.delayed.is_over() {
            self.make_room(written_bytes);
        }
    }

    fn make_room(&self, written_bytes: u64) {
        let mut left = (2 * written_bytes).max(ROOM_BYTES_MIN);
        while left > 0 && self.delayed.is_over() {
            match self.step_oldest(left.min(STEP_BYTES)) {
                Some(Ok(done)) if done > 0 => left = left.saturating_sub(done),
                _ => return,
            }
        }
    }

    /// One step of the file that has waited longest, and how many bytes it was; `None` when there
    /// is none for us.
    fn step_oldest(&self, step_bytes: u64) -> Option<Result<u64>> {
        let (since, inode) = self.delayed.claim_oldest()?;
        let blocks = step_bytes.div_ceil(self.block_size() as u64);
        let written = file::write_out_some(self, &inode, blocks);
        self.delayed.done(inode.nr(), since);
        self.discard_unused(&inode);
        // The file keeps the error for its fsync.
        Some(
            self.note(written)
                .map(|blocks| blocks << self.geometry.block_bits),
        )
    }

    /// What the thread does when it wakes.
    pub(crate) fn write_out_by_itself(&self, reach: Reach) {
        // What lost its last user is not worth writing.
        self.reap_by_the_way();
        self.write_out_old();
        let keep_bytes = match reach {
            Reach::Usual => self.delayed.crowded_bytes(),
            Reach::Relief => self.delayed.bytes() / 2,
        };
        while self.delayed.bytes() > keep_bytes {
            // Who stops changes writes out everything.
            let Some(_pass) = self.changes.try_enter() else {
                return;
            };
            if self.writable().is_err() || !matches!(self.step_oldest(STEP_BYTES), Some(Ok(1..))) {
                return;
            }
        }
    }

    fn write_out_old(&self) {
        let now = self.clock.monotonic();
        let before = now.saturating_sub(self.delayed.expire());
        for inode in self.delayed.older_than(before.as_nanos() as u64) {
            if !self.write_out_waiting(&inode) {
                return;
            }
        }
    }

    /// Writes out as much as waits of the file now, in steps; what comes meanwhile is young. False
    /// when changes have stopped.
    fn write_out_waiting(&self, inode: &Arc<Inode>) -> bool {
        let step = STEP_BYTES / self.block_size() as u64;
        let mut left = inode.delayed_blocks();
        while left > 0 {
            let Some(_pass) = self.changes.try_enter() else {
                return false;
            };
            if self.writable().is_err() {
                return false;
            }
            // The file keeps the error for its fsync.
            match self.note(file::write_out_some(self, inode, step.min(left))) {
                Ok(0) | Err(_) => break,
                Ok(done) => left = left.saturating_sub(done),
            }
        }
        file::renew_age(self, inode);
        self.discard_unused(inode);
        true
    }
}

impl Pool {
    /// True when the thread should write out the oldest.
    pub(crate) fn is_crowded(&self) -> bool {
        self.is_beyond(self.crowded_bytes())
    }

    fn crowded_bytes(&self) -> u64 {
        self.limit() / 2
    }
}
