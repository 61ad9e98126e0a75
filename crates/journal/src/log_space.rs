//! The open log as a ring: head, tail, free space and superblock.
//!
//! Invariants: blocks between tail and head hold committed transactions, one record each, oldest
//! first. Space is freed only after the superblock that moves the tail is durable. One block stays
//! unused, so that a full log differs from an empty one. A log with an area for fast commits does
//! not wrap: it is emptied before its head would pass the end ([`OpenLog::restart`]), because
//! e2fsck 1.47 takes the front of that area for the end of the log and drops what is behind it.
//! Locking: one checkpoint pass at a time ([`Pass`]); `superblock` ([`Rank::JournalTail`]) is held
//! while the log's superblock is written and the tail moves, `space` ([`Rank::JournalState`])
//! briefly.

use crate::config::{Checksums, FastCommits, Tracking, Width};
use crate::images::Wanted;
use crate::log_file::LogFile;
use crate::newest::Entry;
use crate::order::ascending;
use crate::records::Records;
use crate::{Error, Log};
use uext4_format::jbd2::{self, Layout, Superblock};
use uext4_format::{BlockNr, Tid};
use uext4_num::{clamp_u32, usize_of};
use uext4_sync::atomic::{AtomicBool, Ordering};
use uext4_sync::{Condvar, Mutex, Rank};

/// Features that this implementation sets or clears; all others stay as they are.
const OUR_INCOMPAT: u32 = jbd2::INCOMPAT_REVOKE
    | jbd2::INCOMPAT_64BIT
    | jbd2::INCOMPAT_ASYNC_COMMIT
    | jbd2::INCOMPAT_CSUM_V2
    | jbd2::INCOMPAT_CSUM_V3;

/// Head, free space and contents of the log.
pub(crate) struct Space {
    /// First block of the next transaction.
    pub(crate) head: u32,
    /// The next transaction to commit.
    next: Tid,
    free_blocks: u32,
    records: Records,
    pass_is_on: bool,
}

pub(crate) struct OpenLog {
    pub(crate) file: LogFile,
    pub(crate) layout: Layout,
    pub(crate) uuid: [u8; 16],
    first: u32,
    end: u32,
    /// First block of the area for fast commits, and one past its last.
    fast: (u32, u32),
    /// The log is not on the file system's device.
    pub(crate) is_external: bool,
    pub(crate) superblock: Mutex<Superblock>,
    /// The superblock no longer says clean. Atomic: commits need not wait for a checkpoint's lock.
    is_in_use: AtomicBool,
    space: Mutex<Space>,
    /// Records are done, space became free, or a checkpoint pass ended.
    moved: Condvar,
}

/// The right to run the checkpoint pass; dropping it ends the pass.
pub(crate) struct Pass<'a> {
    log: &'a OpenLog,
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        self.log.space.lock().pass_is_on = false;
        self.log.moved.notify_all();
    }
}

/// State of the log space for a caller that needs some.
pub(crate) enum LogSpace<'a> {
    /// Enough blocks are free.
    There,
    /// A tail move frees some: the oldest records are done ([`OpenLog::move_tail`]).
    BehindTail,
    /// Too little is free; the caller runs the pass.
    Missing(Pass<'a>),
}

/// A possible new tail: all records before it are home or superseded in the log.
struct Tail {
    start: u32,
    sequence: Tid,
    done_records: usize,
}

impl OpenLog {
    /// Opens a clean log and decides its features; nothing is written yet.
    pub(crate) fn open(
        log: &Log,
        block_size: u32,
        checksums: Checksums,
        width: Width,
        fast_commits: FastCommits,
        is_external: bool,
    ) -> Result<OpenLog, Error> {
        let file = LogFile::new(log, block_size);
        let mut superblock = file.read_superblock()?;
        if superblock.start != 0 {
            return Err(Error::NeedsRecovery);
        }
        superblock.compat &= !jbd2::COMPAT_CHECKSUM;
        superblock.incompat &= !OUR_INCOMPAT;
        superblock.incompat |= jbd2::INCOMPAT_REVOKE;
        if checksums == Checksums::V3 {
            superblock.incompat |= jbd2::INCOMPAT_CSUM_V3;
        }
        if width == Width::Wide {
            superblock.incompat |= jbd2::INCOMPAT_64BIT;
        }
        superblock.incompat &= !jbd2::INCOMPAT_FAST_COMMIT;
        if fast_commits == FastCommits::Written {
            superblock.incompat |= jbd2::INCOMPAT_FAST_COMMIT;
        }
        let (first, end) = (superblock.first, superblock.end());
        let fast = superblock.fast_commit_area();
        let space = Space {
            head: first,
            next: superblock.sequence,
            free_blocks: (end - first).saturating_sub(1),
            records: Records::default(),
            pass_is_on: false,
        };
        Ok(OpenLog {
            file,
            layout: superblock.layout(),
            uuid: superblock.uuid,
            first,
            end,
            fast,
            is_external,
            is_in_use: AtomicBool::new(false),
            superblock: Mutex::new(Rank::JournalTail, superblock),
            space: Mutex::new(Rank::JournalState, space),
            moved: Condvar::new(),
        })
    }

