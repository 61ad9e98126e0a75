//! The open log: where its head and tail are, and what its superblock says.
//!
//! Invariants: blocks between tail and head hold committed transactions, one record each, oldest
//! first. Space is given back only after the superblock that moves the tail is durable. One block
//! stays unused, so that a full log differs from an empty one.
//! Locking: one checkpoint pass at a time ([`Pass`]); `superblock` ([`Rank::JournalTail`]) is held
//! while the log's superblock is written and the tail moves, `space` ([`Rank::JournalState`]) for
//! moments.

use crate::config::{Checksums, Width};
use crate::images::Wanted;
use crate::log_file::LogFile;
use crate::newest::Entry;
use crate::order::ascending;
use crate::records::Records;
use crate::{Error, Log};
use uext4_format::jbd2::{self, Layout, Superblock};
use uext4_format::{BlockNr, Tid};
use uext4_sync::atomic::{AtomicBool, Ordering};
use uext4_sync::{Condvar, Mutex, Rank};

/// Features that we decide; all others stay as they are.
const OUR_INCOMPAT: u32 = jbd2::INCOMPAT_REVOKE
    | jbd2::INCOMPAT_64BIT
    | jbd2::INCOMPAT_ASYNC_COMMIT
    | jbd2::INCOMPAT_CSUM_V2
    | jbd2::INCOMPAT_CSUM_V3;

/// Head, room and contents of the log.
pub(crate) struct Space {
    /// Where the next transaction goes.
    pub(crate) head: u32,
    /// The next transaction to commit.
    next: Tid,
    free_blocks: u32,
    records: Records,
    /// Somebody brings blocks home.
    pass_is_on: bool,
}

pub(crate) struct OpenLog {
    pub(crate) file: LogFile,
    pub(crate) layout: Layout,
    pub(crate) uuid: [u8; 16],
    first: u32,
    end: u32,
    /// The log's device is not the file system's.
    pub(crate) is_external: bool,
    pub(crate) superblock: Mutex<Superblock>,
    /// The superblock no longer says clean: spares commits a wait for a checkpoint under way.
    is_in_use: AtomicBool,
    space: Mutex<Space>,
    /// Records are done, space became free, or a checkpoint pass ended.
    moved: Condvar,
}

/// The one checkpoint pass; dropping it ends it.
pub(crate) struct Pass<'a> {
    log: &'a OpenLog,
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        self.log.space.lock().pass_is_on = false;
        self.log.moved.notify_all();
    }
}

/// What whoever needs space of the log finds.
pub(crate) enum Room<'a> {
    /// Enough.
    There,
    /// Some that only the tail keeps: records at it are done ([`OpenLog::move_tail`]).
    BehindTail,
    /// Too little; the caller has the pass that makes more.
    Missing(Pass<'a>),
}

