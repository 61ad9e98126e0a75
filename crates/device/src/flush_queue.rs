//! Group flush: one flush of a device at a time, shared by waiting callers, with a failure count.
//!
//! A caller needs a flush that begins after its call, or that nothing was written since the last
//! one began. If one is running, all callers that arrive share the next one. A durable write takes
//! its turn between flushes and is none: a failed one may have reported what a failed flush would
//! have.
//!
//! Invariants: a failed flush is counted before a later one begins. If a flush succeeds and the
//! count has not changed since before a write, no flush that could have lost the write failed.
//! Reason: after a failed flush, writes since the last successful one may be gone, and the next
//! flush succeeds without them. Linux reports a failed write-back once per open descriptor, and all
//! users of a device here share one.
//! A flush covers the writes that were counted when it began; a write is counted when it has ended.
//! Locking: one mutex ([`Rank::Device`]) for the counters, not held during a flush.

use crate::Error;
use uext4_sync::{Condvar, Mutex, Rank};

/// The flushes of one device, with the number of those that failed.
pub struct FlushQueue {
    counters: Mutex<Counters>,
    ended: Condvar,
}

#[derive(Default)]
struct Counters {
    /// Flushes begun and ended, in all; they differ while one is running.
    begun: u64,
    ended: u64,
    /// A durable write is running.
    is_writing: bool,
    /// Durable writes that wait for their turn. They go first: a flush that one caller after
    /// another begins would keep them out.
    writers: u32,
    /// Flushes and durable writes that failed, in all.
    failed: u64,
    /// Number of the last one that failed, and its error.
    last_failed: Option<(u64, Error)>,
    /// Writes when the last successful flush began; `None` before the first, and after a failure.
    flushed_writes: Option<i64>,
}

impl Counters {
    fn is_idle(&self) -> bool {
        self.begun == self.ended && !self.is_writing
    }
}

impl Default for FlushQueue {
    fn default() -> Self {
        Self {
            counters: Mutex::new(Rank::Device, Counters::default()),
            ended: Condvar::new(),
        }
    }
}

