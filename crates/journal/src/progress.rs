//! State of commits that the waiters and the background threads share.
//!
//! Locking: all of it is under `Engine::progress` (`Rank::JournalState`). The protocol is in
//! [`crate::group_commit`].

use crate::error::Error;
use crate::gathering::Gathering;
use crate::live::Stamp;
use crate::rendering::Rendering;
use crate::waiters::Waiters;
use std::time::Duration;
use uext4_format::Tid;
use uext4_sync::Arc;

/// State of commits, for the waiters and the background threads.
pub(crate) struct Progress {
    /// Last durable transaction.
    pub(crate) committed: Tid,
    /// Changes up to this one are being committed: a full commit of a transaction that is not empty
    /// ([`Stamp::last`]), or a fast one.
    pub(crate) committing: Option<Stamp>,
    /// Changes of this transaction up to this round are durable by fast commits.
    pub(crate) fast: Option<Stamp>,
    /// Number of the last commit that has closed.
    pub(crate) closed: u64,
    /// Number of the last commit that has ended: that of `closed`, or the one before.
    pub(crate) ended: u64,
    /// Number of the last full commit that has ended.
    pub(crate) full_ended: u64,
    /// When the last full commit ended, on the monotonic clock.
    pub(crate) ended_at: Duration,
    /// Number of the commit that a caller leads.
    pub(crate) led: Option<u64>,
    /// Number of the last commit that a caller needed.
    pub(crate) needed: u64,
    /// Number of the last commit that the commit thread must run if no caller does. It is full.
    pub(crate) asked: u64,
    /// Number of the last commit that must be full for a caller.
    pub(crate) full_needed: u64,
    /// Without a log: why the last commit is in memory only.
    pub(crate) late: Option<Error>,
    /// The log is more than half full.
    pub(crate) checkpoint_wanted: bool,
    /// The background threads must end.
    pub(crate) ending: bool,
    /// Of the commits with even and with odd numbers.
    pub(crate) waiters: [Waiters; 2],
    pub(crate) gathering: Gathering,
    /// What waiters of the commit that has closed last may render, and how many of them.
    pub(crate) rendering: Option<(Arc<Rendering>, usize)>,
    /// Waiters that render.
    pub(crate) helping: usize,
}

/// Kind of a commit.
#[cfg(all(test, not(shuttle)))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommitKind {
    Full,
    /// A fast one, if the transaction allows it.
    Any,
}

impl Progress {
    /// Nothing runs; the next transaction is `first`.
    pub(crate) fn new(first: Tid, now: Duration, max_batch: Duration) -> Self {
        Self {
            committed: Tid(first.0.wrapping_sub(1)),
            committing: None,
            fast: None,
            closed: 0,
            ended: 0,
            full_ended: 0,
            ended_at: now,
            led: None,
            needed: 0,
            asked: 0,
            full_needed: 0,
            late: None,
            checkpoint_wanted: false,
            ending: false,
            waiters: [Waiters::default(); 2],
            gathering: Gathering::new(max_batch),
            rendering: None,
            helping: 0,
        }
    }

    /// Number of the commit that makes `change` durable, or finds that nothing is logged.
    pub(crate) fn need(&mut self, change: Stamp) -> u64 {
        if self.committing.is_some_and(|last| last.covers(change)) {
            return self.closed;
        }
        self.needed = self.closed + 1;
        self.needed
    }

    /// Whether the next commit must be full.
    pub(crate) fn needs_full(&self) -> bool {
        self.asked.max(self.full_needed) > self.full_ended
    }

    /// Kind of the next commit, if a caller waits for it.
    #[cfg(all(test, not(shuttle)))]
    pub(crate) fn next(&self) -> Option<CommitKind> {
        let kind = if self.needs_full() {
            CommitKind::Full
        } else {
            CommitKind::Any
        };
        Some(kind).filter(|_| self.needed > self.closed)
    }

    /// The commit closes.
    pub(crate) fn close(&mut self, now: Duration) {
        self.closed += 1;
        self.gathering.closed_at = now;
    }

    /// The commit that has closed last ends.
    pub(crate) fn end(&mut self, now: Duration) {
        self.committing = None;
        self.ended = self.closed;
        let (ended, is_led) = (self.ended, self.led == Some(self.ended));
        let joined = self.waiters(ended).early + usize::from(is_led);
        let next = self.waiters(ended + 1).early;
        self.gathering.end(joined + next, now);
        self.waiters(ended).serve();
    }

    pub(crate) fn is_durable(&self, change: Stamp) -> bool {
        self.is_committed(change) || self.fast.is_some_and(|last| last.covers(change))
    }

    /// Whether a full commit made it durable.
    pub(crate) fn is_committed(&self, change: Stamp) -> bool {
        !change.tid.is_after(self.committed)
    }

    pub(crate) fn waiters(&mut self, number: u64) -> &mut Waiters {
        let [even, odd] = &mut self.waiters;
        if number.is_multiple_of(2) { even } else { odd }
    }
}