/// A tail that could be: everything before it is at home or newer in the log.
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
        let (first, end) = (superblock.first, superblock.end());
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
            is_external,
            is_in_use: AtomicBool::new(false),
            superblock: Mutex::new(Rank::JournalTail, superblock),
            space: Mutex::new(Rank::JournalState, space),
            moved: Condvar::new(),
        })
    }

    /// Blocks that transactions can use.
    pub(crate) fn len_blocks(&self) -> u32 {
        (self.end - self.first).saturating_sub(1)
    }

    pub(crate) fn free_blocks(&self) -> u32 {
        self.space.lock().free_blocks
    }

    /// Begins a checkpoint pass when less than `free_blocks` are free. While another one is under
    /// way this waits for as much as is asked for, not for its end.
    pub(crate) fn begin_pass(&self, free_blocks: u32) -> Room<'_> {
        let mut space = self.space.lock();
        while space.free_blocks < free_blocks {
            if !space.pass_is_on {
                space.pass_is_on = true;
                return Room::Missing(Pass { log: self });
            }
            if space.records.is_oldest_done() {
                return Room::BehindTail;
            }
            self.moved.wait(&mut space);
        }
        Room::There
    }

    /// Lets those who wait for space see that more is done.
    pub(crate) fn tell_done(&self) {
        let _space = self.space.lock();
        self.moved.notify_all();
    }

    pub(crate) fn head(&self) -> u32 {
        self.space.lock().head
    }

    /// The first transaction that this log will hold.
    pub(crate) fn next(&self) -> Tid {
        self.space.lock().next
    }

    /// `block` moved on by `by` blocks, around the end. `by` is at most the length of the log.
    pub(crate) fn advance(&self, block: u32, by: u32) -> u32 {
        let to = u64::from(block) + u64::from(by);
        let past = to.checked_sub(u64::from(self.end));
        past.map_or(to as u32, |past| self.first + past as u32)
    }

    /// Blocks from `from` forward to `to`.
    fn distance(&self, from: u32, to: u32) -> u32 {
        if to >= from {
            to - from
        } else {
            self.end - from + (to - self.first)
        }
    }

    /// Writes blocks around the end of the log.
    pub(crate) fn write_at(&self, start: u32, blocks: &[&[u8]]) -> Result<(), Error> {
        let until_end = blocks.len().min((self.end - start) as usize);
        let (now, wrapped) = blocks.split_at(until_end);
        self.file.write(start, now)?;
        self.file.write(self.first, wrapped)
    }

    /// Makes the superblock say that the log is in use, when it still says clean. The write is not
    /// flushed: the flush before the first commit block is soon enough.
    pub(crate) fn mark_in_use(&self) -> Result<(), Error> {
        if self.is_in_use.load(Ordering::Acquire) {
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

    /// Notes in the superblock that an error stopped the journal. Best effort: the device may be
    /// what failed, and a checkpoint under way in another thread has the superblock.
    pub(crate) fn note_error(&self, errno: i32) {
        let Some(mut superblock) = self.superblock.try_lock() else {
            return;
        };
        superblock.errno = errno;
        if superblock.start != 0 && self.file.write_superblock(&superblock).is_ok() {
            let _best_effort = self.file.flush();
        }
    }

    /// Transaction `tid` is durable, in `log_blocks` blocks at the head of the log, and its images
    /// of the ascending blocks `written` are published. Those `retired` it replaced or revoked.
    pub(crate) fn push<'a>(
        &self,
        tid: Tid,
        log_blocks: u32,
        written: Vec<BlockNr>,
        retired: impl Iterator<Item = &'a Entry>,
    ) {
        let mut space = self.space.lock();
        let start = space.head;
        space.head = self.advance(start, log_blocks);
        space.free_blocks -= log_blocks;
        space.next = tid.next();
        space.records.push(tid, start, written);
        space.records.retire(retired);
    }

    /// These images no longer wait.
    pub(crate) fn retire<'a>(&self, retired: impl Iterator<Item = &'a Entry>) {
        self.space.lock().records.retire(retired);
    }

    /// Takes what the oldest records have to bring home, ascending by block: of those in the first
    /// `reach` blocks behind the tail, as many as hold `step` blocks of the log.
    pub(crate) fn take_due(&self, reach: u32, step: u32) -> Vec<Wanted> {
        let mut due = Vec::new();
        self.take_unsorted(&mut due, reach, step);
        ascending(due)
    }

    fn take_unsorted(&self, due: &mut Vec<Wanted>, reach: u32, step: u32) {
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
            if records.take_next(due) > 0 {
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

    /// Drops finished records from the tail; whether there were any. `flush_home` makes their home
    /// writes durable.
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
        // A log that was full and is empty now has its old and its new tail at one place: the one
        // unused block rules that out.
        space.free_blocks += self.distance(old, tail.start);
        space.records.forget(tail.done_records);
        drop(space);
        self.moved.notify_all();
        Ok(true)
    }

    /// Says that the log is clean. The caller checkpointed everything and holds no lock.
    pub(crate) fn mark_clean(&self) -> Result<(), Error> {
        let mut superblock = self.superblock.lock();
        let space = self.space.lock();
        debug_assert!(space.records.get(0).is_none(), "everything is at home");
        (superblock.start, superblock.sequence) = (0, space.next);
        self.is_in_use.store(false, Ordering::Release);
        superblock.head = space.head;
        drop(space);
        self.file.write_superblock(&superblock)?;
        self.file.flush()
    }
}
