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
//! growth of the dentry table; nothing is taken under it. `Rank::LeafSplit`: one per leaf.

use super::dentries::Dentries;
use super::dentry_memory::DentryMemory;
use super::hashed_name::Key;
use super::index_copy::IndexCopy;
use super::known_block::KnownBlock;
use super::prefetch_hint::PrefetchHint;
use super::right_link::Right;
use super::sparse_leaves::SparseQueue;
use crate::cache::meta::{BlockState, MetaBlock};
use uext4_format::{InodeNr, LogicalBlock};
use uext4_num::usize_of;
use uext4_sync::atomic::{
    AtomicU32,
    Ordering::{Relaxed, SeqCst},
};
use uext4_sync::{Arc, RwLockWriteGuard, Segments, Version};

/// Blocks from 2^16 on are not kept: bounds the tables of a damaged directory.
const SEGMENTS: usize = 17;
const BLOCKS_MAX: u32 = 1 << (SEGMENTS - 1);

/// Inserts that try to split ahead after threads have met in a leaf.
const CROWD: u32 = 64;

/// Bytes kept per block.
const PLACE_BYTES: usize = size_of::<KnownBlock>() + size_of::<PrefetchHint>();

/// A free entry of a node that a split will use.
pub(crate) struct Promised<'a>(&'a AtomicU32);

impl Drop for Promised<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

/// The caches of one directory; see the module.
#[derive(Default)]
pub(crate) struct DirBlocks {
    blocks: Segments<KnownBlock, SEGMENTS>,
    hints: Segments<PrefetchHint, SEGMENTS>,
    index: IndexCopy<SEGMENTS>,
    dentries: Dentries,
    sparse: SparseQueue,
    /// Entries of nodes that splits in progress will use.
    promised: AtomicU32,
    /// Inserts that will try to split ahead, unless threads meet again.
    crowd: AtomicU32,
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
            block.set_logical(nr);
        }
        if let Some(parts) = self.hints.get_or_make(nr.0) {
            parts.put(block);
        }
    }

    /// Updates the prefetch hints after a search of a block with this state.
    pub(crate) fn update_hints(&self, block: &MetaBlock, state: &BlockState) {
        if !block.has_new_addresses(state) {
            return;
        }
        if let Some(parts) = self.hints.get(block.logical().0) {
            parts.update(state);
        }
    }

    /// The names of a leaf that are in another one since a split.
    pub(crate) fn right_of(&self, version: Version, leaf: LogicalBlock) -> Option<Right> {
        self.blocks.get(leaf.0)?.right.get(version)
    }

    /// The leaf of a major hash, from `leaf` to the right as far as splits require.
    pub(crate) fn follow(&self, version: Version, leaf: LogicalBlock, major: u32) -> LogicalBlock {
        let mut at = leaf;
        while let Some(right) = self.right_of(version, at).filter(|one| major >= one.hash) {
            at = right.leaf;
        }
        at
    }

    /// Whether this leaf and new blocks have a place here.
    pub(crate) fn keeps(&self, leaf: LogicalBlock, new: LogicalBlock) -> bool {
        self.blocks.get(leaf.0).is_some() && new.0 < BLOCKS_MAX
    }

    /// Takes the right to split a leaf; `None` if another thread has it, or the leaf has no place
    /// here.
    pub(crate) fn begin_split(&self, leaf: LogicalBlock) -> Option<RwLockWriteGuard<'_, ()>> {
        self.blocks.get(leaf.0)?.split.try_write()
    }

    /// Notes that threads meet in a leaf of this directory.
    pub(crate) fn mark_contended(&self) {
        if self.crowd.load(Relaxed) != CROWD {
            self.crowd.store(CROWD, Relaxed);
        }
    }

    /// Waits until no thread splits the leaf.
    pub(crate) fn await_split(&self, leaf: LogicalBlock) {
        self.mark_contended();
        if let Some(place) = self.blocks.get(leaf.0) {
            drop(place.split.read());
        }
    }

    /// Whether leaves are to be split ahead: threads have met in a leaf a few tries ago.
    pub(crate) fn is_crowded(&self) -> bool {
        self.crowd.load(Relaxed) != 0
    }

    /// Counts an insert that tries to split its leaf ahead.
    pub(crate) fn count_split_try(&self) {
        let crowd = self.crowd.load(Relaxed);
        self.crowd.store(crowd.saturating_sub(1), Relaxed);
    }

    /// Promises one of the free entries of a node to a split; `free` counts them. `None` if there
    /// are no more than others were promised. The caller holds the inode's state exclusively.
    pub(crate) fn promise(&self, free: impl FnOnce() -> usize) -> Option<Promised<'_>> {
        // Read first: others use their entries meanwhile.
        let promised = usize_of(self.promised.load(SeqCst));
        (free() > promised).then(|| {
            self.promised.fetch_add(1, SeqCst);
            Promised(&self.promised)
        })
    }

    /// Gives a new leaf the link of the one that is being split.
    pub(crate) fn inherit_right(&self, version: Version, leaf: LogicalBlock, new: LogicalBlock) {
        if let (Some(old), Some(new)) = (self.blocks.get(leaf.0), self.blocks.get(new.0)) {
            new.right.set(version, old.right.get(version));
        }
    }

    /// Sets the link of a leaf that was split, which is locked exclusively.
    pub(crate) fn set_right(&self, version: Version, leaf: LogicalBlock, right: Right) {
        if let Some(place) = self.blocks.get(leaf.0) {
            place.right.set(version, Some(right));
        }
    }

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
    pub(crate) fn lookup_cached(&self, key: Key) -> Option<InodeNr> {
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

    pub(crate) fn clear(&self) {
        self.blocks.iter().for_each(KnownBlock::clear);
        self.index.clear();
        self.dentries.clear();
    }
}
