//! What the journal did, in numbers.

use std::time::Duration;
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
    /// Time with the gate closed: no handle could start.
    pub drain: Duration,
    /// Time to render and merge.
    pub render: Duration,
    /// Time to write the log (or home, without a log).
    pub write: Duration,
    /// Time to flush.
    pub flush: Duration,
    /// Time to publish and tell the observer.
    pub publish: Duration,
}

/// The counters behind [`Stats`]; changed by the committing side only.
#[derive(Default)]
pub(crate) struct Times {
    pub(crate) transactions: AtomicU64,
    pub(crate) image_blocks: AtomicU64,
    pub(crate) log_blocks: AtomicU64,
    pub(crate) revoked_blocks: AtomicU64,
    pub(crate) checkpointed_blocks: AtomicU64,
    pub(crate) drain_ns: AtomicU64,
    pub(crate) render_ns: AtomicU64,
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
        Self::add(counter, start.elapsed().as_nanos() as u64);
        result
    }

    pub(crate) fn snapshot(&self, handles: u64, transaction_limit_blocks: u32) -> Stats {
        let ns = |counter: &AtomicU64| Duration::from_nanos(counter.load(Relaxed));
        Stats {
            transactions: self.transactions.load(Relaxed),
            handles,
            image_blocks: self.image_blocks.load(Relaxed),
            log_blocks: self.log_blocks.load(Relaxed),
            revoked_blocks: self.revoked_blocks.load(Relaxed),
            checkpointed_blocks: self.checkpointed_blocks.load(Relaxed),
            transaction_limit_blocks,
            drain: ns(&self.drain_ns),
            render: ns(&self.render_ns),
            write: ns(&self.write_ns),
            flush: ns(&self.flush_ns),
            publish: ns(&self.publish_ns),
        }
    }
}
