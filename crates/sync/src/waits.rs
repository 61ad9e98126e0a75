//! Lock wait statistics per rank: number of waits and their time.
//!
//! A wait is counted only if the lock was not free at once, so an uncontended lock costs nothing.
//! Plain `std` atomics in every build: no decision depends on these numbers.

use crate::{Rank, Sharded};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;
use uext4_num::clamp_u64;

#[derive(Default)]
struct Slot {
    waits: AtomicU64,
    wait_ns: AtomicU64,
}

static WAITS: LazyLock<Sharded<[Slot; Rank::ALL.len()]>> =
    LazyLock::new(|| Sharded::new(|_| std::array::from_fn(|_| Slot::default())));

/// Waits for the locks of one rank since the process started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockWait {
    /// Rank that all of these locks have.
    pub rank: Rank,
    /// Acquisitions that found the lock taken.
    pub waits: u64,
    /// Total time of the waits, in nanoseconds.
    pub wait_ns: u64,
}

/// Runs the acquisition `take` and counts it as a wait. The simulator reports waits by line.
#[cold]
#[cfg_attr(simulated, expect(dead_code, reason = "no wait takes real time"))]
pub(crate) fn timed<G>(rank: Rank, take: impl FnOnce() -> G) -> G {
    let start = Instant::now();
    let guard = take();
    let slot = &WAITS.local()[rank.index()];
    slot.waits.fetch_add(1, Relaxed);
    slot.wait_ns
        .fetch_add(clamp_u64(start.elapsed().as_nanos()), Relaxed);
    guard
}

/// The waits of every rank, in the lock order.
pub fn lock_waits() -> Vec<LockWait> {
    let sum = |rank: Rank, of: fn(&Slot) -> &AtomicU64| {
        WAITS
            .iter()
            .map(|slots| of(&slots[rank.index()]).load(Relaxed))
            .sum()
    };
    Rank::ALL
        .into_iter()
        .map(|rank| LockWait {
            rank,
            waits: sum(rank, |slot| &slot.waits),
            wait_ns: sum(rank, |slot| &slot.wait_ns),
        })
        .collect()
}

#[cfg(all(test, not(any(shuttle, simulated))))]
mod tests {
    use super::*;
    use crate::Mutex;
    use std::time::Duration;
    use uext4_testkit::wait;

    fn of(rank: Rank) -> LockWait {
        lock_waits()
            .into_iter()
            .find(|wait| wait.rank == rank)
            .expect("all ranks are listed")
    }

    #[test]
    fn only_waits_are_counted_and_their_time() {
        let lock = Mutex::new(Rank::Mount, ());
        drop(lock.lock());
        assert_eq!(of(Rank::Mount).waits, 0);
        let guard = lock.lock();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| drop(lock.lock()));
            let limit = Duration::from_millis(50);
            assert!(!wait::is_true_within(limit, || waiter.is_finished()));
            drop(guard);
        });
        let wait = of(Rank::Mount);
        assert_eq!(wait.waits, 1);
        assert!(wait.wait_ns > 0);
    }
}
