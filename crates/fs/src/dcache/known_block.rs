//! Weak reference from a directory to one of its blocks in memory.
//!
//! Invariants: a block that was freed is not answered.
//! Locking: `Rank::CacheShard`, for one step.

use crate::meta::MetaBlock;
use uext4_device::prefetch;
use uext4_sync::{Arc, Mutex, Rank, Weak, shared_count};

/// Weak reference to a block; see the module. One cache line.
#[repr(align(64))]
pub(super) struct KnownBlock(Mutex<Weak<MetaBlock>>);

impl Default for KnownBlock {
    fn default() -> Self {
        Self(Mutex::new(Rank::CacheShard, Weak::new()))
    }
}

impl KnownBlock {
    /// Sets the reference.
    pub(super) fn put(&self, block: &Arc<MetaBlock>) {
        *self.0.lock() = Arc::downgrade(block);
    }

    /// Clears the reference.
    pub(super) fn clear(&self) {
        *self.0.lock() = Weak::new();
    }

    /// Prefetches what [`Self::block`] reads first.
    pub(super) fn prefetch(&self) {
        prefetch(std::ptr::from_ref(self).cast(), size_of::<Self>());
    }

    /// The block, if it is in memory.
    pub(super) fn block(&self) -> Option<Arc<MetaBlock>> {
        let block = self.0.lock().upgrade()?;
        shared_count(&block);
        block.note_use();
        (!block.is_gone()).then_some(block)
    }
}
