//! The ordinary build: `parking_lot` and `std`.

pub(crate) use parking_lot::{
    Condvar, Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard,
};
pub(crate) use std::thread_local;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// An ordinal of the calling thread, for its shard; requested once per thread.
pub(crate) fn thread_ordinal() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The number of cores when this was first called.
pub(crate) fn lasting_cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(super::cores)
}
