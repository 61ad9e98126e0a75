//! The tree of a quota file in memory, without the entries: their places and the free slots.

use super::{
    BLOCKS_PER_INSERT, ENTRIES_PER_LEAF, LEAF_HEADER_BYTES, LeafHeader, QUOTA_BLOCK_BYTES,
    QUOTA_ENTRY_BYTES, QuotaEntry, QuotaInfo, QuotaKind,
};
use crate::CorruptKind;
use crate::bytes::{get_u32, put_u32, rest};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use uext4_num::{u64_of, usize_of};

/// Block of the root.
pub(super) const ROOT: u32 = 1;
/// Levels of the tree: one for each byte of an identifier.
const LEVELS: usize = 4;

/// What a block of a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaPart {
    /// Block 0.
    Info,
    /// A node of the tree.
    Node,
    /// A block of entries, or an unused one.
    Entries,
}

/// Bytes to be written at a byte of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// Offset in bytes; a patch does not cross a block of 1 KiB.
    pub at: u64,
    /// The bytes to write there.
    pub bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Leaf {
    pub(super) header: LeafHeader,
    /// A bit for each entry that is in use.
    pub(super) used: u16,
}

/// A block of the list of unused blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unused {
    pub(super) block: u32,
    /// The next block of the list, or 0.
    pub(super) next: u32,
}

/// The nodes of a tree and the state of its leaves.
pub struct QuotaTree {
    kind: QuotaKind,
    /// The fields of block 0: grace times and free lists.
    pub info: QuotaInfo,
    pub(super) nodes: HashMap<u32, Box<[u8; QUOTA_BLOCK_BYTES]>>,
    pub(super) leaves: HashMap<u32, Leaf>,
    /// The front of the list of unused blocks, its head last. They are zero behind their header.
    pub(super) unused: Vec<Unused>,
}

type Block = [u8; QUOTA_BLOCK_BYTES];

/// A walk over the nodes of a file.
struct Walk<'a, E> {
    read: &'a mut dyn FnMut(u32, QuotaPart) -> Result<Block, E>,
    corrupt: &'a dyn Fn(CorruptKind) -> E,
    blocks: u32,
    nodes: HashMap<u32, Box<Block>>,
    /// The block of entries of each identifier.
    found: BTreeMap<u32, u32>,
}

impl<E> Walk<'_, E> {
    fn node(&mut self, block: u32, levels_below: usize, prefix: u32) -> Result<(), E> {
        if self.nodes.contains_key(&block) {
            return Err((self.corrupt)(CorruptKind::TwoParents { block }));
        }
        let bytes = (self.read)(block, QuotaPart::Node)?;
        self.nodes.insert(block, Box::new(bytes));
        for (slot, child) in (0..).zip(node_pointers(&bytes)) {
            if child == 0 {
                continue;
            }
            if child <= ROOT || child >= self.blocks {
                return Err((self.corrupt)(CorruptKind::BlockOutsideFile {
                    block: child,
                }));
            }
            let prefix = prefix << 8 | slot;
            match levels_below.checked_sub(1) {
                None => drop(self.found.insert(prefix, child)),
                Some(levels_below) => self.node(child, levels_below, prefix)?,
            }
        }
        Ok(())
    }
}

impl QuotaTree {
    /// Reads a tree: `read` returns blocks of the file, `corrupt` makes an error. Returns the
    /// entries, each with its byte offset in the file.
    ///
    /// # Errors
    /// Those of `read`, and damage.
    pub fn read<E>(
        kind: QuotaKind,
        mut read: impl FnMut(u32, QuotaPart) -> Result<[u8; QUOTA_BLOCK_BYTES], E>,
        corrupt: impl Fn(CorruptKind) -> E,
    ) -> Result<(Self, Vec<(QuotaEntry, u64)>), E> {
        let info = QuotaInfo::decode(&read(0, QuotaPart::Info)?, kind).map_err(&corrupt)?;
        let mut walk = Walk {
            read: &mut read,
            corrupt: &corrupt,
            blocks: info.blocks,
            nodes: HashMap::new(),
            found: BTreeMap::new(),
        };
        if info.blocks > ROOT {
            walk.node(ROOT, LEVELS - 1, 0)?;
        }
        let (nodes, found) = (walk.nodes, walk.found);
        let mut tree = Self {
            kind,
            info,
            nodes,
            leaves: HashMap::new(),
            unused: Vec::new(),
        };
        let mut by_leaf: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (id, leaf) in found {
            by_leaf.entry(leaf).or_default().push(id);
        }
        let mut entries = Vec::new();
        for (leaf, ids) in by_leaf {
            if tree.nodes.contains_key(&leaf) {
                return Err(corrupt(CorruptKind::NodeAndEntries));
            }
            let bytes = read(leaf, QuotaPart::Entries)?;
            tree.take_leaf(leaf, &bytes, &ids, &mut entries)
                .map_err(&corrupt)?;
        }
        tree.read_free_leaves(&mut read, &corrupt)?;
        tree.read_unused(&mut read)?;
        Ok((tree, entries))
    }

