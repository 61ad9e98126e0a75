//! Freeze barrier, as `sb_start_write`: threads enter concurrently until one closes it
//! and waits until all have left.
//!
//! Invariants: an entering thread counts itself into its shard, then checks `closed` again; the
//! closing thread sets `closed`, then reads the shards. Both use `SeqCst`, so at least one sees the
//! other.
//! Locking: one mutex to park, never taken while the barrier is open; its rank is the user's
//! choice. Entering an ordinary one ([`Rank::Queue`]) may wait for long, so it precedes every lock
//! but [`Rank::Mount`].

use crate::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use crate::{Condvar, Mutex, Rank, Sharded, shard_index};
use std::time::{Duration, Instant};

/// A barrier that threads pass concurrently until one closes it.
pub struct FreezeBarrier {
    closed: AtomicBool,
    /// The work that it was closed for is done; it stays closed.
    at_rest: AtomicBool,
    inside: Sharded<AtomicU64>,
    park: Mutex<()>,
    wake: Condvar,
}

/// The thread is inside; dropping it leaves.
#[must_use = "dropping it goes out at once"]
pub struct Pass<'a> {
    barrier: &'a FreezeBarrier,
    shard: usize,
}

impl Default for FreezeBarrier {
    fn default() -> Self {
        Self::new(Rank::Queue)
    }
}

impl FreezeBarrier {
    /// An open barrier whose threads park under a lock of `rank`.
    pub fn new(rank: Rank) -> Self {
        Self {
            closed: AtomicBool::new(false),
            at_rest: AtomicBool::new(false),
            inside: Sharded::new(|_| AtomicU64::new(0)),
            park: Mutex::new(rank, ()),
            wake: Condvar::new(),
        }
    }

    /// Enters; waits while the barrier is closed. Not re-entrant: entering twice deadlocks against
    /// [`Self::close`].
    #[cfg_attr(simulated, track_caller)]
    pub fn enter(&self) -> Pass<'_> {
        loop {
            if let Some(pass) = self.try_enter() {
                return pass;
            }
            let mut parked = self.park.lock();
            while self.is_closed() {
                self.wake.wait(&mut parked);
            }
        }
    }

    /// As [`Self::enter`]; `None` once it is at rest ([`Self::rest`]).
    pub fn enter_or_rest(&self) -> Option<Pass<'_>> {
        loop {
            if let Some(pass) = self.try_enter() {
                return Some(pass);
            }
            let mut parked = self.park.lock();
            while self.is_closed() {
                if self.is_at_rest() {
                    return None;
                }
                self.wake.wait(&mut parked);
            }
        }
    }

    /// Enters if the barrier is open.
    #[cfg_attr(simulated, track_caller)]
    pub fn try_enter(&self) -> Option<Pass<'_>> {
        let shard = shard_index();
        if self.is_closed() {
            return None;
        }
        self.inside.slot(shard).fetch_add(1, SeqCst);
        let barrier = self;
        let pass = Pass { barrier, shard };
        (!self.is_closed()).then_some(pass)
    }

    /// Closes the barrier and waits until all threads inside have left. One caller at a time.
    pub fn close(&self) {
        self.closed.store(true, SeqCst);
        let mut parked = self.park.lock();
        while !self.is_empty() {
            self.wake.wait(&mut parked);
        }
    }

    /// As [`Self::close`], but opens it again if threads are inside after `limit`; then it returns
    /// false.
    #[must_use = "the barrier may be open"]
    pub fn close_within(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        self.closed.store(true, SeqCst);
        let mut parked = self.park.lock();
        while !self.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                drop(parked);
                self.open();
                return false;
            }
            self.wake.wait_for(&mut parked, left);
        }
        true
    }

    /// Marks the work that it was closed for as done; it stays closed.
    pub fn rest(&self) {
        let _parked = self.park.lock();
        self.at_rest.store(true, SeqCst);
        self.wake.notify_all();
    }

    /// Whether it is closed and the work that it was closed for is done.
    pub fn is_at_rest(&self) -> bool {
        self.at_rest.load(SeqCst)
    }

    /// Opens it again and wakes the waiters.
    pub fn open(&self) {
        let _parked = self.park.lock();
        self.at_rest.store(false, SeqCst);
        self.closed.store(false, SeqCst);
        self.wake.notify_all();
    }

    /// Whether the barrier refuses entry.
    #[cfg_attr(simulated, track_caller)]
    pub fn is_closed(&self) -> bool {
        self.closed.load(SeqCst)
    }

    /// A shard that was seen empty stays so: a thread that enters later sees `closed` and leaves.
    fn is_empty(&self) -> bool {
        self.inside.iter().all(|shard| shard.load(SeqCst) == 0)
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        let barrier = self.barrier;
        barrier.inside.slot(self.shard).fetch_sub(1, SeqCst);
        if barrier.is_closed() {
            let _parked = barrier.park.lock();
            barrier.wake.notify_all();
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn it_is_empty_while_it_is_closed() {
        let barrier = FreezeBarrier::default();
        let inside = AtomicU64::new(0);
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    while !done.load(SeqCst) {
                        let _pass = barrier.enter();
                        inside.fetch_add(1, SeqCst);
                        std::thread::yield_now();
                        inside.fetch_sub(1, SeqCst);
                    }
                });
            }
            for _ in 0..500 {
                barrier.close();
                assert_eq!(inside.load(SeqCst), 0);
                assert!(barrier.try_enter().is_none());
                barrier.open();
            }
            done.store(true, SeqCst);
        });
        assert!(barrier.try_enter().is_some());
    }

    #[test]
    fn a_close_that_takes_too_long_opens_it_again() {
        let barrier = FreezeBarrier::new(Rank::Device);
        let pass = barrier.enter();
        assert!(!barrier.close_within(Duration::from_millis(1)));
        drop(barrier.try_enter().expect("it is open again"));
        drop(pass);
        assert!(barrier.close_within(Duration::from_millis(1)));
        assert!(barrier.try_enter().is_none());
        barrier.open();
    }

    #[test]
    fn at_rest_it_keeps_only_those_waiting_that_need_it_open() {
        let barrier = FreezeBarrier::default();
        assert!(barrier.enter_or_rest().is_some());
        barrier.close();
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| barrier.enter_or_rest().is_some());
            let enters = scope.spawn(|| drop(barrier.enter()));
            std::thread::yield_now();
            assert!(!waits.is_finished() && !barrier.is_at_rest());
            barrier.rest();
            assert!(!waits.join().expect("it ends"));
            assert!(barrier.enter_or_rest().is_none() && !enters.is_finished());
            barrier.open();
        });
        assert!(!barrier.is_at_rest() && barrier.enter_or_rest().is_some());
    }
}
