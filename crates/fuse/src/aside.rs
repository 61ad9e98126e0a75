//! Threads for requests that take long, so that the thread that brought them goes on.
//!
//! They are started when there is work and nobody idle, and end with the mount. A request that
//! makes the kernel send more requests before it is answered ([`crate::server::Pace::Asks`]) must
//! come here: its own thread may be the one that those wait for.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use uext4_sync::{Condvar, Mutex, Rank};

/// Threads at most: enough for a group of waiting `fsync` calls.
const THREADS_MAX: usize = 32;

/// Work for a helper.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// The threads of one mount.
pub(crate) struct Helpers {
    state: Mutex<State>,
    work: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    n_busy: usize,
    threads: Vec<JoinHandle<()>>,
    stopped: bool,
}

impl State {
    /// Helpers without a job, also those that are only starting.
    fn n_free(&self) -> usize {
        self.threads.len() - self.n_busy
    }
}

impl Helpers {
    /// Starts the first.
    ///
    /// # Errors
    /// It cannot be started.
    pub(crate) fn new() -> io::Result<Arc<Self>> {
        let state = Mutex::new(Rank::Queue, State::default());
        let work = Condvar::new();
        let helpers = Arc::new(Self { state, work });
        let first = helpers.start(0)?;
        helpers.state.lock().threads.push(first);
        Ok(helpers)
    }

    /// Leaves a job. When no other helper can be started it waits for one that is there.
    pub(crate) fn leave(self: &Arc<Self>, job: Job) {
        let mut state = self.state.lock();
        self.make_one_idle(&mut state);
        state.jobs.push_back(job);
        drop(state);
        self.work.notify_one();
    }

    /// Leaves a job to a helper that does nothing else; gives it back when there is none, so that
    /// it never waits for jobs that may wait for it.
    pub(crate) fn leave_now(self: &Arc<Self>, job: Job) -> Result<(), Job> {
        let mut state = self.state.lock();
        if !self.make_one_idle(&mut state) {
            return Err(job);
        }
        state.jobs.push_back(job);
        drop(state);
        self.work.notify_one();
        Ok(())
    }

    /// Whether there is a helper for one more job.
    fn make_one_idle(self: &Arc<Self>, state: &mut State) -> bool {
        if state.jobs.len() < state.n_free() {
            return true;
        }
        let index = state.threads.len();
        let started = (index < THREADS_MAX).then(|| self.start(index).ok());
        let Some(Some(thread)) = started else {
            return false;
        };
        state.threads.push(thread);
        true
    }

    fn start(self: &Arc<Self>, index: usize) -> io::Result<JoinHandle<()>> {
        let helpers = self.clone();
        let name = format!("uext4-help-{index}");
        thread::Builder::new().name(name).spawn(move || {
            let _guard = AbortOnPanic;
            while let Some(job) = helpers.next() {
                job();
                helpers.state.lock().n_busy -= 1;
            }
        })
    }

    fn next(&self) -> Option<Job> {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                state.n_busy += 1;
                return Some(job);
            }
            if state.stopped {
                return None;
            }
            self.work.wait(&mut state);
        }
    }

    /// Waits until all is done and ends the threads. Nobody leaves a job any more.
    pub(crate) fn finish(&self) {
        let mut state = self.state.lock();
        state.stopped = true;
        // Nobody counts the free ones any more.
        let threads: Vec<_> = state.threads.drain(..).collect();
        drop(state);
        self.work.notify_all();
        for thread in threads {
            // A panic has ended the process.
            let _ = thread.join();
        }
    }
}

/// Takes the process down when its thread panics: what was half done is in a transaction that
/// never commits.
pub(crate) struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            std::process::abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    #[test]
    fn jobs_that_wait_for_each_other_are_done() {
        let helpers = Helpers::new().expect("a thread starts");
        let (to_second, from_first) = channel();
        let (to_first, from_second) = channel();
        let first = move || {
            to_second.send(1).expect("the second waits");
            assert_eq!(from_second.recv(), Ok(2));
        };
        let second = move || {
            assert_eq!(from_first.recv(), Ok(1));
            to_first.send(2).expect("the first waits");
        };
        helpers.leave(Box::new(second));
        helpers.leave(Box::new(first));
        helpers.finish();
    }

    #[test]
    fn what_was_left_is_done_before_the_end() {
        let helpers = Helpers::new().expect("a thread starts");
        let (sender, receiver) = channel();
        for number in 0..200 {
            let sender = sender.clone();
            let job = move || sender.send(number).expect("the test waits");
            helpers.leave(Box::new(job));
        }
        helpers.finish();
        let mut done: Vec<i32> = receiver.try_iter().collect();
        done.sort_unstable();
        assert_eq!(done, (0..200).collect::<Vec<_>>());
    }

    #[test]
    fn a_job_that_others_wait_for_is_given_back_when_all_wait() {
        let helpers = Helpers::new().expect("a thread starts");
        let gate = Arc::new(std::sync::Barrier::new(THREADS_MAX + 1));
        for _ in 0..THREADS_MAX {
            let gate = gate.clone();
            helpers.leave(Box::new(move || {
                gate.wait();
            }));
        }
        let last = move || {
            gate.wait();
        };
        let Err(job) = helpers.leave_now(Box::new(last)) else {
            panic!("no helper was free");
        };
        job();
        helpers.finish();
    }
}
