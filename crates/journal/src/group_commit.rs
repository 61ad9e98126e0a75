//! Group commit: which thread runs a commit, and which ones wait for it.
//!
//! A caller that needs a commit *leads* it, if no other caller leads one: no other thread has to
//! wake up for it. Callers that come meanwhile need the next commit; when the running one ends, one
//! of them leads that, for all of them.
//!
//! Commits, full and fast ones, are numbered. A commit *closes* when it has drained the handles: a
//! later caller needs the next number. If one of the callers needs a full commit, the next commit
//! to begin is full, however many others would do with a fast one. At most two numbers have
//! waiters, and those of one number wait on a condition variable of their own. So the end of a
//! commit wakes its own waiters and one leader.
//!
//! A leader leaves a large commit to the commit thread, and waits for it.
//!
//! The commit thread and [`crate::Journal::quiesce`] commit without leading: each commit holds
//! `one_commit`, and a leader that gets it later finds its commit ended.

use crate::engine::Engine;
use crate::fast::Fast;
use crate::live::Stamp;
use crate::{Error, Threads};
use std::time::Duration;
use uext4_format::Tid;
use uext4_sync::{Condvar, MutexGuard, handle_point, thread};

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
    /// Time of that.
    pub(crate) ended_at: Duration,
    /// Number of the commit that a caller leads.
    led: Option<u64>,
    /// Number of the last commit that a caller needed.
    pub(crate) needed: u64,
    /// Number of the last commit that the commit thread must run if no caller does. It is full.
    pub(crate) asked: u64,
    /// Number of the last commit that must be full for a caller.
    full_needed: u64,
    /// Without a log: why the last commit is in memory only.
    pub(crate) late: Option<Error>,
    /// The log is more than half full.
    pub(crate) checkpoint_wanted: bool,
    /// The background threads must end.
    pub(crate) ending: bool,
}

/// Kind of a commit.
#[cfg(all(test, not(shuttle)))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Full,
    /// A fast one, if the transaction allows it.
    Any,
}

impl Progress {
    /// Nothing runs; the next transaction is `first`.
    pub(crate) fn new(first: Tid, now: Duration) -> Self {
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
        }
    }

    /// Number of the commit that makes `change` durable, or finds that nothing is logged.
    fn need(&mut self, change: Stamp) -> u64 {
        if self.committing.is_some_and(|last| last.covers(change)) {
            return self.closed;
        }
        self.needed = self.closed + 1;
        self.needed
    }

    /// Whether the next commit must be full.
    fn needs_full(&self) -> bool {
        self.asked.max(self.full_needed) > self.full_ended
    }

    /// Kind of the next commit, if a caller waits for it.
    #[cfg(all(test, not(shuttle)))]
    pub(crate) fn next(&self) -> Option<Kind> {
        let kind = match self.needs_full() {
            true => Kind::Full,
            false => Kind::Any,
        };
        Some(kind).filter(|_| self.needed > self.closed)
    }

    fn is_durable(&self, change: Stamp) -> bool {
        self.is_committed(change) || self.fast.is_some_and(|last| last.covers(change))
    }

    /// Whether a full commit made it durable.
    pub(crate) fn is_committed(&self, change: Stamp) -> bool {
        !change.tid.is_after(self.committed)
    }
}

/// Condition variables of the commits with odd and with even numbers.
pub(crate) struct Ends([Condvar; 2]);

impl Ends {
    pub(crate) fn new() -> Self {
        Self([Condvar::new(), Condvar::new()])
    }

    fn of(&self, number: u64) -> &Condvar {
        let [even, odd] = &self.0;
        if number.is_multiple_of(2) { even } else { odd }
    }

    /// Wakes the waiters of this commit.
    pub(crate) fn tell(&self, number: u64) {
        self.of(number).notify_all();
    }

    /// Wakes all waiters.
    pub(crate) fn tell_all(&self) {
        self.0.iter().for_each(Condvar::notify_all);
    }
}

/// Whether the device was flushed since a caller asked for its change to be durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flushed {
    Since,
    /// Perhaps only before.
    Before,
}

/// The lead of one commit; dropping it passes the lead on.
struct Lead<'a>(&'a Engine, u64);

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            // The transaction is lost, and later ones depend on it.
            self.0.abort(Error::Panicked);
        }
        let mut progress = self.0.progress.lock();
        self.0.pass_lead(&mut progress, self.1);
    }
}