    fn take_leaf(
        &mut self,
        block: u32,
        bytes: &Block,
        ids: &[u32],
        entries: &mut Vec<(QuotaEntry, u64)>,
    ) -> Result<(), CorruptKind> {
        let before = entries.len();
        for slot in 0..ENTRIES_PER_LEAF {
            let at = entry_at(slot);
            let Some(entry) = QuotaEntry::decode(rest(bytes, at)) else {
                continue;
            };
            if ids.binary_search(&entry.id).is_ok() {
                entries.push((entry, byte_of(block, at)));
            }
        }
        self.leaves.insert(block, leaf_of(bytes));
        if entries.len() == before.saturating_add(ids.len()) {
            Ok(())
        } else {
            Err(CorruptKind::EntryElsewhere)
        }
    }

    /// Reads the blocks with free slots that hold no entry of the tree. The first must be usable;
    /// the list ends where it is not.
    fn read_free_leaves<E>(
        &mut self,
        read: &mut dyn FnMut(u32, QuotaPart) -> Result<Block, E>,
        corrupt: &dyn Fn(CorruptKind) -> E,
    ) -> Result<(), E> {
        let mut seen = BTreeSet::new();
        let mut at = self.info.free_leaf;
        while at != 0 && seen.insert(at) {
            if let Some(leaf) = self.leaves.get(&at) {
                at = leaf.header.next;
                continue;
            }
            if !self.is_inside(at) {
                if at == self.info.free_leaf {
                    return Err(corrupt(CorruptKind::FreeListOutside));
                }
                return Ok(());
            }
            let leaf = leaf_of(&read(at, QuotaPart::Entries)?);
            self.leaves.insert(at, leaf);
            at = leaf.header.next;
        }
        Ok(())
    }

    /// Reads the front of the list of unused blocks, up to one that is not as this library leaves
    /// it.
    fn read_unused<E>(
        &mut self,
        read: &mut dyn FnMut(u32, QuotaPart) -> Result<Block, E>,
    ) -> Result<(), E> {
        let mut seen = BTreeSet::new();
        let mut block = self.info.free_block;
        while self.is_inside(block) && !self.leaves.contains_key(&block) && seen.insert(block) {
            let bytes = read(block, QuotaPart::Entries)?;
            if rest(&bytes, LEAF_HEADER_BYTES)
                .iter()
                .any(|byte| *byte != 0)
            {
                break;
            }
            let next = LeafHeader::decode(&bytes).next;
            self.unused.push(Unused { block, next });
            block = next;
        }
        self.unused.reverse();
        Ok(())
    }

    /// Whether the block is a node, or a block of entries that the tree or the list of those with
    /// free slots leads to.
    pub fn has_block(&self, block: u32) -> bool {
        self.nodes.contains_key(&block) || self.leaves.contains_key(&block)
    }

    /// Entries in the blocks that were read, also those that the tree does not lead to.
    pub fn stored_entries(&self) -> u64 {
        let used = self.leaves.values().map(|leaf| leaf.used.count_ones());
        used.map(u64::from).sum()
    }

    /// Whether it is a block of the file that is no node.
    fn is_inside(&self, block: u32) -> bool {
        block > ROOT && block < self.info.blocks && !self.nodes.contains_key(&block)
    }

    /// The tree of a new file: a root without entries, and grace times of both kinds.
    pub fn new(kind: QuotaKind, grace_seconds: u32) -> Self {
        let info = QuotaInfo {
            space_grace_seconds: grace_seconds,
            inodes_grace_seconds: grace_seconds,
            flags: 0,
            blocks: ROOT + 1,
            free_block: 0,
            free_leaf: 0,
        };
        Self {
            kind,
            info,
            nodes: HashMap::new(),
            leaves: HashMap::new(),
            unused: Vec::new(),
        }
    }

    /// Bytes that the file must have before the next [`Self::insert`].
    pub fn bytes_for_insert(&self) -> u64 {
        byte_of(self.info.blocks.saturating_add(BLOCKS_PER_INSERT), 0)
    }

    /// Bytes of the file that are in use.
    pub fn used_bytes(&self) -> u64 {
        byte_of(self.info.blocks, 0)
    }

    /// Allocates an entry for an identifier that the tree does not have; returns its byte offset
    /// and the other writes. Blocks after the last must be zero.
    pub fn insert(&mut self, id: u32) -> (u64, Vec<Patch>) {
        let mut patches = Vec::new();
        self.info.blocks = self.info.blocks.max(ROOT + 1);
        self.nodes
            .entry(ROOT)
            .or_insert_with(|| Box::new([0; QUOTA_BLOCK_BYTES]));
        let (node, pointer) = self.path(id, &mut patches);
        let leaf = self.leaf_with_room(&mut patches);
        let slot = self.take_slot(leaf, &mut patches);
        self.point(node, pointer, leaf, &mut patches);
        patches.push(self.info_patch());
        (byte_of(leaf, entry_at(slot)), patches)
    }

