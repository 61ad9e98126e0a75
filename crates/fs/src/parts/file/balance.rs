//! Dirty limit: writeback in the background above half the limit, by writers above the limit.
//!
//! Above half the limit, the flusher thread writes out the oldest data, so that writers seldom
//! reach the limit. Above the limit, each writer writes out about twice as much as it added, and
//! continues. A writer waits for a few steps at most, whatever the file has. Between two steps a
//! file's lock is free.
//! Locking: the callers hold no lock.

use super::delay::renew_age;
use super::write_out::write_out_some;
use crate::state::engine::Fs;
use crate::state::inode::Inode;
use crate::state::writeback::Reach;
use crate::types::error::Result;
use uext4_num::clamp_u64;
use uext4_sync::Arc;

/// Largest background step of one file, in bytes; the file is locked meanwhile.
const STEP_BYTES: u64 = 8 << 20;
/// Least amount in bytes that a writer writes out.
const ROOM_BYTES_MIN: u64 = 256 << 10;

impl Fs {
    /// Balances dirty data after a write of this many bytes.
    pub(crate) fn balance_delayed(&self, written_bytes: u64) {
        if !self.delayed.is_crowded() {
            return;
        }
        if !self.flusher.wake_now() || self.delayed.is_over() {
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

    /// One step of the oldest file, and its length in bytes; `None` if no file is free.
    fn step_oldest(&self, step_bytes: u64) -> Option<Result<u64>> {
        let (since, inode) = self.delayed.claim_oldest()?;
        let blocks = step_bytes.div_ceil(self.block_bytes());
        let written = write_out_some(self, &inode, blocks);
        self.delayed.done(inode.nr(), since);
        self.discard_unused(&inode);
        // The file keeps the error for its `fsync`.
        Some(
            self.base
                .record_result(written)
                .map(|blocks| blocks << self.base.geometry.block_bits),
        )
    }

    /// One run of the flusher thread.
    pub(crate) fn write_out_by_itself(&self, reach: Reach) {
        self.write_out_old();
        let keep_bytes = match reach {
            Reach::Usual => self.delayed.crowded_bytes(),
            Reach::Reclaim => self.delayed.bytes() / 2,
        };
        while self.delayed.bytes() > keep_bytes {
            // The closing of the freeze barrier is followed by a full writeback.
            let Some(_pass) = self.base.changes.try_enter() else {
                return;
            };
            if self.writable().is_err() || !matches!(self.step_oldest(STEP_BYTES), Some(Ok(1..))) {
                return;
            }
        }
    }

    fn write_out_old(&self) {
        let now = self.base.clock.monotonic();
        let before = now.saturating_sub(self.delayed.expire());
        for inode in self.delayed.older_than(clamp_u64(before.as_nanos())) {
            if !self.write_out_waiting(&inode) {
                return;
            }
        }
    }

    /// Writes out the file's current delayed data, in steps; data added meanwhile count as new.
    /// False when the freeze barrier is closed.
    fn write_out_waiting(&self, inode: &Arc<Inode>) -> bool {
        let step = STEP_BYTES / self.block_bytes();
        let mut left = inode.delayed_blocks();
        while left > 0 {
            let Some(_pass) = self.base.changes.try_enter() else {
                return false;
            };
            if self.writable().is_err() {
                return false;
            }
            // The file keeps the error for its `fsync`.
            match self
                .base
                .record_result(write_out_some(self, inode, step.min(left)))
            {
                Ok(0) | Err(_) => break,
                Ok(done) => left = left.saturating_sub(done),
            }
        }
        renew_age(self, inode);
        self.discard_unused(inode);
        true
    }
}
