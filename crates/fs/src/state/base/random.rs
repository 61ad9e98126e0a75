//! Random numbers for inode generations.

use uext4_num::{low_u32, u64_of};
use uext4_sync::Sharded;
use uext4_sync::atomic::{AtomicU64, Ordering};

/// Random numbers for generations: each draw hashes a counter of the thread's shard.
pub(crate) struct Random {
    counters: Sharded<AtomicU64>,
    /// With a seed all threads use one counter, so that a run repeats.
    is_seeded: bool,
}

impl Random {
    /// From a seed, or from the system when there is none.
    pub(crate) fn new(seed: Option<u64>) -> Self {
        let first = seed.unwrap_or_else(uext4_sync::entropy);
        Self {
            counters: Sharded::new(|shard| {
                AtomicU64::new(if shard == 0 {
                    first
                } else {
                    uext4_sync::Rng::new(first.wrapping_add(u64_of(shard))).next_u64()
                })
            }),
            is_seeded: seed.is_some(),
        }
    }

    pub(crate) fn next(&self) -> u32 {
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        let counter = if self.is_seeded {
            self.counters.slot(0)
        } else {
            self.counters.local()
        };
        let state = counter.fetch_add(STEP, Ordering::Relaxed);
        low_u32(uext4_sync::Rng::new(state).next_u64())
    }
}
