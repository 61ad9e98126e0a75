//! Writing committed images home, and moving the tail of the log.
//!
//! A pass brings blocks home step by step. The tail moves at its end, or as soon as a commit waits
//! for space: the commit moves it, so it waits for a step or two and not for all that the pass aims
//! at. A tail that moves has its price, two flushes and the log's superblock, which only those pay
//! who need it.
//!
//! Locking: one pass at a time, without a lock ([`crate::log_space::Pass`]); each batch of
//! writes holds `batch` ([`uext4_sync::Rank::CheckpointBatch`]), so that a commit which revokes
//! blocks can wait until no older image of them is on its way home.

use crate::Error;
use crate::engine::Engine;
use crate::images::Wanted;
use crate::log_space::{OpenLog, Room};
use crate::newest::Entry;
use crate::stats::Times;
use uext4_format::BlockNr;

/// Blocks written under one hold of `batch`: bounds what a revoking commit waits for.
const BATCH_BLOCKS: usize = 1024;
/// A step of a pass is this part of the log.
const STEPS_PER_LOG: u32 = 16;

impl Engine {
    /// Brings home what the oldest transactions wait for, until `free_blocks` of the log are free
    /// or nothing is left. If another thread is at it, waits until there is as much.
    pub(crate) fn checkpoint(&self, log: &OpenLog, free_blocks: u32) -> Result<(), Error> {
        loop {
            match log.begin_pass(free_blocks) {
                Room::There => return Ok(()),
                Room::BehindTail => _ = log.move_tail(|| self.home.flush())?,
                Room::Missing(_pass) => {
                    Times::add(&self.times.checkpoints, 1);
                    return Times::time(&self.times.checkpoint_ns, || {
                        self.checkpoint_pass(log, free_blocks)
                    });
                }
            }
        }
    }

    fn checkpoint_pass(&self, log: &OpenLog, free_blocks: u32) -> Result<(), Error> {
        let step = (log.len_blocks() / STEPS_PER_LOG).max(1);
        loop {
            let missing = free_blocks.saturating_sub(log.free_blocks());
            let due = Times::time(&self.times.bookkeeping_ns, || log.take_due(missing, step));
            if due.is_empty() && !log.move_tail(|| self.home.flush())? {
                return Ok(());
            }
            for batch in due.chunks(BATCH_BLOCKS) {
                self.write_batch(log, batch)?;
            }
            log.tell_done();
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
            log.retire(retired.iter());
            retired
        });
        drop(batch);
        Times::add(&self.times.checkpointed_blocks, images.len() as u64);
        Times::time(&self.times.freeing_ns, || drop((images, retired)));
        Ok(())
    }

    /// Drops freed blocks from what is to be written home, and waits until no such write is under
    /// way. From then on the blocks may be reused.
    pub(crate) fn drop_revoked(&self, revokes: &[BlockNr]) -> Vec<Entry> {
        if !revokes.iter().any(|block| self.images.contains(*block)) {
            return Vec::new();
        }
        let _none_in_flight = self.batch.lock();
        self.images.revoke(revokes)
    }

    /// Writes the newest committed image of one block home. It stays in the log until a checkpoint
    /// retires it. `batch` keeps older and newer writes of the block apart.
    pub(crate) fn write_home(&self, block: BlockNr) -> Result<(), Error> {
        let _one_write = self.batch.lock();
        self.gate.check()?;
        match self.images.get(block) {
            Some(image) => self.home.write_many(&[(block, image)]),
            None => Ok(()),
        }
    }

    /// Brings everything home and marks the log clean.
    pub(crate) fn clean_log(&self, log: &OpenLog) -> Result<(), Error> {
        self.checkpoint(log, u32::MAX)?;
        self.gate.check()?;
        self.home.flush()?;
        log.mark_clean()
    }
}
