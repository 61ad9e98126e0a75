//! Counters and timings of the journal.

use crate::FullReason;
use crate::reasons::Reasons;
use std::time::Duration;
use uext4_format::fast_commit::Record;
use uext4_num::{clamp_u64, u64_of};
use uext4_sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Reasons of full commits, counted.
const REASONS: usize = FullReason::ALL.len();

/// Totals of fast commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FastStats {
    /// The number of fast commits.
    pub commits: u64,
    /// Fast commits of one block, of two, and of more.
    pub by_blocks: [u64; 3],
    /// Blocks that fast commits wrote to the log.
    pub blocks: u64,
    /// Bytes of their records.
    pub bytes: u64,
    /// Records of inodes among them.
    pub inodes: u64,
    /// Time of their writes and flushes.
    pub time: Duration,
    /// Requests that needed a full commit, by the reasons' order in [`FullReason::ALL`].
    pub full: [u64; REASONS],
}

/// Totals since the journal was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// The number of transactions with a commit block.
    pub transactions: u64,
    /// The number of handles that ended.
    pub handles: u64,
    /// Images committed, in blocks.
    pub image_blocks: u64,
    /// Blocks written to the log, descriptors and commit blocks included.
    pub log_blocks: u64,
    /// The number of blocks in revoke records.
    pub revoked_blocks: u64,
    /// Blocks written home by checkpoints.
    pub checkpointed_blocks: u64,
    /// Credits of a whole transaction, in blocks.
    pub transaction_limit_blocks: u32,
    /// Commits that a caller requested; the timer started the others.
    pub requested: u64,
    /// Handles that waited for a transaction.
    pub handle_waits: u64,
    /// Sum of these waits.
    pub handle_wait: Duration,
    /// From the first change of a transaction until its gate closed.
    pub running: Duration,
    /// Time of commits, from the closing of the gate to their end.
    pub commit: Duration,
    /// The number of checkpoints that wrote blocks home.
    pub checkpoints: u64,
    /// Time of these passes.
    pub checkpoint: Duration,
    /// Time to update the map of newest images and the records, in commits and checkpoints.
    pub bookkeeping: Duration,
    /// Time to free images that were replaced, written home, or revoked.
    pub freeing: Duration,
    /// Blocks of the log that transactions can use; 0 without a log.
    pub log_len_blocks: u32,
    /// The free ones among them.
    pub log_free_blocks: u32,
    /// Committed images that wait for their home write, in blocks.
    pub waiting_blocks: u64,
    /// Time with the gate closed, when no handle could start.
    pub drain: Duration,
    /// Time to render, and to read the unrendered bytes of the blocks.
    pub render: Duration,
    /// Time to checksum and encode log blocks.
    pub encode: Duration,
    /// Time to write the log (or home, without a log).
    pub write: Duration,
    /// Time of the flushes of commits, in total.
    pub flush: Duration,
    /// Time to publish images and to call the observer.
    pub publish: Duration,
    /// Counters and times of fast commits.
    pub fast: FastStats,
}

/// Atomic counters behind [`Stats`]; changed by committing threads and by waiting handles.
#[derive(Default)]
pub(crate) struct Times {
    pub(crate) transactions: AtomicU64,
    pub(crate) image_blocks: AtomicU64,
    pub(crate) log_blocks: AtomicU64,
    pub(crate) revoked_blocks: AtomicU64,
    pub(crate) checkpointed_blocks: AtomicU64,
    pub(crate) requested: AtomicU64,
    pub(crate) handle_waits: AtomicU64,
    pub(crate) handle_wait_ns: AtomicU64,
    pub(crate) running_ns: AtomicU64,
    pub(crate) commit_ns: AtomicU64,
    pub(crate) checkpoints: AtomicU64,
    pub(crate) checkpoint_ns: AtomicU64,
    pub(crate) bookkeeping_ns: AtomicU64,
    pub(crate) freeing_ns: AtomicU64,
    pub(crate) drain_ns: AtomicU64,
    pub(crate) render_ns: AtomicU64,
    pub(crate) encode_ns: AtomicU64,
    pub(crate) write_ns: AtomicU64,
    pub(crate) flush_ns: AtomicU64,
    pub(crate) publish_ns: AtomicU64,
    fast_commits: [AtomicU64; 3],
    fast_blocks: AtomicU64,
    fast_bytes: AtomicU64,
    fast_inodes: AtomicU64,
    pub(crate) fast_ns: AtomicU64,
    full: [AtomicU64; REASONS],
}

