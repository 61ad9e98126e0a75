//! The blocks that an inode maps, whatever is wrong with the map.
//!
//! Invariants: each node of a map is read once and levels fall, so that a map ends. [`Nodes`]
//! bounds the nodes of all maps together, since maps may share them. A node that cannot be read is
//! reported with the range of the file that it would map.

use crate::Image;
use std::collections::HashSet;
use std::ops::Range;
use uext4_format::extent::{
    Extent, ExtentIndex, ExtentNode, ExtentState, LOGICAL_BLOCKS, MAGIC, MAX_DEPTH,
};
use uext4_format::indirect::{DIRECT_BLOCKS, pointer};
use uext4_format::{BlockNr, DamageLocation, Geometry, Inode, InodeFlags, LogicalBlock};
use uext4_num::{clamp_u32, u64_of, usize_of};

/// Most nodes of all maps, whatever the size of the file system.
const NODES_MAX: u64 = 1 << 24;
/// Levels of tables behind the pointers of the inode.
const LEVELS: u32 = 3;

/// A part of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Data.
    Data(Extent),
    /// A block of the map.
    Node(u64),
    /// Blocks of the file that the map lost, by their numbers in it.
    Lost(Range<u64>),
}

/// Where nodes come from.
pub(crate) trait NodeSource {
    /// The bytes of a block for which the test is true.
    fn node(&self, block: u64, test: &dyn Fn(&[u8]) -> bool) -> Option<Vec<u8>>;
}

impl NodeSource for Image {
    fn node(&self, block: u64, test: &dyn Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
        self.block(block).filter(|bytes| test(bytes))
    }
}

/// Where nodes come from, and how many may be read.
pub(crate) struct Nodes<'n> {
    pub(crate) source: &'n dyn NodeSource,
    /// Nodes that may be read yet.
    pub(crate) left: u64,
}

impl<'n> Nodes<'n> {
    pub(crate) fn new(geometry: &Geometry, source: &'n dyn NodeSource) -> Self {
        Self {
            source,
            left: nodes_max(geometry),
        }
    }
}

/// Nodes that all maps of a file system may have together.
pub(crate) fn nodes_max(geometry: &Geometry) -> u64 {
    geometry.blocks_count.min(NODES_MAX)
}

/// What a node has to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// A node, also one with a wrong checksum.
    Any,
    /// A node with the checksum of its inode, where there are checksums.
    Sealed(Option<uext4_format::Seed>),
}

/// Calls `take` for the parts of the map of an inode.
pub(crate) fn walk(
    geometry: &Geometry,
    inode: &Inode,
    trust: Trust,
    nodes: &mut Nodes<'_>,
    take: &mut dyn FnMut(Part),
) {
    let mut walk = Walk {
        geometry,
        trust,
        nodes,
        visited: HashSet::new(),
        take,
    };
    if inode.flags.contains(InodeFlags::EXTENTS) {
        let root = ExtentNode::new(&inode.i_block[..]);
        walk.tree(&root, root.depth().min(MAX_DEPTH), 0..LOGICAL_BLOCKS);
    } else {
        walk.tables(inode);
    }
}

struct Walk<'w, 'n> {
    geometry: &'w Geometry,
    trust: Trust,
    nodes: &'w mut Nodes<'n>,
    visited: HashSet<u64>,
    take: &'w mut dyn FnMut(Part),
}

impl Walk<'_, '_> {
    fn tree<B: AsRef<[u8]>>(&mut self, node: &ExtentNode<B>, depth: u16, range: Range<u64>) {
        if node.magic() != MAGIC || node.count() > node.capacity() || node.depth() != depth {
            (self.take)(Part::Lost(range));
            return;
        }
        let Some(below) = depth.checked_sub(1) else {
            for extent in node.extents() {
                let blocks = u64::from(extent.len);
                if blocks > 0 && self.geometry.contains_run(extent.start, blocks) {
                    (self.take)(Part::Data(extent));
                } else {
                    let start = u64::from(extent.logical.0);
                    (self.take)(Part::Lost(start..start.saturating_add(blocks)));
                }
            }
            return;
        };
        for (at, index) in node.indexes().enumerate() {
            let start = u64::from(index.logical.0);
            let next = at.checked_add(1).and_then(|next| node.key(next));
            let end = next.map_or(range.end, |key| key.0.into());
            let part = start..end.max(start);
            let trust = self.trust;
            let bytes = self.visit(index.child.0, &|bytes| is_node(bytes, below, &index, trust));
            match bytes {
                Some(bytes) => self.tree(&ExtentNode::new(&bytes[..]), below, part),
                None => (self.take)(Part::Lost(part)),
            }
        }
    }