impl FlushQueue {
    /// Flushes by `flush`, or shares a flush of another caller that begins after this call, or does
    /// nothing if a flush has covered all writes. `count_writes` is the number of writes that ended
    /// so far; it never falls.
    ///
    /// # Errors
    /// That of the flush, also if it was another caller's.
    pub fn flush(
        &self,
        count_writes: impl Fn() -> i64,
        flush: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut counters = self.counters.lock();
        let needed = counters.begun + 1;
        while counters.ended < needed {
            if counters.is_idle() && counters.writers == 0 {
                // Counts are made under the lock: a sum over shards is no snapshot, so two sums at
                // once could be equal and yet miss different writes.
                let n_writes = count_writes();
                if counters.flushed_writes == Some(n_writes) {
                    return Ok(());
                }
                counters.begun += 1;
                drop(counters);
                let flushed = flush();
                self.record_flush(&flushed, n_writes);
                return flushed;
            }
            self.ended.wait(&mut counters);
        }
        match &counters.last_failed {
            Some((number, error)) if *number >= needed => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// Runs a durable write while no flush runs.
    ///
    /// # Errors
    /// That of the write.
    pub fn write_durable(&self, write: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        let mut counters = self.counters.lock();
        counters.writers += 1;
        while !counters.is_idle() {
            self.ended.wait(&mut counters);
        }
        counters.writers -= 1;
        counters.is_writing = true;
        drop(counters);
        let written = write();
        let mut counters = self.counters.lock();
        counters.is_writing = false;
        if written.is_err() {
            counters.failed += 1;
            counters.flushed_writes = None;
        }
        self.ended.notify_all();
        written
    }

    fn record_flush(&self, flushed: &Result<(), Error>, n_writes: i64) {
        let mut counters = self.counters.lock();
        counters.ended += 1;
        counters.flushed_writes = flushed.is_ok().then_some(n_writes);
        if let Err(error) = flushed {
            counters.failed += 1;
            counters.last_failed = Some((counters.ended, error.clone()));
        }
        self.ended.notify_all();
    }

    /// Flushes and durable writes that failed so far.
    pub fn failed(&self) -> u64 {
        self.counters.lock().failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
    use std::sync::mpsc;
    use std::time::Duration;
    use uext4_testkit::wait;

    /// Time to watch that callers wait.
    const A_WHILE: Duration = Duration::from_millis(20);

    /// The count of a device that is always written.
    fn writing() -> i64 {
        static COUNT: AtomicI64 = AtomicI64::new(0);
        COUNT.fetch_add(1, Relaxed)
    }

    fn failure() -> Error {
        Error::io("flush", 0, 0, std::io::Error::from_raw_os_error(5))
    }

    /// Callers that come while a flush runs wait for one flush, which begins after it.
    #[test]
    fn callers_share_the_flush_that_begins_after_they_came() {
        let queue = FlushQueue::default();
        let (go, gone) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let queue = &queue;
            let first = scope.spawn(move || {
                queue.flush(writing, || {
                    gone.recv().unwrap();
                    Err(failure())
                })
            });
            while queue.counters.lock().begun == 0 {
                std::thread::yield_now();
            }
            let flush = || queue.flush(writing, || Ok(()));
            let others: Vec<_> = (0..4).map(|_| scope.spawn(flush)).collect();
            let answered = || others.iter().any(|other| other.is_finished());
            assert!(!wait::is_true_within(A_WHILE, answered));
            assert_eq!(queue.failed(), 0);
            go.send(()).unwrap();
            assert!(first.join().unwrap().is_err());
            assert!(
                others
                    .into_iter()
                    .all(|other| other.join().unwrap().is_ok())
            );
        });
        assert_eq!(queue.failed(), 1);
        assert!(queue.counters.lock().begun <= 5);
    }

    #[test]
    fn a_shared_flush_fails_for_all_that_share_it() {
        let queue = FlushQueue::default();
        let (go, gone) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let queue = &queue;
            let first = scope.spawn(move || {
                queue.flush(writing, || {
                    gone.recv().unwrap();
                    Ok(())
                })
            });
            while queue.counters.lock().begun == 0 {
                std::thread::yield_now();
            }
            let fail = || queue.flush(writing, || Err(failure()));
            let others: Vec<_> = (0..4).map(|_| scope.spawn(fail)).collect();
            let answered = || others.iter().any(|other| other.is_finished());
            assert!(!wait::is_true_within(A_WHILE, answered));
            go.send(()).unwrap();
            assert!(first.join().unwrap().is_ok());
            assert!(
                others
                    .into_iter()
                    .all(|other| other.join().unwrap().is_err())
            );
        });
    }

    /// A flush that comes during a durable write begins after it, and is not replaced by it.
    #[test]
    fn a_durable_write_takes_its_turn_and_its_failure_is_counted_first() {
        let queue = FlushQueue::default();
        let (go, gone) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            let queue = &queue;
            let writer = scope.spawn(move || {
                queue.write_durable(|| {
                    gone.recv().unwrap();
                    Err(failure())
                })
            });
            while !queue.counters.lock().is_writing {
                std::thread::yield_now();
            }
            let flush = || {
                assert_eq!(queue.failed(), 1);
                Ok(())
            };
            let other = scope.spawn(move || queue.flush(writing, flush));
            assert!(!wait::is_true_within(A_WHILE, || other.is_finished()));
            go.send(()).unwrap();
            assert!(writer.join().unwrap().is_err());
            assert!(other.join().unwrap().is_ok());
        });
        assert_eq!((queue.failed(), queue.counters.lock().begun), (1, 1));
        queue.write_durable(|| Ok(())).unwrap();
        assert_eq!(queue.failed(), 1);
    }

    #[test]
    fn a_flush_without_writes_since_a_successful_one_does_nothing() {
        let (queue, n_flushes) = (FlushQueue::default(), Cell::new(0));
        let flush_after = |n_writes, result: Result<(), Error>| {
            let count = || n_flushes.set(n_flushes.get() + 1);
            let flushed = queue.flush(|| n_writes, || result.inspect(|()| count()));
            (flushed.is_ok(), n_flushes.get())
        };
        // An earlier user of the device may have written it.
        assert_eq!(flush_after(0, Ok(())), (true, 1));
        assert_eq!(flush_after(0, Err(failure())), (true, 1));
        assert_eq!(flush_after(2, Ok(())), (true, 2));
        assert_eq!(flush_after(2, Ok(())), (true, 2));
        assert_eq!(flush_after(3, Err(failure())), (false, 2));
        assert_eq!(flush_after(3, Ok(())), (true, 3));
        queue.write_durable(|| Err(failure())).unwrap_err();
        assert_eq!(flush_after(3, Ok(())), (true, 4));
        queue.write_durable(|| Ok(())).unwrap();
        assert_eq!(flush_after(3, Ok(())), (true, 4));
    }
}