impl Times {
    pub(crate) fn add(counter: &AtomicU64, n: u64) {
        counter.fetch_add(n, Relaxed);
    }

    /// Runs `work` and adds its time to `counter`.
    pub(crate) fn time<T>(counter: &AtomicU64, work: impl FnOnce() -> T) -> T {
        let start = std::time::Instant::now();
        let result = work();
        Self::add(counter, clamp_u64(start.elapsed().as_nanos()));
        result
    }

    /// Counts a fast commit of `blocks` blocks with these records.
    pub(crate) fn count_fast(&self, blocks: u64, records: &[Record]) {
        let place = match blocks {
            0 | 1 => 0,
            2 => 1,
            _ => 2,
        };
        let inodes = records
            .iter()
            .filter(|record| matches!(record, Record::Inode { .. }))
            .count();
        let bytes = records.iter().map(Record::encoded_bytes).sum();
        Self::add(&self.fast_commits[place], 1);
        Self::add(&self.fast_blocks, blocks);
        Self::add(&self.fast_bytes, u64_of(bytes));
        Self::add(&self.fast_inodes, u64_of(inodes));
    }

    /// Counts a request that needed a full commit.
    pub(crate) fn count_full(&self, reasons: Reasons) {
        reasons.places().for_each(|at| Self::add(&self.full[at], 1));
    }

    fn fast(&self) -> FastStats {
        let by_blocks = self
            .fast_commits
            .each_ref()
            .map(|count| count.load(Relaxed));
        FastStats {
            commits: by_blocks.iter().sum(),
            by_blocks,
            blocks: self.fast_blocks.load(Relaxed),
            bytes: self.fast_bytes.load(Relaxed),
            inodes: self.fast_inodes.load(Relaxed),
            time: Duration::from_nanos(self.fast_ns.load(Relaxed)),
            full: self.full.each_ref().map(|count| count.load(Relaxed)),
        }
    }

    /// A snapshot of these counters; all other fields are 0.
    pub(crate) fn snapshot(&self) -> Stats {
        Stats {
            transactions: self.transactions.load(Relaxed),
            requested: self.requested.load(Relaxed),
            handle_waits: self.handle_waits.load(Relaxed),
            handle_wait: duration(&self.handle_wait_ns),
            running: duration(&self.running_ns),
            commit: duration(&self.commit_ns),
            checkpoints: self.checkpoints.load(Relaxed),
            checkpoint: duration(&self.checkpoint_ns),
            bookkeeping: duration(&self.bookkeeping_ns),
            freeing: duration(&self.freeing_ns),
            image_blocks: self.image_blocks.load(Relaxed),
            log_blocks: self.log_blocks.load(Relaxed),
            revoked_blocks: self.revoked_blocks.load(Relaxed),
            checkpointed_blocks: self.checkpointed_blocks.load(Relaxed),
            drain: duration(&self.drain_ns),
            render: duration(&self.render_ns),
            encode: duration(&self.encode_ns),
            write: duration(&self.write_ns),
            flush: duration(&self.flush_ns),
            publish: duration(&self.publish_ns),
            fast: self.fast(),
            ..Stats::default()
        }
    }
}

fn duration(counter: &AtomicU64) -> Duration {
    Duration::from_nanos(counter.load(Relaxed))
}
