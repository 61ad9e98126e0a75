//! Memory account of the dentry caches.
//!
//! Invariants: all tables together use at most 1/[`MEMORY_PARTS`] of `metadata_cache`.
//! Locking: none.

use uext4_sync::Arc;
use uext4_sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The tables take at most this part of `metadata_cache`, in addition to it.
pub(super) const MEMORY_PARTS: u64 = 8;

/// The account of one file system.
pub(crate) struct DentryMemory {
    metadata_cache: Arc<AtomicU64>,
    used_bytes: AtomicU64,
}

impl DentryMemory {
    /// An empty account, limited by `metadata_cache`, which may change.
    pub(crate) fn new(metadata_cache: &Arc<AtomicU64>) -> Arc<Self> {
        Arc::new(Self {
            metadata_cache: metadata_cache.clone(),
            used_bytes: AtomicU64::new(0),
        })
    }

    pub(crate) fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Relaxed)
    }

    fn max(&self) -> u64 {
        self.metadata_cache.load(Relaxed) / MEMORY_PARTS
    }

    /// Whether [`Self::take`] would succeed now.
    pub(super) fn has(&self, bytes: u64) -> bool {
        bytes == 0 || self.used_bytes() + bytes <= self.max()
    }

    /// Reserves `bytes`, if they are available.
    pub(super) fn take(self: &Arc<Self>, bytes: u64) -> Option<Share> {
        let max = self.max();
        let taken = self.used_bytes.fetch_update(Relaxed, Relaxed, |used| {
            (used + bytes <= max).then_some(used + bytes)
        });
        taken.is_ok().then(|| Share {
            memory: self.clone(),
            bytes,
        })
    }
}

/// Reserved memory of one table; dropping it frees the bytes.
pub(super) struct Share {
    memory: Arc<DentryMemory>,
    bytes: u64,
}

impl Drop for Share {
    fn drop(&mut self) {
        self.memory.used_bytes.fetch_sub(self.bytes, Relaxed);
    }
}
