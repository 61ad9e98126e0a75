//! Commit: drain the handles, render, write the log, flush, write the commit block, publish.
//!
//! Locking: `one_commit` is held throughout, every other lock briefly. The caller has no open
//! handle. Live objects are locked one at a time to render them.

use crate::closed::Closed;
use crate::dirty_list::DirtyList;
use crate::draft::Draft;
use crate::encode::{LogBlock, encode};
use crate::engine::{Engine, OBJECTS_PER_THREAD};
use crate::live::Stamp;
use crate::log_space::OpenLog;
use crate::parallel::by_parts;
use crate::stats::Times;
use crate::{Error, Image, Threads};
use std::collections::BTreeSet;
use uext4_format::jbd2::CommitBlock;
use uext4_format::{BlockNr, Tid};
use uext4_num::{clamp_u32, u64_of};
use uext4_sync::Arc;

/// Fewest blocks per thread that writes the log.
const WRITTEN_PER_THREAD: usize = 2048;

impl Engine {
    /// Commits the running transaction. The caller holds `one_commit`.
    pub(crate) fn commit_locked(&self) -> Result<(), Error> {
        self.gate.check()?;
        let tid = self.gate.running();
        let result = self.close_and_write(tid);
        let unwritten = match &result {
            Err(unwritten @ Error::Unwritten { .. }) => {
                self.observer.unwritten(unwritten);
                Some(unwritten.clone())
            }
            Err(cause) => {
                self.abort(cause.clone());
                None
            }
            Ok(_) => None,
        };
        let mut progress = self.progress.lock();
        let durable = result.as_ref().ok().copied().flatten();
        let is_requested = progress.end_full(durable, unwritten, self.clock.monotonic());
        if durable.is_some() {
            Times::add(&self.times.requested, u64::from(is_requested));
        }
        self.end_commit(progress);
        if durable.is_some() {
            // The waiters know already that the transaction is durable.
            self.clear_fast()
                .inspect_err(|cause| self.abort(cause.clone()))?;
        }
        result.and(self.gate.check())
    }

    /// Returns the last durable transaction; `None` when there was nothing to commit.
    fn close_and_write(&self, tid: Tid) -> Result<Option<Tid>, Error> {
        Times::time(&self.times.commit_ns, || self.close_and_write_now(tid))
    }

    fn close_and_write_now(&self, tid: Tid) -> Result<Option<Tid>, Error> {
        let (objects, revokes) = Times::time(&self.times.drain_ns, || self.close_gate(tid));
        let is_empty = objects.is_empty() && revokes.is_empty();
        if is_empty && self.unwritten.is_empty() {
            return Ok(None);
        }
        // An empty transaction stays open; unwritten blocks belong to the transactions before it.
        let last = if is_empty {
            Tid(tid.0.wrapping_sub(1))
        } else {
            tid
        };
        let objects = Arc::new(objects);
        let drafts = Times::time(&self.times.render_ns, || {
            self.render_all(tid, &objects)?;
            let mut drafts = self.rendered.take();
            self.fill_gaps(&mut drafts)?;
            Ok::<Vec<_>, Error>(drafts)
        })?;
        let tables = match self.log.get() {
            Some(_) => Vec::new(),
            None => tables(&drafts),
        };
        let images: Vec<_> = drafts.into_iter().map(Draft::into_image).collect();
        let revokes = without_images(revokes, &images);
        self.write(Closed {
            tid: last,
            images,
            revokes,
            tables,
        })?;
        drop(objects); // only now: their images can be read back
        Ok(Some(last))
    }

    /// Drains the transaction, takes its objects and revokes, and opens the next one.
    fn close_gate(&self, tid: Tid) -> (Vec<DirtyList>, Vec<BlockNr>) {
        let closing_ns = self.now_ns();
        self.gate.close();
        self.add_run_time(closing_ns);
        let (mut objects, mut revokes) = (Vec::new(), Vec::new());
        for shard in self.logged.iter() {
            let (some, mut revoked) = shard.lock().take();
            objects.extend(Some(some).filter(|some| !some.is_empty()));
            revokes.append(&mut revoked);
        }
        let nothing = objects.is_empty() && revokes.is_empty();
        {
            // An empty transaction stays open: a later caller that waits for it must not join this
            // commit.
            let mut progress = self.progress.lock();
            let changes = Some(Stamp::last(tid)).filter(|_| !nothing);
            progress.close(self.now(), changes);
        }
        self.gate.open(if nothing { tid } else { tid.next() });
        (objects, revokes)
    }

    fn render_all(&self, tid: Tid, objects: &Arc<Vec<DirtyList>>) -> Result<(), Error> {
        let pieces: Vec<_> = objects.iter().flat_map(DirtyList::pieces).collect();
        let all: usize = objects.iter().map(DirtyList::len).sum();
        let threads = self.cores.min(all / OBJECTS_PER_THREAD);
        if threads < 2
            && self.threads == Threads::Background
            && self.render_together(tid, objects)?
        {
            return Ok(());
        }
        by_parts(threads, 1, &pieces, |_, some| {
            let objects = some.iter().copied().flatten();
            objects.for_each(|object| object.render(tid, &self.rendered));
        })
        .map(drop)
    }

