//! Group commit: which thread runs a commit, and which ones wait for it.
//!
//! A caller that needs a commit *leads* it, if no other caller leads one: no other thread has to
//! wake up for it. Callers that come meanwhile need the next commit; when the running one ends, one
//! of them leads that, for all of them.
//!
//! Commits, full and fast ones, are numbered. A commit *closes* when it has drained the handles: a
//! later caller needs the next number. If one of the callers needs a full commit, the next commit
//! to begin is full, however many others would do with a fast one. At most two numbers that have
//! not ended have waiters, and those of one number wait on a condition variable of their own
//! ([`crate::waiters`]). So the end of a commit wakes its own waiters and one leader.
//!
//! A leader gathers the callers that are likely to come ([`crate::gathering`]) before its commit
//! begins. It leaves a large commit to the commit thread, and waits for it.
//!
//! The commit thread and [`crate::Journal::quiesce`] commit without leading: each commit holds
//! `one_commit`, and a leader that gets it later finds its commit ended.

use crate::engine::Engine;
use crate::fast::Fast;
use crate::live::Stamp;
use crate::progress::Progress;
use crate::{Error, Threads};
use uext4_format::Tid;
use uext4_sync::{MutexGuard, handle_point, thread};

/// Whether the device was flushed since a caller asked for its change to be durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flushed {
    Since,
    /// The last flush may have started before the caller asked.
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
        progress.ask_for_next();
        self.work.notify_all();
    }

    /// Waits until `tid` is durable, or until a commit found that it logged nothing; runs that
    /// commit if no other caller runs one.
    pub(crate) fn wait_durable(&self, tid: Tid) -> Result<(), Error> {
        self.wait_commit(Stamp::last(tid), None).map(drop)
    }

    /// As [`Self::wait_durable`] for `change`, by a fast commit if `fast` has what it needs.
    ///
    /// The end of any commit is not enough. For example, commit 7 has drained the handles when
    /// thread A changes an inode: A needs number 8 ([`Progress::need`]). If A needs it to be full,
    /// but its leader has read [`Progress::needs_full`] before, commit 8 may end as a fast one; A
    /// needs number 9 then.
    ///
    /// Nor does every wait end with a durable change. For example, nothing is logged: the empty
    /// transaction stays open, and A returns when a full commit of its number has ended.
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
            progress.need_full(number);
        }
        let flushed = if number <= progress.closed() {
            Flushed::Before
        } else {
            Flushed::Since
        };
        while !progress.is_durable(change) && !progress.has_ended_full(number) {
            self.gate.check()?;
            if number <= progress.ended() {
                // It was a fast commit that was about to close; the next one is full.
                let ended = std::mem::replace(&mut number, progress.need(change));
                self.wake_more(progress, ended);
                progress = self.progress.lock();
                continue;
            }
            if progress.is_led() || number <= progress.closed() {
                self.await_end(&mut progress, number);
                if number == progress.closed()
                    && number > progress.ended()
                    && let Some(work) = progress.join_rendering()
                {
                    drop(progress);
                    self.help(work);
                    progress = self.progress.lock();
                }
                continue;
            }
            progress.lead(number);
            self.gather(&mut progress, number);
            drop(progress);
            let led = self.lead(change, number, fast.as_mut());
            if self.threads == Threads::Inline {
                // One thread: the caller gets the error itself. With threads, all callers that
                // share a commit get the same answer: the journal has stopped.
                led?;
            }
            progress = self.progress.lock();
        }
        if number > progress.closed() {
            // Durable without this commit, after unwritten ones: this thread may be the one that
            // was woken to lead it.
            self.wake_leader(&mut progress);
        }
        let answer = match progress.unwritten() {
            _ if progress.is_durable(change) => Ok(flushed),
            Some(unwritten) => Err(unwritten.clone()),
            None => self.gate.check().map(|()| flushed),
        };
        self.wake_more(progress, number);
        answer
    }

    /// Runs the commit of this number, unless another thread has run it. An error stops the
    /// journal or is in [`Progress::unwritten`].
    fn lead(&self, change: Stamp, number: u64, fast: Option<&mut Fast<'_>>) -> Result<(), Error> {
        let _lead = Lead(self, number);
        let mut area = self.one_commit.lock();
        let (is_over, needs_full) = {
            let progress = self.progress.lock();
            let is_over = progress.is_durable(change) || progress.has_ended_full(number);
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
        progress.ask_for(number);
        self.work.notify_all();
        while !progress.has_ended_full(number) {
            self.gate.check()?;
            self.await_end(&mut progress, number);
        }
        Ok(())
    }

    /// Ends the lead of the commit of this number, if a caller has it, and wakes the next leader.
    fn pass_lead(&self, progress: &mut MutexGuard<'_, Progress>, number: u64) {
        if progress.is_led_as(number) {
            progress.end_lead();
            self.wake_leader(progress);
        }
    }

    /// Ends the commit that has closed last.
    pub(crate) fn end_commit(&self, mut progress: MutexGuard<'_, Progress>) {
        progress.end(self.now());
        if progress.is_led() {
            // Its leader may still gather callers.
            self.gathered.notify_one();
        }
        // The next leader before the many that this commit served.
        let ended = progress.ended();
        self.pass_lead(&mut progress, ended);
        self.wake_more(progress, ended);
    }

    pub(crate) fn wake_leader(&self, progress: &mut MutexGuard<'_, Progress>) {
        let next = progress.closed() + 1;
        if !progress.is_led() && progress.waiters(next).early() > 0 {
            self.ends.of(next).notify_one();
        }
    }

    /// Waits for the end of this commit, or for the lead of it. Wake-ups may be spurious. A caller
    /// whose commit has ended calls [`Self::wake_more`] then.
    pub(crate) fn await_end(&self, progress: &mut MutexGuard<'_, Progress>, number: u64) {
        progress.waiters(number).join();
        self.wake_gatherer(progress, number);
        self.ends.of(number).wait(progress);
        let is_over = number <= progress.ended();
        let waiters = progress.waiters(number);
        if is_over {
            waiters.leave_served();
        } else {
            waiters.leave_early();
        }
        if !is_over && waiters.has_served() {
            // Perhaps the wake-up of one of those.
            self.ends.of(number).notify_one();
        }
        if is_over && number.is_multiple_of(2) != progress.closed().is_multiple_of(2) {
            // Perhaps the call of the next leader, which uses the same condition variable.
            self.wake_leader(progress);
        }
    }

    /// Wakes some of those whose commit has ended, after the release of the lock.
    pub(crate) fn wake_more(&self, mut progress: MutexGuard<'_, Progress>, number: u64) {
        let wakes = progress.waiters(number).take_wakes();
        drop(progress);
        (0..wakes).for_each(|_| self.ends.of(number).notify_one());
    }
}