    /// Reads the number of the next transaction again, after another writer used the log, which is
    /// clean before and after it.
    ///
    /// # Errors
    /// [`Error::NeedsRecovery`] if it is not.
    pub(crate) fn read_next(&self) -> Result<Tid, Error> {
        let there = self.file.read_superblock()?;
        if there.start != 0 || self.is_in_use() {
            return Err(Error::NeedsRecovery);
        }
        let mut superblock = self.superblock.lock();
        superblock.sequence = there.sequence;
        self.space.lock().next = there.sequence;
        Ok(there.sequence)
    }

    /// Blocks that transactions can use.
    pub(crate) fn len_blocks(&self) -> u32 {
        (self.end - self.first).saturating_sub(1)
    }

    /// First block of the area for fast commits.
    pub(crate) fn fast_start(&self) -> u32 {
        self.fast.0
    }

    /// Blocks of that area; 0 without fast commits.
    pub(crate) fn fast_len_blocks(&self) -> u32 {
        self.fast.1 - self.fast.0
    }

    pub(crate) fn has_fast_area(&self) -> bool {
        self.fast_len_blocks() > 0
    }

    /// Whether the superblock says that the log has contents.
    pub(crate) fn is_in_use(&self) -> bool {
        self.is_in_use.load(Ordering::Acquire)
    }

    pub(crate) fn free_blocks(&self) -> u32 {
        self.space.lock().free_blocks
    }

