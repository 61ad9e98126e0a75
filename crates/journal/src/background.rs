//! The commit thread and the checkpoint thread.

use crate::Threads;
use crate::engine::Engine;
use crate::progress::Progress;
use std::time::Duration;
use uext4_sync::thread::{self, JoinHandle};
use uext4_sync::{Arc, Mutex, MutexGuard, Rank};

/// The journal's threads; dropping it ends them.
pub(crate) struct Background {
    engine: Arc<Engine>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Background {
    /// Starts no threads yet.
    pub(crate) fn new(engine: &Arc<Engine>) -> Background {
        Background {
            engine: Arc::clone(engine),
            threads: Mutex::new(Rank::Queue, Vec::new()),
        }
    }

    /// Starts the threads, unless they run or the journal works inline.
    pub(crate) fn start(&self) {
        let mut threads = self.threads.lock();
        if self.engine.threads == Threads::Inline || !threads.is_empty() {
            return;
        }
        let (commits, checkpoints) = (Arc::clone(&self.engine), Arc::clone(&self.engine));
        threads.push(thread::spawn(move || commits.commit_thread()));
        threads.push(thread::spawn(move || checkpoints.checkpoint_thread()));
    }

    /// Whether no thread of the journal runs.
    #[cfg(test)]
    pub(crate) fn is_over(&self) -> bool {
        self.threads.lock().is_empty()
    }

    /// Ends the threads and waits until each has finished the work it began.
    pub(crate) fn end(&self) {
        let threads = std::mem::take(&mut *self.threads.lock());
        {
            let mut progress = self.engine.progress.lock();
            progress.end_threads();
            self.engine.work.notify_all();
        }
        for running in threads {
            // The last owner of the journal may be the observer, on one of these threads.
            if running.thread().id() != thread::current().id() && running.join().is_err() {
                self.engine.abort(crate::Error::Panicked);
            }
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.end();
    }
}

impl Engine {
    fn is_idle(&self, progress: &Progress) -> bool {
        progress.asked().is_none() || self.gate.check().is_err()
    }

    /// Waits until a commit is asked for, or until the commit interval has passed since `since` and
    /// since the last commit. Returns the number of the commit to run, or `None` when the thread
    /// must end.
    fn await_commit(&self, since: Duration) -> Option<u64> {
        let mut progress = self.progress.lock();
        while self.is_idle(&progress) && !progress.is_ending() {
            // Read in each round: a remount may change the interval.
            let (next, ended_at) = progress.after_full();
            let since = since.max(ended_at);
            let deadline = since.saturating_add(self.commit_interval());
            let left = deadline.saturating_sub(self.clock.monotonic());
            if self.gate.check().is_err() {
                self.work.wait(&mut progress);
            } else if left.is_zero() {
                return Some(next).filter(|_| !progress.is_ending());
            } else {
                self.work.wait_for(&mut progress, left);
            }
        }
        progress.asked().filter(|_| !progress.is_ending())
    }

    fn commit_thread(&self) {
        let mut since = self.clock.monotonic();
        while let Some(number) = self.await_commit(since) {
            let is_asked = { !self.is_idle(&self.progress.lock()) };
            if is_asked || self.is_dirty() || !self.unwritten.is_empty() {
                let _one = self.one_commit.lock();
                let is_over = { self.progress.lock().has_ended_full(number) };
                if !is_over {
                    // `commit_locked` has already stopped the journal and woken the waiters on an
                    // error.
                    let _told = self.commit_locked();
                }
            }
            since = self.clock.monotonic();
        }
    }

    fn checkpoint_thread(&self) {
        let Some(log) = self.log.get() else { return };
        while Self::await_checkpoint(self, self.progress.lock()) {
            if let Err(cause) = self.checkpoint(log, Self::comfortable_blocks(log)) {
                self.abort(cause);
            }
        }
    }

    /// Waits until a checkpoint is requested; false: the thread must end.
    fn await_checkpoint(&self, mut progress: MutexGuard<'_, Progress>) -> bool {
        while !(progress.is_ending() || progress.wants_checkpoint() && self.gate.check().is_ok()) {
            self.work.wait(&mut progress);
        }
        progress.begin_checkpoint();
        !progress.is_ending()
    }
}
