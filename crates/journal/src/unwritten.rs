//! Unwritten blocks: failed home writes of a journal without a log that continues
//! ([`FailedWrite::Continue`]).
//!
//! The images of unwritten blocks stay in the map of images ([`crate::images`]), where readers find
//! them, and each commit writes them again. Until that succeeds no transaction counts as durable,
//! and a wait for one returns [`Error::Unwritten`].
//!
//! A failed flush may lose other threads' writes ([`Error::Lost`]), so what a commit began to write
//! before such a flush counts as unwritten, too. File data is not kept here: a caller that waits
//! for data compares [`uext4_device::BlockDevice::failed_flushes`].
//!
//! Without a log, blocks are overwritten in place. Tables (inodes, descriptors, the superblock)
//! name the other blocks (maps, directories, attributes) and are written last. So after a failed
//! write no table on disk names a block that was never written.
//!
//! Locking: only commits change the set (`one_commit`); it is locked while blocks are written.

use crate::closed::Closed;
use crate::engine::Engine;
use crate::home::Barrier;
use crate::stats::Times;
use crate::{Error, FailedWrite, Image};
use std::collections::BTreeSet;
use uext4_format::BlockNr;
use uext4_sync::atomic::{AtomicBool, Ordering};
use uext4_sync::{Arc, Mutex, Rank};

/// Most unwritten blocks, a bound on memory; with more the journal stops.
const UNWRITTEN_BLOCKS_MAX: usize = 16384;

#[derive(Default)]
struct Blocks {
    all: BTreeSet<BlockNr>,
    /// The tables among them.
    tables: BTreeSet<BlockNr>,
}

/// State of unwritten blocks; see the module.
pub(crate) struct Unwritten {
    goes_on: AtomicBool,
    blocks: Mutex<Blocks>,
}

impl Unwritten {
    pub(crate) fn new(failed_write: FailedWrite) -> Unwritten {
        let unwritten = Unwritten {
            goes_on: AtomicBool::new(false),
            blocks: Mutex::new(Rank::CheckpointBatch, Blocks::default()),
        };
        unwritten.set(failed_write);
        unwritten
    }

    pub(crate) fn set(&self, failed_write: FailedWrite) {
        let goes_on = failed_write == FailedWrite::Continue;
        self.goes_on.store(goes_on, Ordering::Relaxed);
    }

    fn goes_on(&self) -> bool {
        self.goes_on.load(Ordering::Relaxed)
    }

    /// Whether the journal may continue with this many unwritten blocks.
    fn may_have(&self, blocks: usize) -> bool {
        self.goes_on() && blocks <= UNWRITTEN_BLOCKS_MAX
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.lock().all.is_empty()
    }
}

impl Engine {
    fn goes_on_late(&self) -> bool {
        self.log.get().is_none() && self.unwritten.goes_on()
    }

    /// A barrier for writes to the file system's device that begin after this call. Where failed
    /// writes stop the journal, no flush counts after a failed one.
    pub(crate) fn barrier(&self) -> Barrier {
        if self.goes_on_late() {
            Barrier::new(&*self.home.device)
        } else {
            self.home.barrier()
        }
    }

    /// Flushes the file system's device; a failure stops the journal unless it may continue.
    pub(crate) fn flush_device(&self) -> Result<(), Error> {
        let Err(cause) = self.barrier().flush(&*self.home.device) else {
            return Ok(());
        };
        if self.goes_on_late() {
            let cause = Arc::new(cause);
            return Err(Error::Unwritten { cause });
        }
        self.abort(cause.clone());
        Err(cause)
    }

    /// Writes a transaction and the unwritten blocks home.
    pub(crate) fn write_unlogged(&self, closed: Closed) -> Result<(), Error> {
        let mut unwritten = self.unwritten.blocks.lock();
        if !unwritten.all.is_empty() {
            for block in &closed.revokes {
                unwritten.all.remove(block);
                unwritten.tables.remove(block);
            }
            drop(self.images.revoke(&closed.revokes));
        }
        let images = self.with_unwritten(&unwritten.all, closed.images);
        unwritten.tables.extend(closed.tables);
        let barrier = self.barrier();
        let written = Times::time(&self.times.write_ns, || {
            self.write_tables_last(&images, &unwritten.tables)
        });
        let written = written
            .and_then(|()| Times::time(&self.times.flush_ns, || barrier.flush(&*self.home.device)));
        match written {
            Ok(()) => {
                let blocks: Vec<BlockNr> =
                    std::mem::take(&mut *unwritten).all.into_iter().collect();
                drop(self.images.revoke(&blocks));
                Ok(())
            }
            Err(cause) if self.unwritten.may_have(images.len()) => {
                let blocks: Vec<BlockNr> = images.iter().map(|(block, _)| *block).collect();
                drop(self.images.insert(&blocks, images, closed.tid));
                unwritten.all.extend(blocks);
                let cause = Arc::new(cause);
                Err(Error::Unwritten { cause })
            }
            Err(cause) => Err(cause),
        }
    }

    /// Writes ascending images home, tables after all other blocks.
    fn write_tables_last(
        &self,
        images: &[(BlockNr, Image)],
        tables: &BTreeSet<BlockNr>,
    ) -> Result<(), Error> {
        let (tables, named): (Vec<_>, Vec<_>) = images
            .iter()
            .cloned()
            .partition(|(block, _)| tables.contains(block));
        self.home.write_many(&named)?;
        self.home.write_many(&tables)
    }

    /// The ascending images, with those of unwritten blocks that have no newer one.
    fn with_unwritten(
        &self,
        unwritten: &BTreeSet<BlockNr>,
        mut images: Vec<(BlockNr, Image)>,
    ) -> Vec<(BlockNr, Image)> {
        if unwritten.is_empty() {
            return images;
        }
        let older = unwritten.iter().filter(|block| {
            let newer = images.binary_search_by_key(*block, |(block, _)| *block);
            newer.is_err()
        });
        let older = older.filter_map(|block| Some((*block, self.images.get(*block)?)));
        let older: Vec<_> = older.collect();
        images.extend(older);
        images.sort_unstable_by_key(|(block, _)| *block);
        images
    }
}
