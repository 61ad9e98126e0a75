//! Signed per-shard counter: threads add without sharing a cache line.

use crate::Sharded;
use crate::atomic::{AtomicI64, Ordering};

/// Sharded counter. `add` touches the thread's own line; `sum` reads all.
pub struct Counter {
    shards: Sharded<AtomicI64>,
}

impl Counter {
    /// A counter that starts at `value`.
    pub fn new(value: i64) -> Self {
        Self {
            shards: Sharded::new(|i| AtomicI64::new(if i == 0 { value } else { 0 })),
        }
    }
    /// Adds `delta` (may be negative).
    #[cfg_attr(simulated, track_caller)]
    pub fn add(&self, delta: i64) {
        self.shards.local().fetch_add(delta, Ordering::AcqRel);
    }
    /// The sum of all shards: exact if no thread adds concurrently.
    #[cfg_attr(simulated, track_caller)]
    pub fn sum(&self) -> i64 {
        self.shards.iter().map(|s| s.load(Ordering::Acquire)).sum()
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_among_threads() {
        let counter = Counter::new(-5);
        std::thread::scope(|scope| {
            for i in 0..8 {
                let counter = &counter;
                scope.spawn(move || (0..1000).for_each(|_| counter.add(i)));
            }
        });
        assert_eq!(counter.sum(), 28_000 - 5);
    }
}