    /// Makes the transaction durable and its images readable.
    fn write(&self, closed: Closed) -> Result<(), Error> {
        Times::add(&self.times.transactions, 1);
        Times::add(&self.times.image_blocks, u64_of(closed.images.len()));
        Times::add(&self.times.revoked_blocks, u64_of(closed.revokes.len()));
        let (tid, log) = (closed.tid, self.log.get());
        match log {
            Some(log) => self.write_logged(log, closed)?,
            None => self.write_unlogged(closed)?,
        }
        Times::time(&self.times.publish_ns, || self.observer.committed(tid));
        log.map_or(Ok(()), |log| self.keep_space(log))
    }

    fn write_logged(&self, log: &OpenLog, closed: Closed) -> Result<(), Error> {
        let body = Times::time(&self.times.encode_ns, || {
            encode(&log.layout, &log.uuid, &closed, self.cores)
        })?;
        let blocks = clamp_u32(body.len());
        if blocks > log.len_blocks() {
            let blocks = blocks.into();
            return Err(Error::LogTooSmall { blocks });
        }
        self.make_space(log, blocks)?;
        self.clear_old_fast(log)?;
        let start = log.head();
        Times::time(&self.times.write_ns, || self.write_body(log, start, &body))?;
        Times::time(&self.times.flush_ns, || self.flush_before_commit(log))?;
        self.gate.check()?;
        let at = log.advance(start, blocks - 1);
        Times::time(&self.times.flush_ns, || {
            self.write_commit_block(log, at, closed.tid)
        })?;
        Times::add(&self.times.log_blocks, blocks.into());
        Times::time(&self.times.publish_ns, || self.publish(log, blocks, closed));
        Ok(())
    }

    /// Frees log space for a transaction of this many blocks.
    fn make_space(&self, log: &OpenLog, blocks: u32) -> Result<(), Error> {
        if log.must_restart(blocks) {
            self.checkpoint(log, u32::MAX)?;
            self.gate.check()?;
            return log.restart();
        }
        self.checkpoint(log, blocks)
    }

    fn write_body(&self, log: &OpenLog, start: u32, body: &[LogBlock]) -> Result<(), Error> {
        self.gate.check()?;
        log.mark_in_use()?;
        let body: Vec<&[u8]> = body.iter().map(LogBlock::bytes).collect();
        // An inline journal has a deterministic order of writes.
        let threads = match self.threads {
            Threads::Background => self.cores,
            Threads::Inline => 1,
        };
        let written = by_parts(threads, WRITTEN_PER_THREAD, &body, |at, some| {
            log.write_at(log.advance(start, clamp_u32(at)), some)
        })?;
        written.into_iter().collect()
    }

    /// Makes the transaction's body and the file data it points to durable before the commit block.
    fn flush_before_commit(&self, log: &OpenLog) -> Result<(), Error> {
        if log.is_external {
            self.home.flush()?;
        }
        log.file.flush()
    }

    fn write_commit_block(&self, log: &OpenLog, at: u32, tid: Tid) -> Result<(), Error> {
        let now = self.clock.wall();
        let seconds = u64::try_from(now.seconds).unwrap_or(0);
        let block = CommitBlock::encode(&log.layout, tid, seconds, now.nanoseconds);
        log.file.write_durable(at, &block)
    }

    /// Publishes a durable transaction: its images are the newest, its revoked blocks are dropped.
    fn publish(&self, log: &OpenLog, blocks: u32, closed: Closed) {
        let written: Vec<BlockNr> = closed.images.iter().map(|(block, _)| *block).collect();
        let revoked = self.drop_revoked(&closed.revokes);
        let replaced = Times::time(&self.times.bookkeeping_ns, || {
            let replaced = self.images.insert(&written, closed.images, closed.tid);
            log.push(closed.tid, blocks, written);
            self.retire(log, replaced.iter().chain(&revoked));
            replaced
        });
        Times::time(&self.times.freeing_ns, || drop((replaced, revoked)));
    }

    /// Starts a checkpoint when more than half of the log is used.
    fn keep_space(&self, log: &OpenLog) -> Result<(), Error> {
        if log.free_blocks() >= log.len_blocks() / 2 {
            return Ok(());
        }
        match self.threads {
            Threads::Inline => self.checkpoint(log, Self::comfortable_blocks(log)),
            Threads::Background => {
                self.progress.lock().want_checkpoint();
                self.work.notify_all();
                Ok(())
            }
        }
    }

    /// Free log blocks at which a checkpoint pass stops.
    pub(crate) fn comfortable_blocks(log: &OpenLog) -> u32 {
        log.len_blocks() / 4 * 3
    }
}

fn tables(drafts: &[Draft]) -> Vec<BlockNr> {
    let tables = drafts.iter().filter(|draft| draft.is_table());
    tables.map(|draft| draft.block).collect()
}

/// The revokes, ascending, without those that an image of the same transaction cancels.
fn without_images(revokes: Vec<BlockNr>, images: &[(BlockNr, Image)]) -> Vec<BlockNr> {
    let revokes: BTreeSet<BlockNr> = revokes.into_iter().collect();
    revokes
        .into_iter()
        .filter(|nr| {
            images
                .binary_search_by_key(nr, |(block, _)| *block)
                .is_err()
        })
        .collect()
}
