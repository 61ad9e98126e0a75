//! Counters and timings of the journal.

use std::time::Duration;
use uext4_num::clamp_u64;
use uext4_sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Totals since the journal was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Transactions committed.
    pub transactions: u64,
    /// Handles that ended.
    pub handles: u64,
    /// Images committed, in blocks.
    pub image_blocks: u64,
    /// Blocks written to the log, descriptors and commit blocks included.
    pub log_blocks: u64,
    /// Blocks revoked.
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
    /// Checkpoint passes.
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
    /// Time to flush.
    pub flush: Duration,
    /// Time to publish images and to call the observer.
    pub publish: Duration,
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
}

impl Times {
    /// Adds to a counter.
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

    /// A snapshot of these counters; all other fields are 0.
    pub(crate) fn snapshot(&self) -> Stats {
        let ns = |counter: &AtomicU64| Duration::from_nanos(counter.load(Relaxed));
        Stats {
            transactions: self.transactions.load(Relaxed),
            requested: self.requested.load(Relaxed),
            handle_waits: self.handle_waits.load(Relaxed),
            handle_wait: ns(&self.handle_wait_ns),
            running: ns(&self.running_ns),
            commit: ns(&self.commit_ns),
            checkpoints: self.checkpoints.load(Relaxed),
            checkpoint: ns(&self.checkpoint_ns),
            bookkeeping: ns(&self.bookkeeping_ns),
            freeing: ns(&self.freeing_ns),
            image_blocks: self.image_blocks.load(Relaxed),
            log_blocks: self.log_blocks.load(Relaxed),
            revoked_blocks: self.revoked_blocks.load(Relaxed),
            checkpointed_blocks: self.checkpointed_blocks.load(Relaxed),
            drain: ns(&self.drain_ns),
            render: ns(&self.render_ns),
            encode: ns(&self.encode_ns),
            write: ns(&self.write_ns),
            flush: ns(&self.flush_ns),
            publish: ns(&self.publish_ns),
            ..Stats::default()
        }
    }
}
