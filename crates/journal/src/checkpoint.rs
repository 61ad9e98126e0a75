//! Checkpoint: writes committed images home and moves the tail of the log.
//!
//! A pass works in steps. The tail moves at the end of the pass, or earlier if a commit waits for
//! log space: that commit moves the tail itself after a step. So a commit waits for a step or two,
//! and the cost of a tail move (two flushes, one superblock write) is paid on demand only.
//!
//! Locking: at most one pass runs ([`crate::log_space::Pass`]; a flag, not a lock). Each batch of
//! writes holds `batch` ([`uext4_sync::Rank::CheckpointBatch`]), so that a commit which revokes
//! blocks can wait until no older image of them is in flight.

use crate::Error;
use crate::engine::Engine;
use crate::images::Wanted;
use crate::log_space::{LogSpace, OpenLog};
use crate::newest::Entry;
use crate::stats::Times;
use uext4_format::BlockNr;
use uext4_num::u64_of;

/// Blocks written under one hold of `batch`: bounds what a revoking commit waits for.
const BATCH_BLOCKS: usize = 1024;
/// Steps into which a pass divides the log.
const STEPS_PER_LOG: u32 = 16;

impl Engine {
    /// Runs a pass over the oldest transactions until `free_blocks` of the log are free or all are
    /// done. If another thread runs the pass, waits until that many blocks are free.
    pub(crate) fn checkpoint(&self, log: &OpenLog, free_blocks: u32) -> Result<(), Error> {
        loop {
            match log.begin_pass(free_blocks) {
                LogSpace::There => return Ok(()),
                LogSpace::BehindTail => _ = log.move_tail(|| self.home.flush())?,
                LogSpace::Missing(_pass) => {
                    Times::add(&self.times.checkpoints, 1);
                    let done = Times::time(&self.times.checkpoint_ns, || {
                        self.checkpoint_pass(log, free_blocks)
                    });
                    // Before the pass ends: a waiter must not take what it took for written.
                    return done.inspect_err(|cause| self.abort(cause.clone()));
                }
            }
        }
    }

    fn checkpoint_pass(&self, log: &OpenLog, free_blocks: u32) -> Result<(), Error> {
        let step = (log.len_blocks() / STEPS_PER_LOG).max(1);
        loop {
            let missing = free_blocks.saturating_sub(log.free_blocks());
            let due = Times::time(&self.times.bookkeeping_ns, || {
                log.take_due(missing, step, self.tracking)
            });
            if due.is_empty() && !log.move_tail(|| self.home.flush())? {
                return Ok(());
            }
            for batch in due.chunks(BATCH_BLOCKS) {
                self.write_batch(log, batch)?;
            }
            log.wake_waiters();
        }
    }

    fn write_batch(&self, log: &OpenLog, wanted: &[Wanted]) -> Result<(), Error> {
        let batch = self.batch.lock();
        self.gate.check()?;
        let bookkeeping = &self.times.bookkeeping_ns;
        let images = Times::time(bookkeeping, || self.images.newest_of(wanted));
        self.home.write_many(&images)?;
        let retired = Times::time(bookkeeping, || {
            let retired = self.images.written(&images);
            self.retire(log, retired.iter());
            retired
        });
        drop(batch);
        Times::add(&self.times.checkpointed_blocks, u64_of(images.len()));
        Times::time(&self.times.freeing_ns, || drop((images, retired)));
        Ok(())
    }

    /// Drops the images of freed blocks and waits until no home write of them is in flight. After
    /// the return the blocks may be reused.
    pub(crate) fn drop_revoked(&self, revokes: &[BlockNr]) -> Vec<Entry> {
        if !revokes.iter().any(|block| self.images.contains(*block)) {
            return Vec::new();
        }
        let _none_in_flight = self.batch.lock();
        self.images.revoke(revokes)
    }

    /// Writes the newest committed images of these ascending blocks home. They stay in the log
    /// until a checkpoint retires them. `batch` orders the write against other home writes of the
    /// blocks.
    pub(crate) fn write_home(&self, blocks: &[BlockNr]) -> Result<(), Error> {
        let _one_write = self.batch.lock();
        self.gate.check()?;
        let images: Vec<_> = blocks
            .iter()
            .filter_map(|block| Some((*block, self.images.get(*block)?)))
            .collect();
        match images[..] {
            [] => Ok(()),
            _ => self.home.write_many(&images),
        }
    }

    /// Checkpoints the whole log and marks it clean.
    pub(crate) fn clean_log(&self, log: &OpenLog) -> Result<(), Error> {
        self.checkpoint(log, u32::MAX)?;
        self.gate.check()?;
        self.home.flush()?;
        log.mark_clean()
    }
}
