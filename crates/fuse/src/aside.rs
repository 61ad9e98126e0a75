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
    n_idle: usize,
    threads: Vec<JoinHandle<()>>,
    stopped: bool,
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
    pub(crate) fn leave(self: &Arc<Self>, job: impl FnOnce() + Send + 'static) {
        let mut state = self.state.lock();
        state.jobs.push_back(Box::new(job));
        let index = state.threads.len();
        if state.jobs.len() > state.n_idle && index < THREADS_MAX {
            state.threads.extend(self.start(index).ok());
        }
        drop(state);
        self.work.notify_one();
    }

    fn start(self: &Arc<Self>, index: usize) -> io::Result<JoinHandle<()>> {
        let helpers = self.clone();
        let name = format!("uext4-help-{index}");
        thread::Builder::new().name(name).spawn(move || {
            let _guard = AbortOnPanic;
            while let Some(job) = helpers.next() {
                job();
            }
        })
    }

    fn next(&self) -> Option<Job> {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            if state.stopped {
                return None;
            }
            state.n_idle += 1;
            self.work.wait(&mut state);
            state.n_idle -= 1;
        }
    }

    /// Waits until all is done and ends the threads. Nobody leaves a job any more.
    pub(crate) fn finish(&self) {
        let mut state = self.state.lock();
        state.stopped = true;
        let threads = std::mem::take(&mut state.threads);
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
        helpers.leave(second);
        helpers.leave(first);
        helpers.finish();
    }

    #[test]
    fn what_was_left_is_done_before_the_end() {
        let helpers = Helpers::new().expect("a thread starts");
        let (sender, receiver) = channel();
        for number in 0..200 {
            let sender = sender.clone();
            let job = move || sender.send(number).expect("the test waits");
            helpers.leave(job);
        }
        helpers.finish();
        let mut done: Vec<i32> = receiver.try_iter().collect();
        done.sort_unstable();
        assert_eq!(done, (0..200).collect::<Vec<_>>());
    }
}