impl Engine {
    /// Asks the commit thread for a commit, without waiting.
    pub(crate) fn request_commit(&self) {
        let mut progress = self.progress.lock();
        progress.asked = progress.closed + 1;
        progress.needed = progress.asked;
        self.work.notify_all();
    }

    /// Waits until `tid` is durable, or until a commit found that it logged nothing; runs that
    /// commit if no other caller runs one.
    pub(crate) fn wait_durable(&self, tid: Tid) -> Result<(), Error> {
        self.wait_commit(Stamp::last(tid), None).map(drop)
    }

    /// As [`Self::wait_durable`] for `change`, by a fast commit if `fast` has what it needs.
    pub(crate) fn wait_commit(
        &self,
        change: Stamp,
        mut fast: Option<Fast<'_>>,
    ) -> Result<Flushed, Error> {
        handle_point();
        let mut progress = self.progress.lock();
        if progress.is_durable(change) {
            return self.gate.check().map(|()| Flushed::Before);
        }
        let mut number = progress.need(change);
        if fast.is_none() {
            progress.full_needed = progress.full_needed.max(number);
        }
        let flushed = match number <= progress.closed {
            true => Flushed::Before,
            false => Flushed::Since,
        };
        while !progress.is_durable(change) && progress.full_ended < number {
            self.gate.check()?;
            if number <= progress.ended {
                // It was a fast commit that was about to close; the next one is full.
                number = progress.need(change);
            }
            if progress.led.is_some() || number <= progress.closed {
                self.ends.of(number).wait(&mut progress);
                continue;
            }
            progress.led = Some(number);
            drop(progress);
            let led = self.lead(change, number, fast.as_mut());
            if self.threads == Threads::Inline {
                // One thread: the caller gets the error itself. With threads, all callers that
                // share a commit get the same answer: the journal has stopped.
                led?;
            }
            progress = self.progress.lock();
        }
        if number > progress.closed {
            // Durable without this commit, after late ones: this thread may be the one that was
            // woken to lead it.
            self.wake_leader(&progress);
        }
        match &progress.late {
            _ if progress.is_durable(change) => Ok(flushed),
            Some(late) => Err(late.clone()),
            None => self.gate.check().map(|()| flushed),
        }
    }

    /// Runs the commit of this number, unless another thread has run it. An error stops the
    /// journal or is in [`Progress::late`].
    fn lead(&self, change: Stamp, number: u64, fast: Option<&mut Fast<'_>>) -> Result<(), Error> {
        let _lead = Lead(self, number);
        let mut area = self.one_commit.lock();
        let (is_over, needs_full) = {
            let progress = self.progress.lock();
            let is_over = progress.is_durable(change) || progress.full_ended >= number;
            (is_over, progress.needs_full())
        };
        if is_over {
            return Ok(());
        }
        if let Some(fast) = fast.filter(|_| !needs_full) {
            let done = self.fast_commit(&mut area, fast);
            if done.inspect_err(|cause| self.abort(cause.clone()))? {
                return Ok(());
            }
        }
        if self.threads == Threads::Background && self.is_large() {
            // Its parts run in parallel, by threads that inherit the affinity of their parent, and
            // the caller may be pinned to a core.
            drop(area);
            return self.leave_to_thread(number);
        }
        self.commit_locked()
    }

    /// Waits until the commit thread has run the commit of this number.
    fn leave_to_thread(&self, number: u64) -> Result<(), Error> {
        let mut progress = self.progress.lock();
        progress.asked = progress.asked.max(number);
        self.work.notify_all();
        while progress.full_ended < number {
            self.gate.check()?;
            self.ends.of(number).wait(&mut progress);
        }
        Ok(())
    }

    /// Ends the lead of the commit of this number, if a caller has it, and wakes the next leader.
    fn pass_lead(&self, progress: &mut MutexGuard<'_, Progress>, number: u64) {
        if progress.led == Some(number) {
            progress.led = None;
            self.wake_leader(progress);
        }
    }

    /// Ends the commit that has closed last.
    pub(crate) fn end_commit(&self, mut progress: MutexGuard<'_, Progress>) {
        progress.committing = None;
        progress.ended = progress.closed;
        // The next leader before the many that this commit served.
        let ended = progress.ended;
        self.pass_lead(&mut progress, ended);
        self.ends.tell(ended);
    }

    fn wake_leader(&self, progress: &MutexGuard<'_, Progress>) {
        if progress.led.is_none() {
            self.ends.of(progress.closed + 1).notify_one();
        }
    }
}
