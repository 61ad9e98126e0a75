//! Configuration of a journal.

use crate::Error;
use std::time::Duration;
use uext4_device::BlockDevice;
use uext4_format::Tid;
use uext4_sync::{Arc, Clock, RealClock};

/// Threads that run commits and checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// One commit thread and one checkpoint thread.
    Background,
    /// The calling thread runs them. Same calls, same writes: for crash tests and tools.
    Inline,
}

/// State of a new journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Handles may start at once.
    Open,
    /// As after [`crate::Journal::quiesce`]: handles wait for [`crate::Journal::resume`], and
    /// there are no threads.
    Quiet,
}

/// Reaction of a journal without a log to a failed write. A journal with a log always stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailedWrite {
    /// The journal stops as well.
    Stop,
    /// The journal continues. The blocks stay in memory and are written again with each commit.
    /// Until that succeeds, a wait for a transaction returns [`Error::Unwritten`].
    Continue,
}

/// Checksums of the log; by the file system's `metadata_csum`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksums {
    /// Blocks of the log have no checksums.
    None,
    /// crc32c over every block (feature `csum_v3`).
    V3,
}

/// Width of block numbers in the log; by the file system's `64bit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// Block numbers of 32 bits.
    Narrow,
    /// Block numbers of 64 bits (feature `64bit` of the journal).
    Wide,
}

/// Use of fast commits; by the file system's `fast_commit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FastCommits {
    /// Every commit is a full one.
    Never,
    /// Written to the area behind the log ([`crate::Journal::make_durable`]), if it has one.
    Written,
}

/// How the log knows which of its transactions are home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    not(any(test, feature = "experiments")),
    expect(unreachable_pub, dead_code)
)]
pub enum Tracking {
    /// Each transaction counts the blocks whose newest image it has.
    Counted,
    /// The baseline, with the feature `experiments`: each commit checks all blocks of all
    /// transactions.
    Scanned,
}

/// A run of the log that is contiguous on its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogRun {
    /// First block, counted in the log.
    pub log_start: u32,
    /// First block on the device, in file system blocks.
    pub device_block: u64,
    /// The length of the run, in blocks.
    pub len: u32,
}

/// Location of the log: a device and the runs of blocks on it.
#[derive(Clone)]
pub struct Log {
    /// The file system's own device, or an external journal device.
    pub device: Arc<dyn BlockDevice>,
    /// Ascending by `log_start`, without gaps from 0 to `len_blocks`.
    pub runs: Vec<LogRun>,
    /// The length of the log, in blocks.
    pub len_blocks: u32,
    /// Log block of the journal superblock: 0 for an internal journal, the block after the ext4
    /// superblock's on an external device (whose log blocks are counted from its start).
    pub superblock: u32,
}

impl Log {
    /// A log that is one run: an external device, or an unfragmented internal journal.
    pub fn contiguous(device: Arc<dyn BlockDevice>, device_block: u64, len_blocks: u32) -> Log {
        let runs = vec![LogRun {
            log_start: 0,
            device_block,
            len: len_blocks,
        }];
        Log {
            device,
            runs,
            len_blocks,
            superblock: 0,
        }
    }
}

/// Observer of commits. The committing thread calls it, without any lock of the journal that a
/// handle, a live object or `read_block` needs.
pub trait CommitObserver: Send + Sync {
    /// Transaction `tid` is durable and its revoked blocks will not be written home any more.
    /// Called before the waiters for `tid` are woken, and in the order of transactions.
    fn committed(&self, tid: Tid);
    /// A commit of a journal without a log could not write all blocks, and the journal continues
    /// ([`FailedWrite::Continue`]).
    fn unwritten(&self, _cause: &Error) {}
    /// The journal stopped; called once.
    fn aborted(&self, cause: &Error);
}

/// An observer that does nothing.
pub struct NoObserver;

impl CommitObserver for NoObserver {
    fn committed(&self, _tid: Tid) {}
    fn aborted(&self, _cause: &Error) {}
}

/// Parameters of [`crate::Journal::open`].
pub struct Config {
    /// Device of the file system: checkpoints write to it, and commits without a log.
    pub home: Arc<dyn BlockDevice>,
    /// Bytes of a block of the file system and of the log.
    pub block_size: u32,
    /// The log; `None`: commits write home directly.
    pub log: Option<Log>,
    /// Reaction to a failed write, without a log.
    pub failed_write: FailedWrite,
    /// Called at each commit; see [`CommitObserver`].
    pub observer: Arc<dyn CommitObserver>,
    /// Threads that run commits.
    pub threads: Threads,
    /// Whether handles may start at once.
    pub start: Start,
    /// A dirty transaction is committed after this long (background threads only).
    pub commit_interval: Duration,
    /// Longest time for which a commit waits for further callers (background threads only).
    pub max_batch: Duration,
    /// Most credits of a transaction, in blocks, however long the log is: bounds the memory that
    /// one commit pins.
    pub transaction_max_blocks: u32,
    /// Checksums of the blocks of the log.
    pub checksums: Checksums,
    /// Width of block numbers in the log.
    pub width: Width,
    /// Use of fast commits.
    pub fast_commits: FastCommits,
    /// How the log knows which of its transactions are home.
    #[cfg(any(test, feature = "experiments"))]
    pub tracking: Tracking,
    /// Clock for commit intervals and the times in commit blocks.
    pub clock: Arc<dyn Clock>,
}

impl Config {
    /// Without a log, stopped by a failed write, no observer, inline, open, 5 s, batches of at most
    /// 15 ms, transactions of at most 16384 blocks, csum v3, 64 bits, counted blocks, system clock.
    pub fn new(home: Arc<dyn BlockDevice>, block_size: u32) -> Config {
        Config {
            home,
            block_size,
            log: None,
            failed_write: FailedWrite::Stop,
            observer: Arc::new(NoObserver),
            threads: Threads::Inline,
            start: Start::Open,
            commit_interval: Duration::from_secs(5),
            max_batch: Duration::from_millis(15),
            transaction_max_blocks: 16384,
            checksums: Checksums::V3,
            width: Width::Wide,
            fast_commits: FastCommits::Never,
            #[cfg(any(test, feature = "experiments"))]
            tracking: Tracking::Counted,
            clock: Arc::new(RealClock::new()),
        }
    }

    #[cfg(any(test, feature = "experiments"))]
    pub(crate) fn tracking(&self) -> Tracking {
        self.tracking
    }

    #[cfg(not(any(test, feature = "experiments")))]
    pub(crate) fn tracking(&self) -> Tracking {
        Tracking::Counted
    }
}