    /// Begins a checkpoint pass if less than `free_blocks` are free. If another pass runs, waits
    /// until they are free or a tail move can free some, not for the end of that pass.
    pub(crate) fn begin_pass(&self, free_blocks: u32) -> LogSpace<'_> {
        let mut space = self.space.lock();
        while space.free_blocks < free_blocks {
            if !space.pass_is_on {
                space.pass_is_on = true;
                return LogSpace::Missing(Pass { log: self });
            }
            if space.records.is_oldest_done() {
                return LogSpace::BehindTail;
            }
            self.moved.wait(&mut space);
        }
        LogSpace::There
    }

    /// Wakes the waiters for space after records were done.
    pub(crate) fn wake_waiters(&self) {
        let _space = self.space.lock();
        self.moved.notify_all();
    }

    pub(crate) fn head(&self) -> u32 {
        self.space.lock().head
    }

    /// The next transaction of this log.
    pub(crate) fn next(&self) -> Tid {
        self.space.lock().next
    }

    /// The block `by` blocks after `block`, with wrap-around. `by` is at most the length of the
    /// log.
    pub(crate) fn advance(&self, block: u32, by: u32) -> u32 {
        let to = u64::from(block) + u64::from(by);
        let past = to.checked_sub(u64::from(self.end));
        past.map_or(clamp_u32(to), |past| self.first + clamp_u32(past))
    }

    /// Whether the head would reach the end behind a transaction of this many blocks, in a log that
    /// must not wrap around.
    pub(crate) fn must_restart(&self, log_blocks: u32) -> bool {
        self.has_fast_area() && log_blocks >= self.end - self.head()
    }

    /// Moves the head of the log to its front. The log is empty: everything in it is durable at
    /// home. The caller holds `one_commit`.
    ///
    /// # Errors
    /// [`Error::NeedsRecovery`] if something is not at home; those of the device.
    pub(crate) fn restart(&self) -> Result<(), Error> {
        let mut superblock = self.superblock.lock();
        let next = {
            let mut space = self.space.lock();
            if space.records.get(0).is_some() {
                return Err(Error::NeedsRecovery);
            }
            space.head = self.first;
            space.next
        };
        if superblock.start == 0 {
            return Ok(());
        }
        // Durable before the commit block: recovery looks for the next transaction there.
        (superblock.start, superblock.sequence) = (self.first, next);
        self.file.write_superblock(&superblock)?;
        self.file.flush()
    }

    /// Blocks from `from` forward to `to`, with wrap-around.
    fn distance(&self, from: u32, to: u32) -> u32 {
        if to >= from {
            to - from
        } else {
            self.end - from + (to - self.first)
        }
    }

    /// Writes blocks with wrap-around at the end of the log.
    pub(crate) fn write_at(&self, start: u32, blocks: &[&[u8]]) -> Result<(), Error> {
        let until_end = blocks.len().min(usize_of(self.end - start));
        let (now, wrapped) = blocks.split_at(until_end);
        self.file.write(start, now)?;
        self.file.write(self.first, wrapped)
    }

    /// Marks the log in use in the superblock, unless it is already. The write needs no flush of
    /// its own: the flush before the first commit block covers it.
    pub(crate) fn mark_in_use(&self) -> Result<(), Error> {
        if self.is_in_use() {
            return Ok(());
        }
        let mut superblock = self.superblock.lock();
        if superblock.start == 0 {
            let space = self.space.lock();
            (superblock.start, superblock.sequence) = (space.head, space.next);
            drop(space);
            self.file.write_superblock(&superblock)?;
            self.is_in_use.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Stores the errno that stopped the journal in the superblock. Best effort: the device may
    /// have failed, and a checkpoint in another thread may hold the superblock's lock.
    pub(crate) fn store_error(&self, errno: i32) {
        let Some(mut superblock) = self.superblock.try_lock() else {
            return;
        };
        superblock.errno = errno;
        if superblock.start != 0 && self.file.write_superblock(&superblock).is_ok() {
            let _best_effort = self.file.flush();
        }
    }

    /// Adds the record of transaction `tid`, durable in `log_blocks` blocks at the head of the log.
    /// Its images of the ascending blocks `written` are published.
    pub(crate) fn push(&self, tid: Tid, log_blocks: u32, written: Vec<BlockNr>) {
        let mut space = self.space.lock();
        let start = space.head;
        space.head = self.advance(start, log_blocks);
        space.free_blocks -= log_blocks;
        space.next = tid.next();
        space.records.push(tid, start, written);
    }

    /// Lowers the counters of these images' records.
    pub(crate) fn retire<'a>(&self, retired: impl Iterator<Item = &'a Entry>) {
        self.space.lock().records.retire(retired);
    }

    /// Counts the pending blocks of all records: those whose newest image, by `owner`, is theirs.
    pub(crate) fn scan(&self, owner: impl Fn(BlockNr) -> Option<Tid>) {
        self.space.lock().records.scan(owner);
    }

    /// Takes the blocks of the oldest records that a checkpoint must write, ascending. Covers
    /// records in the first `reach` blocks behind the tail, until they hold `step` blocks of the
    /// log.
    pub(crate) fn take_due(&self, reach: u32, step: u32, tracking: Tracking) -> Vec<Wanted> {
        let mut due = Vec::new();
        self.take_unsorted(&mut due, reach, step, tracking);
        ascending(due)
    }

    fn take_unsorted(&self, due: &mut Vec<Wanted>, reach: u32, step: u32, tracking: Tracking) {
        let mut space = self.space.lock();
        let Space { head, records, .. } = &mut *space;
        let Some(tail) = records.get(0).map(|oldest| oldest.log_start) else {
            return;
        };
        let mut held = 0;
        while held < step
            && let Some(start) = records.next_start()
            && self.distance(tail, start) < reach
        {
            if records.take_next(due, tracking) > 0 {
                held += self.distance(start, records.next_start().unwrap_or(*head));
            }
        }
    }

    fn next_tail(&self) -> Option<Tail> {
        let space = self.space.lock();
        let done_records = space.records.done();
        if done_records == 0 {
            return None;
        }
        let next = space.records.get(done_records);
        let (start, sequence) = next.map_or((space.head, space.next), |record| {
            (record.log_start, record.tid)
        });
        Some(Tail {
            start,
            sequence,
            done_records,
        })
    }

    /// Moves the tail past the finished records; returns whether there were any. `flush_home` makes
    /// their home writes durable.
    pub(crate) fn move_tail(
        &self,
        flush_home: impl FnOnce() -> Result<(), Error>,
    ) -> Result<bool, Error> {
        let mut superblock = self.superblock.lock();
        let Some(tail) = self.next_tail() else {
            return Ok(false);
        };
        flush_home()?;
        (superblock.start, superblock.sequence) = (tail.start, tail.sequence);
        self.file.write_superblock(&superblock)?;
        self.file.flush()?;
        let mut space = self.space.lock();
        let oldest = space.records.get(0);
        let old = oldest.map_or(tail.start, |record| record.log_start);
        // The old and the new tail differ: one unused block keeps a full log from covering the
        // whole ring, so the distance is never ambiguous.
        space.free_blocks += self.distance(old, tail.start);
        space.records.forget(tail.done_records);
        drop(space);
        self.moved.notify_all();
        Ok(true)
    }

    /// Marks the log clean. The caller checkpointed everything and holds no lock.
    pub(crate) fn mark_clean(&self) -> Result<(), Error> {
        let mut superblock = self.superblock.lock();
        let space = self.space.lock();
        if space.records.get(0).is_some() {
            return Err(Error::NeedsRecovery);
        }
        (superblock.start, superblock.sequence) = (0, space.next);
        self.is_in_use.store(false, Ordering::Release);
        superblock.head = space.head;
        drop(space);
        // As Linux: programs without fast commits can read a clean log.
        let mut clean = superblock.clone();
        clean.incompat &= !jbd2::INCOMPAT_FAST_COMMIT;
        self.file.write_superblock(&clean)?;
        self.file.flush()
    }
}
