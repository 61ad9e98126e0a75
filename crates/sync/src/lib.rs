//! The one door for locks, shared atomics, threads and the clock.
//!
//! Every crate takes its synchronisation from here, so that the std build, the model checkers
//! (loom, shuttle) and the rank checks see all of it. Nothing goes around it.
//!
//! Locking: [`Rank`] *is* the lock order; see `rank.rs`.
#![forbid(unsafe_code)]

mod counter;
mod lock;
mod rank;
mod shard;

pub use counter::Counter;
pub use lock::{Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use rank::Rank;
pub use shard::{SHARDS, Sharded, shard_index};

/// Says "this thread does I/O or waits for a device now"; debug builds check the locks it holds.
pub fn io_point() {}

/// Shared atomics; the std ones outside model checking.
pub mod atomic {
    pub use std::sync::atomic::*;
}

/// Threads; the std ones outside model checking.
pub mod thread {
    pub use std::thread::*;
}
