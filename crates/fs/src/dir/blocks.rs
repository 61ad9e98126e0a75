//! The blocks of one directory that are in memory, by their place in the directory: spares a lookup
//! the walk through the map and the cache of all blocks, whose locks all directories share. The
//! bytes of its index, so that a way through it locks and counts nothing that others lock or count.
//! And what names mean ([`names`](super::names)), for who does not need their block.
//!
//! Invariants: a block of a directory stays at its place until it is freed, and then it is gone; a
//! number that is given to a new file starts with an empty table. Entries are weak: the cache of
//! blocks decides what stays in memory, and is told that a block was used. Roots and nodes are
//! those of one version of the structure, whatever else was known of it.
//! Locking: `Rank::CacheShard`, which readers do not contend for; nothing is taken under it.

use super::known_block::KnownBlock;
use super::name_memory::NameMemory;
use super::names::{Key, Keys, Names};
use super::turns::SparseNames;
use crate::meta::{BlockState, MetaBlock};
use std::collections::BTreeMap;
use std::sync::Arc;
use uext4_format::{BlockNr, InodeNr, LogicalBlock};
use uext4_journal::Image;
use uext4_sync::{Rank, ReadMostly, ReadMostlyGuard, Version, VersionedLock};

/// Blocks from here on are not kept: bounds the table of a directory of a damaged image.
const BLOCKS_MAX: u32 = 1 << 16;
/// Roots and nodes that are kept at most; an index of 4 KiB blocks with a million leaves has more,
/// and its further nodes are read where they are.
const NODES_MAX: usize = 1024;

/// See the module.
pub(crate) struct DirBlocks {
    known: ReadMostly<Known>,
    keys: Keys,
    sparse: SparseNames,
}

#[derive(Default)]
pub(super) struct Known {
    blocks: Vec<KnownBlock>,
    version: Option<Version>,
    nodes: BTreeMap<LogicalBlock, Node>,
    names: Names,
}

/// A root or node as it stood.
pub(super) struct Node {
    pub(super) nr: BlockNr,
    pub(super) bytes: Image,
}

impl Default for DirBlocks {
    fn default() -> Self {
        Self {
            known: ReadMostly::new(Rank::CacheShard, Known::default()),
            keys: Keys::default(),
            sparse: SparseNames::default(),
        }
    }
}

impl Known {
    /// The block, if it is in memory and known.
    pub(super) fn block(&self, nr: LogicalBlock) -> Option<Arc<MetaBlock>> {
        self.blocks.get(nr.0 as usize)?.block()
    }

    /// Asks for what a look into the block reads.
    pub(super) fn expect_block(&self, nr: LogicalBlock) {
        if let Some(block) = self.blocks.get(nr.0 as usize) {
            block.expect();
        }
    }

    /// What names mean.
    pub(super) fn names(&self) -> &Names {
        &self.names
    }

    /// A root or node, if it is known as the structure is in this version.
    pub(super) fn node(&self, version: Version, nr: LogicalBlock) -> Option<&Node> {
        self.nodes.get(&nr).filter(|_| self.is_of(version))
    }

    /// Whether a root or node of this version is to be put in.
    pub(super) fn lacks(&self, version: Version, nr: LogicalBlock) -> bool {
        !self.is_of(version) || (!self.nodes.contains_key(&nr) && self.nodes.len() < NODES_MAX)
    }

    fn is_of(&self, version: Version) -> bool {
        self.version.is_some_and(|of| of.is_structure_of(version))
    }
}

impl DirBlocks {
    /// What is known.
    pub(super) fn known(&self) -> ReadMostlyGuard<'_, Known> {
        self.known.read()
    }

    /// Block `nr` of the directory is `block`.
    pub(super) fn put(&self, nr: LogicalBlock, block: &Arc<MetaBlock>) {
        if nr.0 >= BLOCKS_MAX {
            return;
        }
        let at = nr.0 as usize;
        let mut known = self.known.write();
        if known.blocks.len() <= at {
            known.blocks.resize_with(at + 1, KnownBlock::default);
        }
        known.blocks[at] = KnownBlock::of(block);
        block.set_place(nr);
    }

    /// A block, whose state this is, was looked into: the next one to ask for it wants the same.
    pub(super) fn note(&self, block: &MetaBlock, state: &BlockState) {
        if !block.is_to_note(state) {
            return;
        }
        if let Some(place) = self.known().blocks.get(block.place().0 as usize) {
            place.note(state);
        }
    }

    /// Roots and nodes of this version of the structure; of other versions nothing is known then.
    pub(super) fn put_nodes(&self, version: Version, nodes: Vec<(LogicalBlock, Node)>) {
        let mut known = self.known.write();
        if !known.is_of(version) {
            known.version = Some(version);
            known.nodes.clear();
        }
        if known.nodes.len() < NODES_MAX {
            known.nodes.extend(nodes);
        }
    }

    /// Ends the move that goes on in `index`, after which the structure differs in these nodes
    /// alone.
    pub(super) fn end_move(
        &self,
        index: &VersionedLock,
        nodes: impl IntoIterator<Item = (LogicalBlock, Node)>,
    ) {
        let mut known = self.known.write();
        let is_known = index.version().is_some_and(|version| known.is_of(version));
        known.version = is_known.then(|| index.after_move());
        index.end_move();
        for (place, node) in nodes {
            known.nodes.entry(place).and_modify(|known| *known = node);
        }
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
        self.known().names.prefetch(key);
        key
    }

    /// What the name means, if it was made or looked up.
    pub(super) fn meaning(&self, key: Key) -> Option<InodeNr> {
        self.known().names.get(key)
    }

    /// The name means `nr`. Its block is locked, at its place in the structure.
    pub(super) fn put_name(&self, key: Key, nr: InodeNr, memory: &Arc<NameMemory>) {
        let size = {
            let known = self.known();
            if known.names.put(key, nr) || !known.names.may_grow(memory) {
                return;
            }
            known.names.size()
        };
        let mut known = self.known.write();
        // Of all who came to this, the first one makes it larger.
        if known.names.size() == size {
            known.names.grow(memory);
        }
        known.names.put(key, nr);
    }

    /// The name is about to go, or to mean something else. Its block is locked.
    pub(super) fn forget(&self, key: Key) {
        self.known().names.forget(key);
    }

    /// As [`Self::forget`].
    pub(super) fn forget_name(&self, name: &[u8]) {
        self.forget(self.key(name));
    }

    /// Forgets all.
    pub(crate) fn clear(&self) {
        *self.known.write() = Known::default();
    }
}
