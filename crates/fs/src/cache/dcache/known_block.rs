//! What a directory keeps of one of its blocks: a weak reference to the block in memory, and the
//! right link of a leaf, with the right to split it.
//!
//! Invariants: a block that was freed is not answered.
//! Locking: `Rank::CacheShard`, for one step; `Rank::LeafSplit` during a split.

use super::right_link::RightLink;
use crate::cache::meta::MetaBlock;
use uext4_device::prefetch;
use uext4_sync::{Arc, Mutex, Rank, RwLock, Weak, shared_count};

/// See the module. One cache line.
#[repr(align(64))]
pub(super) struct KnownBlock {
    block: Mutex<Weak<MetaBlock>>,
    pub(super) right: RightLink,
    /// Held exclusively: the right to split the leaf. Taken shared only to wait for the end of a
    /// split, so that one release lets all waiters go on.
    pub(super) split: RwLock<()>,
}

impl Default for KnownBlock {
    fn default() -> Self {
        Self {
            block: Mutex::new(Rank::CacheShard, Weak::new()),
            right: RightLink::default(),
            split: RwLock::new(Rank::LeafSplit, ()),
        }
    }
}

impl KnownBlock {
    pub(super) fn put(&self, block: &Arc<MetaBlock>) {
        *self.block.lock() = Arc::downgrade(block);
    }

    /// Clears the block and its right neighbour.
    pub(super) fn clear(&self) {
        *self.block.lock() = Weak::new();
        self.right.clear();
    }

    /// Prefetches what [`Self::block`] reads first.
    pub(super) fn prefetch(&self) {
        prefetch(std::ptr::from_ref(self).cast(), size_of::<Self>());
    }

    /// The block, if it is in memory.
    pub(super) fn block(&self) -> Option<Arc<MetaBlock>> {
        let block = self.block.lock().upgrade()?;
        shared_count(&block);
        block.mark_used();
        (!block.is_gone()).then_some(block)
    }
}