    fn tables(&mut self, inode: &Inode) {
        for at in 0..DIRECT_BLOCKS {
            self.data(at.into(), pointer(&inode.i_block, usize_of(at)));
        }
        let per_table = u64::from(self.geometry.block_size() / 4);
        let mut first = u64::from(DIRECT_BLOCKS);
        for level in 0..LEVELS {
            let at = usize_of(DIRECT_BLOCKS.saturating_add(level));
            self.table(pointer(&inode.i_block, at).0, first, level);
            let blocks = per_table.saturating_pow(level.saturating_add(1));
            first = first.saturating_add(blocks);
        }
    }

    fn table(&mut self, block: u64, first: u64, level: u32) {
        if block == 0 {
            return;
        }
        let per_table = u64::from(self.geometry.block_size() / 4);
        let each = per_table.saturating_pow(level);
        let (geometry, trust) = (*self.geometry, self.trust);
        let bytes = self.visit(block, &|bytes| is_table(bytes, &geometry, trust));
        let Some(bytes) = bytes else {
            let end = first.saturating_add(each.saturating_mul(per_table));
            (self.take)(Part::Lost(first..end.min(LOGICAL_BLOCKS)));
            return;
        };
        for at in 0..bytes.len() / 4 {
            let logical = first.saturating_add(u64_of(at).saturating_mul(each));
            let child = pointer(&bytes, at);
            match level.checked_sub(1) {
                None => self.data(logical, child),
                Some(below) => self.table(child.0, logical, below),
            }
        }
    }

    fn data(&mut self, logical: u64, block: BlockNr) {
        if block.0 == 0 || logical >= LOGICAL_BLOCKS {
            return;
        }
        if !self.geometry.contains(block) {
            (self.take)(Part::Lost(logical..logical.saturating_add(1)));
            return;
        }
        (self.take)(Part::Data(Extent {
            logical: LogicalBlock(clamp_u32(logical)),
            start: block,
            len: 1,
            state: ExtentState::Written,
        }));
    }

    /// Reads a node that is met for the first time.
    fn visit(&mut self, block: u64, is_node: &dyn Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
        if !self.geometry.contains(BlockNr(block)) || !self.visited.insert(block) {
            return None;
        }
        self.nodes.left = self.nodes.left.checked_sub(1)?;
        (self.take)(Part::Node(block));
        self.nodes.source.node(block, is_node)
    }
}

/// Whether a block is the node that an index names.
fn is_node(bytes: &[u8], depth: u16, index: &ExtentIndex, trust: Trust) -> bool {
    let child = ExtentNode::new(bytes);
    let is_sealed = match trust {
        Trust::Sealed(Some(seed)) => {
            let place = DamageLocation::Block(index.child);
            !child.is_empty() && child.verify_checksum(seed, place).is_ok()
        }
        Trust::Sealed(None) => !child.is_empty() && child.key(0) == Some(index.logical),
        Trust::Any => true,
    };
    let has_shape = child.magic() == MAGIC && child.depth() == depth;
    has_shape && child.count() <= child.capacity() && is_sealed
}

/// Whether a block can be a table of block numbers. A table without any is none: a deletion clears
/// them.
fn is_table(bytes: &[u8], geometry: &Geometry, trust: Trust) -> bool {
    if trust == Trust::Any {
        return true;
    }
    let mut pointers = (0..bytes.len() / 4).map(|at| pointer(bytes, at));
    let is_used = bytes.iter().any(|byte| *byte != 0);
    is_used && pointers.all(|one| one.0 == 0 || geometry.contains(one))
}
