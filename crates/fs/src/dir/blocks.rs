//! The blocks of one directory that are in memory, by their place in the directory: spares a lookup
//! the walk through the map and the cache of all blocks, whose locks all directories share.
//!
//! Invariants: a block of a directory stays at its place until it is freed, and then it is gone; a
//! number that is given to a new file starts with an empty table. Entries are weak: the cache of
//! blocks decides what stays in memory, and is told that a block was used.
//! Locking: `Rank::CacheShard`; nothing is taken under it.

use crate::meta::MetaBlock;
use std::sync::{Arc, Weak};
use uext4_format::LogicalBlock;
use uext4_sync::{Rank, RwLock};

/// Blocks from here on are not kept: bounds the table of a directory of a damaged image.
const BLOCKS_MAX: u32 = 1 << 16;

/// See the module.
pub(crate) struct DirBlocks(RwLock<Vec<Weak<MetaBlock>>>);

impl Default for DirBlocks {
    fn default() -> Self {
        Self(RwLock::new(Rank::CacheShard, Vec::new()))
    }
}

impl DirBlocks {
    /// The block, if it is in memory and known.
    pub(super) fn get(&self, nr: LogicalBlock) -> Option<Arc<MetaBlock>> {
        let block = self.0.read().get(nr.0 as usize)?.upgrade()?;
        block.note_use();
        (!block.is_gone()).then_some(block)
    }

    /// Block `nr` of the directory is `block`.
    pub(super) fn put(&self, nr: LogicalBlock, block: &Arc<MetaBlock>) {
        if nr.0 >= BLOCKS_MAX {
            return;
        }
        let at = nr.0 as usize;
        let mut blocks = self.0.write();
        if blocks.len() <= at {
            blocks.resize(at + 1, Weak::new());
        }
        blocks[at] = Arc::downgrade(block);
    }

    /// Forgets all.
    pub(crate) fn clear(&self) {
        self.0.write().clear();
    }
}
