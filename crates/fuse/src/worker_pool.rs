//! Worker pools for long requests, which would block the thread that received them.
//!
//! A worker starts when a job finds none idle, and ends with the mount. A request whose handling
//! makes the kernel send more requests ([`crate::server::RequestClass::NeedsWriteback`]) must run
//! here: its own thread may be the one that serves those.
//!
//! Invariants: requests that wait for other requests have a pool of their own, so a job of another
//! pool never queues behind a job that depends on it. The copying pool has about one worker per
//! core: more would contend.

use crate::affinity::Affinity;
use std::collections::VecDeque;
use std::io;
use uext4_sync::thread::{self, JoinHandle};
use uext4_sync::{Arc, Condvar, Mutex, Rank};

/// Maximum threads for waiting jobs of a kind: enough for a group of `fsync` calls.
const WAITING_MAX: usize = 32;
/// Minimum of that for one pool, where several share it.
const WAITING_MIN: usize = 4;
/// Minimum number of copying threads: some of them wait for a disk.
const COPYING_MIN: usize = 4;

pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// Worker pool of a mount.
pub(crate) struct WorkerPool {
    n_threads_max: usize,
    affinity: Affinity,
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
    /// Idle workers, including those that are still starting.
    fn n_free(&self) -> usize {
        self.threads.len() - self.n_busy
    }
}

impl WorkerPool {
    /// Makes one of `n_pools` pools for waiting jobs, and starts its first worker.
    ///
    /// # Errors
    /// The worker cannot be started.
    pub(crate) fn for_waiting(n_pools: usize, affinity: Affinity) -> io::Result<Arc<Self>> {
        Self::new((WAITING_MAX / n_pools.max(1)).max(WAITING_MIN), affinity)
    }

    /// Makes a pool for copying jobs and starts its first worker.
    ///
    /// # Errors
    /// The worker cannot be started.
    pub(crate) fn for_copying() -> io::Result<Arc<Self>> {
        let n_cores = thread::available_parallelism().map_or(1, usize::from);
        Self::new(n_cores.max(COPYING_MIN), Affinity::default())
    }

    fn new(n_threads_max: usize, affinity: Affinity) -> io::Result<Arc<Self>> {
        let state = Mutex::new(Rank::Queue, State::default());
        let work = Condvar::new();
        let pool = Arc::new(Self {
            n_threads_max,
            affinity,
            state,
            work,
        });
        let first = pool.start(0)?;
        pool.state.lock().threads.push(first);
        Ok(pool)
    }

    /// Queues a job. If no further worker can be started, the job waits for an existing one.
    pub(crate) fn leave(self: &Arc<Self>, job: Job) {
        let mut state = self.state.lock();
        self.make_one_idle(&mut state);
        state.jobs.push_back(job);
        drop(state);
        self.work.notify_one();
    }

    /// Starts a worker if all are busy and the limit allows it.
    fn make_one_idle(self: &Arc<Self>, state: &mut State) {
        let index = state.threads.len();
        if state.jobs.len() < state.n_free() || index == self.n_threads_max {
            return;
        }
        if let Ok(thread) = self.start(index) {
            state.threads.push(thread);
        }
    }

    fn start(self: &Arc<Self>, index: usize) -> io::Result<JoinHandle<()>> {
        let pool = self.clone();
        let name = format!("uext4-help-{index}");
        thread::Builder::new().name(name).spawn(move || {
            let _guard = AbortOnPanic;
            pool.affinity.apply();
            while let Some(job) = pool.next() {
                job();
                pool.state.lock().n_busy -= 1;
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

    /// Finishes all queued jobs and joins the workers. No job may be queued afterwards.
    pub(crate) fn finish(&self) {
        let mut state = self.state.lock();
        state.stopped = true;
        // The number of idle workers is not used any more.
        let threads: Vec<_> = state.threads.drain(..).collect();
        drop(state);
        self.work.notify_all();
        for thread in threads {
            // A panic has already ended the process.
            let _ = thread.join();
        }
    }
}

/// Aborts the process when its thread panics. The transaction with the partial change then never
/// commits.
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
    use std::sync::Barrier;
    use std::sync::mpsc::channel;

    #[test]
    fn jobs_that_wait_for_each_other_are_done() {
        let pool = WorkerPool::for_waiting(1, Affinity::default()).expect("a thread starts");
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
        pool.leave(Box::new(second));
        pool.leave(Box::new(first));
        pool.finish();
    }

    #[test]
    fn what_was_left_is_done_before_the_end() {
        let pool = WorkerPool::for_waiting(1, Affinity::default()).expect("a thread starts");
        let (sender, receiver) = channel();
        for number in 0..200 {
            let sender = sender.clone();
            let job = move || sender.send(number).expect("the test waits");
            pool.leave(Box::new(job));
        }
        pool.finish();
        let mut done: Vec<i32> = receiver.try_iter().collect();
        done.sort_unstable();
        assert_eq!(done, (0..200).collect::<Vec<_>>());
    }

    #[test]
    fn there_are_no_more_threads_than_may_be() {
        let pool = WorkerPool::new(2, Affinity::default()).expect("a thread starts");
        // Each job waits for another one, so that both threads run jobs.
        let pair = Arc::new(Barrier::new(2));
        let (sender, receiver) = channel();
        for _ in 0..50 {
            let (sender, pair) = (sender.clone(), pair.clone());
            let job = move || {
                pair.wait();
                let id = thread::current().id();
                sender.send(id).expect("the test waits");
            };
            pool.leave(Box::new(job));
        }
        pool.finish();
        let ids: Vec<_> = receiver.try_iter().collect();
        let different: std::collections::HashSet<_> = ids.iter().collect();
        assert_eq!(ids.len(), 50);
        assert_eq!(different.len(), 2, "{different:?}");
    }
}
