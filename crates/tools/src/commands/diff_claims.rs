//! The blocks that an inode owns: data, nodes of its map, its block of attributes.
//!
//! The map is read from the device as it is, without a mount, so that a damaged one still gives the
//! owners of what can be read.
//! Invariants: each node is visited once per inode, and only blocks of the file system are read, so
//! a hostile map ends.

use std::collections::HashSet;
use std::ops::Range;
use uext4::device::BlockDevice;
use uext4::format::extent::{ExtentNode, MAX_DEPTH};
use uext4::format::indirect::{DIRECT_BLOCKS, pointer};
use uext4::format::{FileType, Geometry, Inode, InodeFlags};
use uext4_num::{clamp_usize, u64_of, usize_of};

/// Pointers of the inode to data, before those to tables.
const DIRECT: usize = usize_of(DIRECT_BLOCKS);
/// Pointers of the inode to tables, of one, two and three levels.
const TABLES: usize = 3;

/// What a block of an inode holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Part {
    Data,
    Map,
    Attributes,
}

/// A walk over the blocks of one inode.
pub(super) struct Claims<'c> {
    device: &'c dyn BlockDevice,
    geometry: &'c Geometry,
    visited: HashSet<u64>,
    take: &'c mut dyn FnMut(Part, Range<u64>),
}

impl<'c> Claims<'c> {
    pub(super) fn new(
        device: &'c dyn BlockDevice,
        geometry: &'c Geometry,
        take: &'c mut dyn FnMut(Part, Range<u64>),
    ) -> Self {
        Self {
            device,
            geometry,
            visited: HashSet::new(),
            take,
        }
    }

    /// Calls `take` for all blocks of an inode.
    pub(super) fn of(&mut self, inode: &Inode) {
        if inode.file_acl.0 != 0 {
            (self.take)(Part::Attributes, one(inode.file_acl.0));
        }
        if !has_map(inode) {
            return;
        }
        if inode.flags.contains(InodeFlags::EXTENTS) {
            self.node(&ExtentNode::new(&inode.i_block[..]), MAX_DEPTH);
            return;
        }
        for at in 0..DIRECT {
            self.data(pointer(&inode.i_block, at).0, 1);
        }
        for level in 0..TABLES {
            self.table(pointer(&inode.i_block, DIRECT + level).0, level);
        }
    }

    fn data(&mut self, start: u64, blocks: u64) {
        if start != 0 {
            (self.take)(Part::Data, start..start.saturating_add(blocks));
        }
    }

    fn node<B: AsRef<[u8]>>(&mut self, node: &ExtentNode<B>, depth_max: u16) {
        let depth = node.depth();
        if node.count() > node.capacity() || depth > depth_max {
            return;
        }
        if depth == 0 {
            for extent in node.extents() {
                self.data(extent.start.0, extent.len.into());
            }
            return;
        }
        for index in node.indexes() {
            if let Some(bytes) = self.visit(index.child.0) {
                self.node(&ExtentNode::new(&bytes[..]), depth - 1);
            }
        }
    }

    fn table(&mut self, block: u64, level: usize) {
        let Some(bytes) = self.visit(block) else {
            return;
        };
        for at in 0..bytes.len() / 4 {
            let child = pointer(&bytes, at).0;
            match level {
                0 => self.data(child, 1),
                _ => self.table(child, level - 1),
            }
        }
    }

    /// Claims and reads a block of the map; `None` if it was visited or cannot be read.
    fn visit(&mut self, block: u64) -> Option<Vec<u8>> {
        if block == 0 || block >= self.geometry.blocks_count || !self.visited.insert(block) {
            return None;
        }
        (self.take)(Part::Map, one(block));
        let block_bytes = u64::from(self.geometry.block_size());
        let mut bytes = vec![0; clamp_usize(block_bytes)];
        let read = self.device.read_at(block * block_bytes, &mut bytes);
        read.ok().map(|()| bytes)
    }
}

fn one(block: u64) -> Range<u64> {
    block..block.saturating_add(1)
}

/// Whether the inode has a map in the place of its data.
fn has_map(inode: &Inode) -> bool {
    let is_short =
        !inode.flags.contains(InodeFlags::EXTENTS) && inode.size < u64_of(inode.i_block.len());
    match inode.file_type() {
        _ if inode.flags.contains(InodeFlags::INLINE_DATA) => false,
        Some(FileType::Regular | FileType::Directory) => true,
        Some(FileType::Symlink) => !is_short,
        // Inodes of the file system itself, such as the one for growth, may have no type.
        None => true,
        Some(_) => false,
    }
}

/// Bytes of a block of the bitmap, of which bit `at` is asked.
pub(super) fn bit(bitmap: &[u8], at: u32) -> bool {
    let byte = bitmap.get(clamp_usize(u64::from(at / 8)));
    byte.is_some_and(|byte| byte >> (at % 8) & 1 == 1)
}

/// The part of a table of `item_bytes` that item `at` is.
pub(super) fn item(table: &[u8], at: u32, item_bytes: u16) -> Option<&[u8]> {
    let start = u64::from(at) * u64::from(item_bytes);
    let end = start + u64::from(item_bytes);
    let is_inside = end <= u64_of(table.len());
    is_inside.then(|| &table[clamp_usize(start)..clamp_usize(end)])
}
