//! Locks, shared atomics, reference counts, channels, threads, the clock and randomness for all
//! crates.
//!
//! Every crate takes its synchronisation from here (`cargo xtask tidy` checks it), so that the
//! ordinary build, the model checker and the rank checks see all of it.
//!
//! Builds: ordinarily `parking_lot` and `std`; with `--cfg shuttle` the model checker's types; with
//! `--cfg simulated` types that run in the virtual time of a machine with many cores.
//! Debug builds check the lock order on every acquisition; release builds do not.
//! Locking: [`Rank`] *is* the lock order; `docs/internals/locking.md` gives the reasons for it.
//! Not here: waiting for a device (that is `device`), transactions (`journal`).
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::as_conversions))]

mod allowance;
mod backend;
mod clock;
mod counter;
mod entropy;
mod freeze_barrier;
mod held;
mod latencies;
mod latest;
mod lock;
mod rank;
mod rng;
mod rwlock;
mod segments;
mod seqlock;
mod sequence;
mod shard;
mod stripe;
mod versioned;
mod waits;

pub use allowance::{Allowance, Spending};
#[cfg(simulated)]
pub use backend::simulation;
pub use backend::{OnceLock, atomic, cores, mpsc, shared_count, thread};
pub use clock::{Clock, ManualClock, RealClock, WallTime};
pub use counter::Counter;
pub use crossbeam_utils::CachePadded;
pub use entropy::entropy;
pub use freeze_barrier::{FreezeBarrier, Pass};
pub use held::{Scope, handle_point, io_point, scope};
pub use latencies::{Latencies, LatencySummary};
pub use latest::Latest;
pub use lock::{Condvar, Mutex, MutexGuard};
pub use rank::Rank;
pub use rng::Rng;
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use segments::Segments;
pub use seqlock::SeqLock;
pub use sequence::{Sequence, SequenceCount};
pub use shard::{SHARDS_MAX, Sharded, shard_index, shards};
pub use std::sync::{Arc, Weak};
pub use stripe::{StripeHasher, StripeMap, stripe_shard};
pub use versioned::{DividingGuard, SharedGuard, Version, VersionedGuard, VersionedLock};
pub use waits::{LockWait, lock_waits};

#[cfg(all(test, shuttle))]
mod shuttle_tests;
