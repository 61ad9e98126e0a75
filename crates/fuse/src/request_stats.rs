//! Counters of served requests, errors and times by opcode.
//!
//! Layout: one table per thread shard, allocated at its first request. A request updates up to
//! three counters. Its time is measured from the start of service to the reply; time in the queues
//! of the kernel and of the worker pools is not included.

use crate::errno::Errno;
use crate::protocol::opcode;
use serde::Serialize;
use std::time::{Duration, Instant};
use uext4_num::{clamp_u64, usize_of};
use uext4_sync::atomic::{AtomicU64, Ordering::Relaxed};
use uext4_sync::{Counter, OnceLock, Sharded};

/// Bound of the counted opcodes; those of the kernel are smaller.
const OPCODES: usize = 64;
/// Number of buckets of the time histogram; the last one is unbounded.
const BUCKETS: usize = 24;
/// Bound of the first bucket, in nanoseconds. Each bound is twice the previous one.
const FIRST_BOUND_NS: u64 = 1000;

#[derive(Default)]
struct Slot {
    errors: AtomicU64,
    time_ns: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

type Table = Box<[Slot]>;

pub(crate) struct RequestStats {
    shards: Sharded<OnceLock<Table>>,
    in_place: Counter,
}

/// Requests of one opcode since the mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Requests {
    name: &'static str,
    count: u64,
    /// Requests answered with an error, including expected ones such as ENOENT.
    errors: u64,
    time_ns: u64,
    /// Requests per bucket: longer than the previous bound, at most the bucket's own.
    buckets: [u64; BUCKETS],
}

impl RequestStats {
    pub(crate) fn new() -> Self {
        Self {
            shards: Sharded::new(|_| OnceLock::new()),
            in_place: Counter::new(0),
        }
    }

    /// Serves a request and counts it.
    pub(crate) fn count<T>(
        &self,
        opcode: u32,
        serve: impl FnOnce() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let start = Instant::now();
        let done = serve();
        self.add(opcode, start.elapsed(), done.is_err());
        done
    }

    fn add(&self, opcode: u32, took: Duration, failed: bool) {
        let table = self
            .shards
            .local()
            .get_or_init(|| (0..OPCODES).map(|_| Slot::default()).collect());
        let Some(slot) = table.get(usize_of(opcode)) else {
            return;
        };
        let took_ns = clamp_u64(took.as_nanos());
        if failed {
            slot.errors.fetch_add(1, Relaxed);
        }
        slot.time_ns.fetch_add(took_ns, Relaxed);
        slot.buckets[bucket_of(took_ns)].fetch_add(1, Relaxed);
    }

    pub(crate) fn count_zero_copy_read(&self) {
        self.in_place.add(1);
    }

    /// Number of zero-copy reads.
    pub(crate) fn zero_copy_reads(&self) -> u64 {
        self.in_place.sum().unsigned_abs()
    }

    /// Bounds of all buckets but the last, in nanoseconds.
    pub(crate) fn bounds_ns() -> Vec<u64> {
        (0..BUCKETS - 1)
            .map(|bucket| FIRST_BOUND_NS << bucket)
            .collect()
    }

    /// Opcodes with at least one request.
    pub(crate) fn requests(&self) -> Vec<Requests> {
        let named = opcode::NAMES.iter();
        named
            .map(|(opcode, name)| self.of(*opcode, name))
            .filter(|requests| requests.count > 0)
            .collect()
    }

    fn of(&self, opcode: u32, name: &'static str) -> Requests {
        let sum = |number: &dyn Fn(&Slot) -> &AtomicU64| -> u64 {
            let tables = self.shards.iter().filter_map(OnceLock::get);
            tables
                .filter_map(|table| table.get(usize_of(opcode)))
                .map(|slot| number(slot).load(Relaxed))
                .sum()
        };
        let buckets = std::array::from_fn(|bucket| sum(&|slot| &slot.buckets[bucket]));
        Requests {
            name,
            count: buckets.iter().sum(),
            errors: sum(&|slot| &slot.errors),
            time_ns: sum(&|slot| &slot.time_ns),
            buckets,
        }
    }
}

fn bucket_of(took_ns: u64) -> usize {
    let times = took_ns.div_ceil(FIRST_BOUND_NS).max(1);
    usize_of(times.next_power_of_two().trailing_zeros()).min(BUCKETS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_ends_at_its_bound() {
        let bounds = RequestStats::bounds_ns();
        for (bucket, bound) in bounds.iter().enumerate() {
            assert_eq!(bucket_of(*bound), bucket);
            assert_eq!(bucket_of(bound + 1), bucket + 1);
        }
        assert_eq!((bucket_of(0), bucket_of(u64::MAX / 2)), (0, bounds.len()));
    }

    #[test]
    fn threads_add_up() {
        let request_stats = RequestStats::new();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let request_stats = &request_stats;
                scope.spawn(move || {
                    let took = Duration::from_nanos(1500);
                    (0..100).for_each(|_| request_stats.add(opcode::READ, took, thread == 0));
                });
            }
        });
        let requests = request_stats.requests();
        assert_eq!(requests.len(), 1);
        let read = &requests[0];
        assert_eq!((read.name, read.count, read.errors), ("read", 400, 100));
        assert_eq!((read.time_ns, read.buckets[1]), (600_000, 400));
    }
}
