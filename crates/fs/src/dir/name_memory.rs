//! The memory that tables of names may take.
//!
//! Invariants: what tables hold together stays within the part of `metadata_cache` that is theirs.
//! Locking: none.

use std::sync::Arc;
use uext4_sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Tables take at most one part of so many of `metadata_cache`, besides.
pub(super) const MEMORY_PARTS: u64 = 8;

/// The memory of the tables of one file system.
pub(crate) struct NameMemory {
    metadata_cache: Arc<AtomicU64>,
    used_bytes: AtomicU64,
}

impl NameMemory {
    /// All is free of what `metadata_cache`, which may change, allows.
    pub(crate) fn new(metadata_cache: &Arc<AtomicU64>) -> Arc<Self> {
        Arc::new(Self {
            metadata_cache: metadata_cache.clone(),
            used_bytes: AtomicU64::new(0),
        })
    }

    /// Bytes that tables take.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Relaxed)
    }

    fn max(&self) -> u64 {
        self.metadata_cache.load(Relaxed) / MEMORY_PARTS
    }

    /// Whether [`Self::take`] would answer a share now.
    pub(super) fn has(&self, bytes: u64) -> bool {
        bytes == 0 || self.used_bytes() + bytes <= self.max()
    }

    /// A share of so many bytes.
    pub(super) fn take(self: &Arc<Self>, bytes: u64) -> Option<Share> {
        let max = self.max();
        let fits = |used: u64| (used + bytes <= max).then_some(used + bytes);
        let taken = self.used_bytes.fetch_update(Relaxed, Relaxed, fits);
        taken.is_ok().then(|| Share {
            memory: self.clone(),
            bytes,
        })
    }
}

/// Memory that one table holds.
pub(super) struct Share {
    memory: Arc<NameMemory>,
    bytes: u64,
}

impl Drop for Share {
    fn drop(&mut self) {
        self.memory.used_bytes.fetch_sub(self.bytes, Relaxed);
    }
}
