//! The simulator's build: threads on virtual cores, one at a time, in the order of virtual time.
//!
//! Layout: [`line`] is the cost model of cache lines, [`cores`] places threads on cores, [`world`]
//! passes the right to run, [`current`] is the calling thread's view. The others are the types that
//! the crates use; each reports its accesses and leaves the work to `std` or `parking_lot`, so the
//! layout of memory is that of the ordinary build.
//! Invariants: at most one thread of a simulation runs, so a lock that is free for it stays free
//! until it reports the next access. Threads outside of a simulation use the types as in the
//! ordinary build; they must not wait for threads inside.
//! Not here: channels and parking, which are those of `std`: no code that is simulated uses them.
//! References: docs/internals/simulation.md.

mod atomics;
mod cores;
mod current;
mod line;
mod locks;
mod machine;
mod once;
mod report;
mod rwlock;
mod thread_scope;
mod threads;
mod waiters;
mod world;

#[cfg(test)]
mod tests;

pub(crate) use locks::{Condvar, Mutex, MutexGuard};
pub(crate) use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub(crate) use std::thread_local;

pub use once::OnceLock;

pub(super) mod atomic {
    pub use super::atomics::*;
}

pub(super) mod thread {
    pub use super::thread_scope::{Scope, ScopedJoinHandle, scope};
    pub use super::threads::{Builder, JoinHandle, sleep, spawn, yield_now};
    pub use std::thread::{Thread, ThreadId, available_parallelism, current, panicking, park};
}

/// The simulation of the calling thread.
pub mod simulation {
    pub use super::current::{
        accesses, is_running, now, report, reset_counts, run, set_work_per_access, shared_count,
        unobserved, work,
    };
    pub use super::machine::Machine;
    pub use super::report::{AccessCounts, HotLine};
}

use std::sync::atomic::{AtomicUsize, Ordering};

/// An ordinal of the calling thread, for its shard; requested once per thread.
pub(crate) fn thread_ordinal() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    current::ordinal().unwrap_or_else(|| NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Number of cores: those of the simulation, or those available to this process; 1 if unknown.
pub fn cores() -> usize {
    current::cores().unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
}

/// The number of cores, which stays in one simulation.
pub(crate) fn lasting_cores() -> usize {
    cores()
}