    /// The patch that writes the current block 0.
    pub fn info_patch(&self) -> Patch {
        Patch {
            at: 0,
            bytes: self.info.encode(self.kind).to_vec(),
        }
    }

    /// A block of zeroes: an unused one, or the next behind the last.
    fn new_block(&mut self, patches: &mut Vec<Patch>) -> u32 {
        if let Some(Unused { block, next }) = self.unused.pop() {
            self.info.free_block = next;
            patches.push(header_patch(block, &LeafHeader::default()));
            return block;
        }
        let block = self.info.blocks;
        self.info.blocks = block.saturating_add(1);
        block
    }

    fn leaf_with_room(&mut self, patches: &mut Vec<Patch>) -> u32 {
        let first = self.info.free_leaf;
        let there = self.leaves.get(&first);
        let is_usable = there.is_some_and(|leaf| {
            usize::from(leaf.header.entries) < ENTRIES_PER_LEAF
                && usize_of(leaf.used.count_ones()) < ENTRIES_PER_LEAF
        });
        if first != 0 && is_usable {
            return first;
        }
        let block = self.new_block(patches);
        let leaf = Leaf::default();
        self.leaves.insert(block, leaf);
        self.info.free_leaf = block;
        patches.push(header_patch(block, &leaf.header));
        block
    }

    fn take_slot(&mut self, block: u32, patches: &mut Vec<Patch>) -> usize {
        let leaf = self.leaves.entry(block).or_default();
        let slot = usize_of(leaf.used.trailing_ones());
        leaf.used |= 1 << slot;
        leaf.header.entries = leaf.header.entries.saturating_add(1);
        let mut header = leaf.header;
        if usize::from(header.entries) >= ENTRIES_PER_LEAF {
            let next = std::mem::take(&mut header.next);
            header.previous = 0;
            leaf.header = header;
            // A next block without entries in the tree is ignored: new blocks are used.
            let after = self.leaves.get_mut(&next).map(|after| {
                after.header.previous = 0;
                after.header
            });
            self.info.free_leaf = if after.is_some() { next } else { 0 };
            patches.extend(after.map(|header| header_patch(next, &header)));
        }
        patches.push(header_patch(block, &header));
        slot
    }

    /// The lowest node of an identifier, made with those above it if it is missing, and the offset
    /// of its pointer.
    fn path(&mut self, id: u32, patches: &mut Vec<Patch>) -> (u32, usize) {
        let mut node = ROOT;
        let [inner @ .., lowest] = id.to_be_bytes();
        for byte in inner {
            let slot = pointer_at(byte);
            let child = self.nodes.get(&node).map(|bytes| get_u32(&bytes[..], slot));
            node = match child.unwrap_or(0) {
                0 => {
                    let new = self.new_block(patches);
                    self.nodes.insert(new, Box::new([0; QUOTA_BLOCK_BYTES]));
                    self.point(node, slot, new, patches);
                    new
                }
                child => child,
            };
        }
        (node, pointer_at(lowest))
    }

    pub(super) fn point(&mut self, node: u32, slot: usize, child: u32, patches: &mut Vec<Patch>) {
        if let Some(bytes) = self.nodes.get_mut(&node) {
            put_u32(&mut bytes[..], slot, child);
        }
        patches.push(Patch {
            at: byte_of(node, slot),
            bytes: child.to_le_bytes().to_vec(),
        });
    }
}

/// The pointers of a node, in the order of bytes of identifiers; 0 for none.
pub fn node_pointers(block: &[u8; QUOTA_BLOCK_BYTES]) -> impl Iterator<Item = u32> + '_ {
    let pointers = block.as_chunks().0.iter();
    pointers.map(|pointer| u32::from_le_bytes(*pointer))
}

/// A block of entries as it is on the device.
fn leaf_of(bytes: &Block) -> Leaf {
    Leaf {
        header: LeafHeader::decode(bytes),
        used: (0..ENTRIES_PER_LEAF)
            .filter(|slot| QuotaEntry::decode(rest(bytes, entry_at(*slot))).is_some())
            .fold(0, |used, slot| used | 1 << slot),
    }
}

pub(super) fn entry_at(slot: usize) -> usize {
    slot.saturating_mul(QUOTA_ENTRY_BYTES)
        .saturating_add(LEAF_HEADER_BYTES)
}

/// The offset of a node's pointer for one byte of an identifier.
pub(super) fn pointer_at(byte: u8) -> usize {
    usize::from(byte).saturating_mul(4)
}

pub(super) fn byte_of(block: u32, offset: usize) -> u64 {
    let start = u64::from(block).saturating_mul(u64_of(QUOTA_BLOCK_BYTES));
    start.saturating_add(u64_of(offset))
}

pub(super) fn header_patch(block: u32, header: &LeafHeader) -> Patch {
    Patch {
        at: byte_of(block, 0),
        bytes: header.encode().to_vec(),
    }
}
