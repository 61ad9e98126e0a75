//! Writing committed images home, and moving the tail of the log.
//!
//! A pass frees space step by step, so that a commit which needs some waits for a step or two and
//! not for all that the pass aims at. A step has its price, two flushes and the log's superblock.
//!
//! Locking: one pass at a time, without a lock ([`crate::log_space::Pass`]); each batch of
//! writes holds `batch` ([`uext4_sync::Rank::CheckpointBatch`]), so that a commit which revokes
//! blocks can wait until no older image of them is on its way home.

use crate::engine::Engine;
use crate::images::Record;
use crate::log_space::OpenLog;
use crate::stats::Times;
use crate::{Error, Image};
use std::sync::Arc;
use uext4_format::BlockNr;

/// Blocks written under one hold of `batch`: bounds what a revoking commit waits for.
const BATCH_BLOCKS: usize = 1024;
/// A step of a pass is this part of the log.
const STEPS_PER_LOG: u32 = 16;

impl Engine {
    /// Brings home what the oldest transactions wait for, until `free_blocks` of the log are free
    /// or nothing is left. If another thread is at it, waits until there is as much.
    pub(crate) fn checkpoint(&self, log: &OpenLog, free_blocks: u32) -> Result<(), Error> {
        let Some(_pass) = log.begin_pass(free_blocks) else {
            return Ok(());
        };
        Times::add(&self.times.checkpoints, 1);
        Times::time(&self.times.checkpoint_ns, || {
            self.checkpoint_pass(log, free_blocks)
        })
    }

    fn checkpoint_pass(&self, log: &OpenLog, free_blocks: u32) -> Result<(), Error> {
        let step = (log.len_blocks() / STEPS_PER_LOG).max(1);
        loop {
            let missing = free_blocks.saturating_sub(log.free_blocks());
            if missing == 0 {
                return Ok(());
            }
            let records = Times::time(&self.times.bookkeeping_ns, || log.oldest(missing.min(step)));
            if records.is_empty() {
                return Ok(());
            }
            self.write_home(&records)?;
            log.move_tail(|| self.home.flush())?;
        }
    }

    /// Writes every block home whose newest image belongs to one of `records`.
    fn write_home(&self, records: &[Arc<Record>]) -> Result<(), Error> {
        let blocks_of = |record: &Arc<Record>| {
            let record = Arc::clone(record);
            let blocks: Vec<BlockNr> = record.blocks.clone();
            blocks
                .into_iter()
                .map(move |block| (block, Arc::clone(&record)))
        };
        let wanted = Times::time(&self.times.bookkeeping_ns, || {
            let due = records.iter().filter(|record| !record.is_done());
            let mut wanted: Vec<(BlockNr, Arc<Record>)> = due.flat_map(blocks_of).collect();
            wanted.sort_by_key(|(block, _)| *block);
            wanted
        });
        for batch in wanted.chunks(BATCH_BLOCKS) {
            self.write_batch(batch)?;
        }
        Ok(())
    }

    fn write_batch(&self, wanted: &[(BlockNr, Arc<Record>)]) -> Result<(), Error> {
        let _batch = self.batch.lock();
        self.gate.check()?;
        let newest = |(block, record): &(BlockNr, Arc<Record>)| {
            self.images
                .get_of(*block, record)
                .map(|image| (*block, image))
        };
        let bookkeeping = &self.times.bookkeeping_ns;
        let find = || wanted.iter().filter_map(newest).collect();
        let images: Vec<(BlockNr, Image)> = Times::time(bookkeeping, find);
        self.home.write_many(&images)?;
        Times::time(bookkeeping, || {
            for (block, image) in &images {
                self.images.written(*block, image);
            }
        });
        Times::add(&self.times.checkpointed_blocks, images.len() as u64);
        Ok(())
    }

    /// Drops freed blocks from what is to be written home, and waits until no such write is under
    /// way. From then on the blocks may be reused.
    pub(crate) fn drop_revoked(&self, revokes: &[BlockNr]) {
        if revokes.iter().any(|block| self.images.contains(*block)) {
            let _none_in_flight = self.batch.lock();
            revokes.iter().for_each(|block| self.images.revoke(*block));
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
