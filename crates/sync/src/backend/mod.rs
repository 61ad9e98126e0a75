//! Implementation of the locks in this build.
//!
//! Both backends have the names and signatures of `parking_lot`, so that `lock.rs` and `rwlock.rs`
//! are the same for both.

#[cfg(shuttle)]
mod checked;
#[cfg(not(shuttle))]
mod real;

#[cfg(shuttle)]
pub(crate) use checked::*;
#[cfg(not(shuttle))]
pub(crate) use real::*;

#[cfg(shuttle)]
pub use checked::OnceLock;
#[cfg(not(shuttle))]
pub use std::sync::OnceLock;

/// Shared atomics; those of the model checker under `--cfg shuttle`.
pub mod atomic {
    #[cfg(shuttle)]
    pub use shuttle::sync::atomic::*;
    #[cfg(not(shuttle))]
    pub use std::sync::atomic::*;
}

/// Threads; those of the model checker under `--cfg shuttle`.
pub mod thread {
    #[cfg(shuttle)]
    pub use shuttle::thread::*;
    #[cfg(not(shuttle))]
    pub use std::thread::*;
}

/// Channels; those of the model checker under `--cfg shuttle`.
pub mod mpsc {
    #[cfg(shuttle)]
    pub use shuttle::sync::mpsc::*;
    #[cfg(not(shuttle))]
    pub use std::sync::mpsc::*;
}

/// Number of cores available to this process; 1 if it is unknown.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
