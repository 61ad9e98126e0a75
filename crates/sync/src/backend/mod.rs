//! Implementation of the locks in this build.
//!
//! All backends have the names and signatures of `parking_lot`, so that `lock.rs` and `rwlock.rs`
//! are the same for all: the ordinary one, that of the model checker (`--cfg shuttle`), and that of
//! the simulator (`--cfg simulated`).

#[cfg(shuttle)]
mod checked;
#[cfg(not(any(shuttle, simulated)))]
mod real;
#[cfg(simulated)]
mod simulated;

#[cfg(shuttle)]
pub(crate) use checked::*;
#[cfg(not(any(shuttle, simulated)))]
pub(crate) use real::*;
#[cfg(simulated)]
pub(crate) use simulated::*;

#[cfg(shuttle)]
pub use checked::OnceLock;
#[cfg(simulated)]
pub use simulated::{OnceLock, cores, simulation};
#[cfg(not(any(shuttle, simulated)))]
pub use std::sync::OnceLock;

/// Shared atomics, of this build.
pub mod atomic {
    #[cfg(simulated)]
    pub use super::simulated::atomic::*;
    #[cfg(shuttle)]
    pub use shuttle::sync::atomic::*;
    #[cfg(not(any(shuttle, simulated)))]
    pub use std::sync::atomic::*;
}

/// Threads, of this build.
pub mod thread {
    #[cfg(simulated)]
    pub use super::simulated::thread::*;
    #[cfg(shuttle)]
    pub use shuttle::thread::*;
    #[cfg(not(any(shuttle, simulated)))]
    pub use std::thread::*;

    /// Starts a thread of a scope, if the system has one more.
    ///
    /// # Errors
    /// Those of the system.
    pub fn spawn_scoped<'scope, 'env>(
        scope: &'scope Scope<'scope, 'env>,
        work: impl FnOnce() + Send + 'scope,
    ) -> std::io::Result<()> {
        #[cfg(shuttle)]
        let _thread = scope.spawn(work);
        #[cfg(not(shuttle))]
        let _thread = Builder::new().spawn_scoped(scope, work)?;
        Ok(())
    }
}

/// Channels; those of the model checker under `--cfg shuttle`.
pub mod mpsc {
    #[cfg(shuttle)]
    pub use shuttle::sync::mpsc::*;
    #[cfg(not(shuttle))]
    pub use std::sync::mpsc::*;
}

/// Number of cores available to this process; 1 if it is unknown.
#[cfg(not(simulated))]
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Accounts a clone or drop of a reference that several cores share; the simulator alone does.
#[cfg(not(simulated))]
#[inline(always)]
pub fn shared_count<T: ?Sized>(_shared: &crate::Arc<T>) {}
#[cfg(simulated)]
pub use simulation::shared_count;
