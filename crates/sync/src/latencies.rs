//! Latency histogram of fixed size, with the longest call.
//!
//! Layout: each nanosecond below [`LINEAR`] has a bucket; above, each power of two is cut into
//! [`LINEAR`] buckets of equal length. So the bound of a bucket is at most an eighth above its
//! values. Every 64-bit number has a bucket (4 KiB in all).
//! Invariants: adding a call allocates nothing, takes no lock and costs three atomic operations.
//! The longest call is recorded before its bucket, so no percentile exceeds the longest call.
//! Under the model checker the atomics are those of `std`: no decision depends on them, and the
//! checker gets no extra steps.

#[cfg(not(shuttle))]
use crate::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
#[cfg(shuttle)]
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use std::time::Duration;
use uext4_num::{clamp_u64, clamp_usize, u64_of, usize_of};

/// Buckets of a power of two.
const LINEAR: u64 = 1 << LINEAR_BITS;
const LINEAR_BITS: u32 = 3;
/// One for each number below [`LINEAR`], then `LINEAR` for each power of two.
const BUCKETS: usize = usize_of((u64::BITS - LINEAR_BITS + 1) << LINEAR_BITS);

/// A histogram of the durations of calls, which threads fill concurrently.
pub struct Latencies {
    buckets: Box<[AtomicU64]>,
    worst_ns: AtomicU64,
    total_ns: AtomicU64,
}

/// Summary of all calls that [`Latencies`] has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatencySummary {
    /// Number of counted calls.
    pub count: u64,
    /// Sum of their times, in nanoseconds.
    pub total_ns: u64,
    /// Longest time of a call, in nanoseconds.
    pub worst_ns: u64,
    /// 99.9th percentile, in nanoseconds: the bound of a bucket, at most an eighth too high and
    /// never above the longest.
    pub p999_ns: u64,
}

impl Default for Latencies {
    fn default() -> Self {
        Self {
            buckets: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
            worst_ns: AtomicU64::new(0),
            total_ns: AtomicU64::new(0),
        }
    }
}

impl Latencies {
    /// Counts a call; true when it is the longest so far.
    #[cfg_attr(simulated, track_caller)]
    pub fn add(&self, time: Duration) -> bool {
        let ns = clamp_u64(time.as_nanos());
        let is_worst = self.worst_ns.fetch_max(ns, Relaxed) < ns;
        self.total_ns.fetch_add(ns, Relaxed);
        // Release: a reader that sees the call in its bucket also sees the longest call of that
        // time.
        self.buckets[bucket_of(ns)].fetch_add(1, Release);
        is_worst
    }

    /// A summary so far. Calls that end concurrently may or may not count.
    pub fn summary(&self) -> LatencySummary {
        let counts: Vec<u64> = self
            .buckets
            .iter()
            .map(|bucket| bucket.load(Acquire))
            .collect();
        let worst_ns = self.worst_ns.load(Relaxed);
        LatencySummary {
            count: counts.iter().sum(),
            total_ns: self.total_ns.load(Relaxed),
            worst_ns,
            p999_ns: bound_of_share(&counts, 999).min(worst_ns),
        }
    }
}

/// The bound of the bucket at which this share of the calls, per mille, is reached.
fn bound_of_share(counts: &[u64], per_mille: u64) -> u64 {
    let all: u64 = counts.iter().sum();
    let needed = (u128::from(all) * u128::from(per_mille)).div_ceil(1000);
    let mut seen = 0;
    let bucket = counts.iter().position(|count| {
        seen += u128::from(*count);
        seen >= needed
    });
    bucket.map_or(0, bound_of)
}

/// The bucket of a time in nanoseconds.
fn bucket_of(ns: u64) -> usize {
    if ns < LINEAR {
        return clamp_usize(ns);
    }
    let power = ns.ilog2() - LINEAR_BITS;
    clamp_usize(u64::from(power) * LINEAR + (ns >> power))
}

/// The longest time of a bucket, in nanoseconds.
fn bound_of(bucket: usize) -> u64 {
    let bucket = u64_of(bucket);
    if bucket < LINEAR {
        return bucket;
    }
    let power = bucket / LINEAR - 1;
    let next = u128::from(LINEAR + bucket % LINEAR + 1) << power;
    clamp_u64(next - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rng;

    #[test]
    fn each_bucket_begins_behind_the_bound_of_the_one_before() {
        for bucket in 0..BUCKETS {
            assert_eq!(bucket_of(bound_of(bucket)), bucket);
            if bucket + 1 < BUCKETS {
                assert_eq!(bucket_of(bound_of(bucket) + 1), bucket + 1);
            }
        }
        assert_eq!(bound_of(BUCKETS - 1), u64::MAX);
    }

    /// Against the sorted list of all times.
    #[test]
    fn the_percentile_is_at_most_an_eighth_too_high() {
        let mut rng = Rng::new(5);
        for calls in [1u64, 2, 999, 1000, 1001, 50_000] {
            let latencies = Latencies::default();
            let time = |_| {
                let longest = 1 << rng.below(40);
                rng.below(longest)
            };
            let mut times: Vec<u64> = (0..calls).map(time).collect();
            for ns in &times {
                latencies.add(Duration::from_nanos(*ns));
            }
            times.sort_unstable();
            let summary = latencies.summary();
            let exact = times[(calls * 999).div_ceil(1000) as usize - 1];
            assert!(summary.p999_ns >= exact && summary.p999_ns <= exact + exact / 8);
            assert!(summary.p999_ns <= summary.worst_ns);
            assert_eq!(summary.worst_ns, times[times.len() - 1]);
            assert_eq!(summary.total_ns, times.iter().sum::<u64>());
            assert_eq!(summary.count, calls);
        }
    }

    #[test]
    fn one_slow_call_in_a_thousand_is_the_worst_and_not_the_percentile() {
        let latencies = Latencies::default();
        for nr in 0..1000u64 {
            let is_worst = latencies.add(Duration::from_nanos(100 + nr % 2));
            assert_eq!(is_worst, nr < 2);
        }
        assert!(latencies.add(Duration::from_secs(1)));
        let summary = latencies.summary();
        assert_eq!(summary.worst_ns, 1_000_000_000);
        assert!((101..=112).contains(&summary.p999_ns), "{summary:?}");
    }

    #[test]
    fn without_calls_all_is_zero() {
        assert_eq!(Latencies::default().summary(), LatencySummary::default());
    }

    #[test]
    fn calls_of_threads_are_all_counted() {
        let latencies = Latencies::default();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let latencies = &latencies;
                scope.spawn(move || {
                    (0..1000).for_each(|nr| _ = latencies.add(Duration::from_nanos(nr + thread)));
                });
            }
        });
        let summary = latencies.summary();
        assert_eq!((summary.count, summary.worst_ns), (4000, 1002));
    }
}
