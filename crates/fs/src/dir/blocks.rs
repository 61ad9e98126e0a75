//! The blocks of one directory that are in memory, by their place in the directory: spares a lookup
//! the walk through the map and the cache of all blocks, whose locks all directories share. The
//! entries of its index ([`index_copy`](super::index_copy)), so that a way through it locks and
//! counts nothing that others lock or count. And what names mean ([`names`](super::names)), for who
//! does not need their block.
//!
//! Invariants: a block of a directory stays at its place until it is freed, and then it is gone; a
//! number that is given to a new file starts with empty tables. Entries are weak: the cache of
//! blocks decides what stays in memory, and is told that a block was used.
//! Locking: `Rank::CacheShard`: of one place, of the index to change its copy, and of the names
//! while some of them move; nothing is taken under it.

use super::index_copy::IndexCopy;
use super::known_block::KnownBlock;
use super::name_entry::{Key, Keys};
use super::name_memory::NameMemory;
use super::names::Names;
use super::turns::SparseNames;
use super::whereabouts::Whereabouts;
use crate::meta::{BlockState, MetaBlock};
use std::sync::Arc;
use uext4_format::{InodeNr, LogicalBlock};
use uext4_sync::Segments;

/// Blocks from 2^16 on are not kept: bounds the table of a directory of a damaged image.
const SEGMENTS: usize = 17;

/// What is kept of one place.
const PLACE_BYTES: usize = size_of::<KnownBlock>() + size_of::<Whereabouts>();

/// See the module.
#[derive(Default)]
pub(crate) struct DirBlocks {
    blocks: Segments<KnownBlock, SEGMENTS>,
    whereabouts: Segments<Whereabouts, SEGMENTS>,
    index: IndexCopy<SEGMENTS>,
    names: Names,
    keys: Keys,
    sparse: SparseNames,
}

impl DirBlocks {
    /// The block, if it is in memory and known.
    pub(super) fn block(&self, nr: LogicalBlock) -> Option<Arc<MetaBlock>> {
        self.blocks.get(nr.0)?.block()
    }

    /// Asks for what a look into the block reads.
    pub(super) fn expect_block(&self, nr: LogicalBlock) {
        if let (Some(block), Some(parts)) = (self.blocks.get(nr.0), self.whereabouts.get(nr.0)) {
            block.expect();
            parts.expect();
        }
    }

    /// Block `nr` of the directory is `block`.
    pub(super) fn put(&self, nr: LogicalBlock, block: &Arc<MetaBlock>) {
        if let Some(place) = self.blocks.get_or_make(nr.0) {
            place.put(block);
            block.set_place(nr);
        }
        if let Some(parts) = self.whereabouts.get_or_make(nr.0) {
            parts.put(block);
        }
    }

    /// A block, whose state this is, was looked into: the next one to ask for it wants the same.
    pub(super) fn note(&self, block: &MetaBlock, state: &BlockState) {
        if !block.is_to_note(state) {
            return;
        }
        if let Some(parts) = self.whereabouts.get(block.place().0) {
            parts.note(state);
        }
    }

    /// The entries of the index.
    pub(super) fn index(&self) -> &IndexCopy<SEGMENTS> {
        &self.index
    }

    /// Names that wait to be looked at.
    pub(super) fn sparse(&self) -> &SparseNames {
        &self.sparse
    }

    /// How a name is asked for.
    pub(super) fn key(&self, name: &[u8]) -> Key {
        self.keys.of(name)
    }

    /// As [`Self::key`], of a name that will be put in or forgotten: what is read then is fetched.
    pub(super) fn expect_name(&self, name: &[u8]) -> Key {
        let key = self.key(name);
        self.names.prefetch(key);
        key
    }

    /// What the name means, if it was made or looked up.
    pub(super) fn meaning(&self, key: Key) -> Option<InodeNr> {
        self.names.get(key)
    }

    /// The name means `nr`. Its block is locked, at its place in the structure.
    pub(super) fn put_name(&self, key: Key, nr: InodeNr, memory: &Arc<NameMemory>) {
        if !self.names.put(key, nr) {
            self.names.grow(memory);
            self.names.put(key, nr);
        }
    }

    /// The name is about to go, or to mean something else. Its block is locked.
    pub(super) fn forget(&self, key: Key) {
        self.names.forget(key);
    }

    /// As [`Self::forget`].
    pub(super) fn forget_name(&self, name: &[u8]) {
        self.forget(self.key(name));
    }

    /// Memory, without that of the names, which counts itself.
    pub(crate) fn bytes(&self) -> usize {
        let blocks = self.blocks.iter().count() * PLACE_BYTES;
        size_of::<Self>() + blocks + self.index.bytes()
    }

    /// Forgets all.
    pub(crate) fn clear(&self) {
        self.blocks.iter().for_each(KnownBlock::clear);
        self.index.clear();
        self.names.clear();
    }
}
