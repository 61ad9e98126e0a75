//! Per-directory caches: its blocks by logical number, its index and its dentries.
//!
//! A hit in the table of blocks spares a lookup the extent map and the global block cache, whose
//! locks all directories share. The copy of the index ([`index_copy`](super::index_copy)) is read
//! without locks or reference counts. The dentry cache ([`dentries`](super::dentries)) answers
//! without a block.
//!
//! Invariants: a block keeps its logical number until it is freed, and is then marked gone; a
//! reused inode number starts with empty tables. Entries are weak references: the block cache
//! decides what stays in memory, and is told of each use.
//! Locking: `Rank::CacheShard`: one per block, one for changes of the index copy, one for the
//! growth of the dentry table; nothing is taken under it.

use super::dentries::Dentries;
use super::dentry_memory::DentryMemory;
use super::hashed_name::Key;
use super::index_copy::IndexCopy;
use super::known_block::KnownBlock;
use super::prefetch_hint::PrefetchHint;
use super::sparse_leaves::SparseQueue;
use crate::meta::{BlockState, MetaBlock};
use uext4_format::{InodeNr, LogicalBlock};
use uext4_sync::{Arc, Segments};

/// Blocks from 2^16 on are not kept: bounds the tables of a damaged directory.
const SEGMENTS: usize = 17;

/// Bytes kept per block.
const PLACE_BYTES: usize = size_of::<KnownBlock>() + size_of::<PrefetchHint>();

/// The caches of one directory; see the module.
#[derive(Default)]
pub(crate) struct DirBlocks {
    blocks: Segments<KnownBlock, SEGMENTS>,
    hints: Segments<PrefetchHint, SEGMENTS>,
    index: IndexCopy<SEGMENTS>,
    dentries: Dentries,
    sparse: SparseQueue,
}

impl DirBlocks {
    /// The block, if it is in memory and known.
    pub(crate) fn block(&self, nr: LogicalBlock) -> Option<Arc<MetaBlock>> {
        self.blocks.get(nr.0)?.block()
    }

    /// Prefetches what a search of the block reads.
    pub(crate) fn prefetch_block(&self, nr: LogicalBlock) {
        if let (Some(block), Some(parts)) = (self.blocks.get(nr.0), self.hints.get(nr.0)) {
            block.prefetch();
            parts.prefetch();
        }
    }

    /// Notes that block `nr` of the directory is `block`.
    pub(crate) fn put(&self, nr: LogicalBlock, block: &Arc<MetaBlock>) {
        if let Some(place) = self.blocks.get_or_make(nr.0) {
            place.put(block);
            block.set_place(nr);
        }
        if let Some(parts) = self.hints.get_or_make(nr.0) {
            parts.put(block);
        }
    }

    /// Updates the prefetch hints after a search of a block with this state.
    pub(crate) fn note(&self, block: &MetaBlock, state: &BlockState) {
        if !block.is_to_note(state) {
            return;
        }
        if let Some(parts) = self.hints.get(block.place().0) {
            parts.note(state);
        }
    }

    /// The copy of the index.
    pub(crate) fn index(&self) -> &IndexCopy<SEGMENTS> {
        &self.index
    }

    /// The queue of names whose leaves are sparse.
    pub(crate) fn sparse(&self) -> &SparseQueue {
        &self.sparse
    }

    /// Prefetches the dentry of a name that will be put or forgotten.
    pub(crate) fn prefetch_name(&self, key: Key) {
        self.dentries.prefetch(key);
    }

    /// The inode of a cached dentry.
    pub(crate) fn meaning(&self, key: Key) -> Option<InodeNr> {
        self.dentries.get(key)
    }

    /// Caches the dentry of a name. Its block is locked, at its place in the structure.
    pub(crate) fn put_name(&self, key: Key, nr: InodeNr, memory: &Arc<DentryMemory>) {
        if !self.dentries.put(key, nr) {
            self.dentries.grow(memory);
            self.dentries.put(key, nr);
        }
    }

    /// Drops the dentry of a name that is about to change or go. Its block is locked.
    pub(crate) fn forget(&self, key: Key) {
        self.dentries.forget(key);
    }

    /// Memory in bytes, without the dentries, which have an account of their own.
    pub(crate) fn bytes(&self) -> usize {
        let blocks = self.blocks.iter().count() * PLACE_BYTES;
        size_of::<Self>() + blocks + self.index.bytes()
    }

    /// Drops everything.
    pub(crate) fn clear(&self) {
        self.blocks.iter().for_each(KnownBlock::clear);
        self.index.clear();
        self.dentries.clear();
    }
}
