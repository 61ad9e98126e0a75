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
    /// Last transaction whose full commit is durable.
    committed: Tid,
    /// Changes up to this one are being committed: a full commit of a transaction that is not empty
    /// ([`Stamp::last`]), or a fast one.
    committing: Option<Stamp>,
    /// Changes of this transaction up to this round are durable by fast commits.
    fast: Option<Stamp>,
    /// Number of the last commit that has closed.
    closed: u64,
    /// Number of the last commit that has ended: that of `closed`, or the one before.
    ended: u64,
    /// Number of the last full commit that has ended.
    full_ended: u64,
    /// When the last full commit ended, on the monotonic clock.
    ended_at: Duration,
    /// Number of the commit that a caller leads.
    led: Option<u64>,
    /// Number of the last commit that a caller needed.
    needed: u64,
    /// Number of the last commit that the commit thread must run if no caller does. It is full.
    asked: u64,
    /// Number of the last commit that must be full for a caller.
    full_needed: u64,
    /// Without a log: why the last commit is in memory only.
    unwritten: Option<Error>,
    /// The log is more than half full.
    checkpoint_wanted: bool,
    /// The background threads must end.
    ending: bool,
    /// Of the commits with even and with odd numbers.
    waiters: [Waiters; 2],
    gathering: Gathering,
    /// What waiters of the commit that has closed last may render, and how many of them.
    rendering: Option<(Arc<Rendering>, usize)>,
    /// Number of waiters that render.
    helping: usize,
}

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
            unwritten: None,
            checkpoint_wanted: false,
            ending: false,
            waiters: [Waiters::default(); 2],
            gathering: Gathering::new(max_batch),
            rendering: None,
            helping: 0,
        }
    }

    /// Makes `next` the running transaction; all before it are durable.
    pub(crate) fn begin_with(&mut self, next: Tid) {
        self.committed = Tid(next.0.wrapping_sub(1));
    }

    /// Number of the last commit that has closed.
    pub(crate) fn closed(&self) -> u64 {
        self.closed
    }

    /// Number of the last commit that has ended.
    pub(crate) fn ended(&self) -> u64 {
        self.ended
    }

    /// Whether a full commit of this number, or of a later one, has ended.
    pub(crate) fn has_ended_full(&self, number: u64) -> bool {
        self.full_ended >= number
    }

    /// Number of the commit that makes `change` durable, or finds that nothing is logged.
    pub(crate) fn need(&mut self, change: Stamp) -> u64 {
        if self.committing.is_some_and(|last| last.covers(change)) {
            return self.closed;
        }
        self.needed = self.closed + 1;
        self.needed
    }

    /// A caller needs the commit of this number to be full.
    pub(crate) fn need_full(&mut self, number: u64) {
        self.full_needed = self.full_needed.max(number);
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

    /// The next commit closes, for these changes.
    pub(crate) fn close(&mut self, now: Duration, changes: Option<Stamp>) {
        self.closed += 1;
        self.gathering.close(now);
        self.committing = changes;
    }

    /// The commit that has closed last was a fast one, and its changes are durable.
    pub(crate) fn end_fast(&mut self) {
        self.fast = self.committing;
    }

    /// The commit that has closed last was a full one: `durable` is the last durable transaction,
    /// `unwritten` the reason why what it wrote is in memory only. Returns whether a caller needed
    /// it.
    pub(crate) fn end_full(
        &mut self,
        durable: Option<Tid>,
        unwritten: Option<Error>,
        now: Duration,
    ) -> bool {
        self.committed = durable.unwrap_or(self.committed);
        self.unwritten = unwritten;
        self.full_ended = self.closed;
        self.ended_at = now;
        self.needed >= self.closed
    }

    /// The commit that has closed last ends.
    pub(crate) fn end(&mut self, now: Duration) {
        self.committing = None;
        self.ended = self.closed;
        let (ended, is_led) = (self.ended, self.is_led_as(self.ended));
        let joined = self.waiters(ended).early() + usize::from(is_led);
        let next = self.waiters(ended + 1).early();
        self.gathering.end(joined + next, now);
        self.waiters(ended).serve();
    }

    /// Why the last commit is in memory only.
    pub(crate) fn unwritten(&self) -> Option<&Error> {
        self.unwritten.as_ref()
    }

    pub(crate) fn is_durable(&self, change: Stamp) -> bool {
        self.is_committed(change) || self.fast.is_some_and(|last| last.covers(change))
    }

    /// Whether a full commit made it durable.
    pub(crate) fn is_committed(&self, change: Stamp) -> bool {
        !change.tid.is_after(self.committed)
    }

    /// A caller leads the commit of this number.
    pub(crate) fn lead(&mut self, number: u64) {
        self.led = Some(number);
    }

    /// Whether a caller leads a commit.
    pub(crate) fn is_led(&self) -> bool {
        self.led.is_some()
    }

    /// Whether a caller leads the commit of this number.
    pub(crate) fn is_led_as(&self, number: u64) -> bool {
        self.led == Some(number)
    }

    pub(crate) fn end_lead(&mut self) {
        self.led = None;
    }

    /// Asks the commit thread for the next commit.
    pub(crate) fn ask_for_next(&mut self) {
        self.asked = self.closed + 1;
        self.needed = self.asked;
    }

    /// Asks the commit thread for the commit of this number.
    pub(crate) fn ask_for(&mut self, number: u64) {
        self.asked = self.asked.max(number);
    }

    /// Number of the commit that the commit thread is asked for, unless a full one has ended since.
    pub(crate) fn asked(&self) -> Option<u64> {
        Some(self.asked).filter(|asked| *asked > self.full_ended)
    }

    /// Number of the commit that follows the last full one, and the time of that one's end.
    pub(crate) fn after_full(&self) -> (u64, Duration) {
        (self.full_ended + 1, self.ended_at)
    }

    pub(crate) fn want_checkpoint(&mut self) {
        self.checkpoint_wanted = true;
    }

    /// Whether a checkpoint is asked for.
    pub(crate) fn wants_checkpoint(&self) -> bool {
        self.checkpoint_wanted
    }

    /// The checkpoint that was asked for begins.
    pub(crate) fn begin_checkpoint(&mut self) {
        self.checkpoint_wanted = false;
    }

    /// Lets the background threads end.
    pub(crate) fn end_threads(&mut self) {
        self.ending = true;
    }

    /// Whether the background threads must end.
    pub(crate) fn is_ending(&self) -> bool {
        self.ending
    }

    /// How callers are gathered for one commit.
    pub(crate) fn gathering(&mut self) -> &mut Gathering {
        &mut self.gathering
    }

    /// Whether callers are expected in addition to the leader of this commit and its waiters.
    pub(crate) fn lacks_callers(&mut self, number: u64) -> bool {
        self.waiters(number).early() + 1 < self.gathering.expected()
    }

    /// Offers the rendering of the commit that has closed last to so many waiters.
    pub(crate) fn offer_rendering(&mut self, work: &Arc<Rendering>, waiters: usize) {
        self.rendering = Some((Arc::clone(work), waiters));
    }

    /// Takes part in the rendering, if it wants more threads.
    pub(crate) fn join_rendering(&mut self) -> Option<Arc<Rendering>> {
        let (work, wanted) = self.rendering.as_mut()?;
        *wanted = wanted.checked_sub(1)?;
        self.helping += 1;
        Some(Arc::clone(work))
    }

    /// Lets no more waiters take part.
    pub(crate) fn close_rendering(&mut self) {
        self.rendering = None;
    }

    /// Waiters that take part.
    pub(crate) fn helping(&self) -> usize {
        self.helping
    }

    /// A waiter has done its part; answers how many others have not.
    pub(crate) fn leave_rendering(&mut self) -> usize {
        self.helping -= 1;
        self.helping
    }

    /// The waiters of the commit of this number.
    pub(crate) fn waiters(&mut self, number: u64) -> &mut Waiters {
        let [even, odd] = &mut self.waiters;
        if number.is_multiple_of(2) { even } else { odd }
    }
}
