//! Reads the map of a file at rest.
//!
//! Invariant: no block of a map is read twice, so that a map that refers to itself ends, and what
//! it lists is bounded by the blocks that the image stores.

use super::{Format, Map, damaged, push};
use crate::Result;
use crate::mount::AtRest;
use std::collections::BTreeSet;
use std::ops::Range;
use uext4_format::extent::{Expect, Extent, ExtentNode, ExtentState};
use uext4_format::indirect::{self, DIRECT_BLOCKS, pointer, pointers_per_block};
use uext4_format::{BlockNr, Inode, InodeFlags, InodeNr, LogicalBlock, Place};
use uext4_num::{clamp_u32, usize_of};

impl Map {
    /// Reads the map of an inode that has one.
    ///
    /// # Errors
    /// Damage; those of the device.
    pub(crate) fn read(rest: &AtRest, nr: InodeNr, inode: &Inode) -> Result<Self> {
        let format = match inode.flags.contains(InodeFlags::EXTENTS) {
            true => Format::Extents,
            false => Format::Tables,
        };
        let mut reader = Reader {
            rest,
            nr,
            inode,
            visited: BTreeSet::new(),
            extents: Vec::new(),
            nodes: Vec::new(),
        };
        match format {
            Format::Extents => reader.read_root()?,
            Format::Tables => reader.read_tables()?,
        }
        Ok(Self {
            format,
            extents: reader.extents,
            nodes: reader.nodes,
        })
    }
}

struct Reader<'a> {
    rest: &'a AtRest,
    nr: InodeNr,
    inode: &'a Inode,
    visited: BTreeSet<BlockNr>,
    extents: Vec<Extent>,
    nodes: Vec<BlockNr>,
}

impl Reader<'_> {
    /// Blocks that a map may refer to.
    fn blocks(&self) -> Range<u64> {
        let geometry = &self.rest.geometry;
        u64::from(geometry.first_data_block)..geometry.blocks_count
    }

    fn read_root(&mut self) -> Result<()> {
        let root = ExtentNode::new(&self.inode.i_block[..]);
        let expect = Expect::root(self.blocks());
        root.validate(&expect, Place::Inode(self.nr))?;
        self.read_tree(&root, &expect)
    }

    fn read_tree<B: AsRef<[u8]>>(&mut self, node: &ExtentNode<B>, expect: &Expect) -> Result<()> {
        if node.depth() == 0 {
            self.extents.extend(node.extents());
            return Ok(());
        }
        let checksums = self.rest.superblock.checksums();
        let seed = checksums.inode_seed(self.nr, self.inode.generation);
        for (at, index) in node.indexes().enumerate() {
            let bytes = self.read_node(index.child)?;
            let (child, expect) = (ExtentNode::new(&bytes[..]), expect.child(node, at));
            let place = Place::InodeBlock(self.nr, index.child);
            child.validate(&expect, place)?;
            seed.map_or(Ok(()), |seed| child.verify_checksum(seed, place))?;
            self.read_tree(&child, &expect)?;
        }
        Ok(())
    }

    fn read_tables(&mut self) -> Result<()> {
        let root = &self.inode.i_block;
        indirect::validate(root, &self.blocks(), Place::Inode(self.nr))?;
        for at in 0..DIRECT_BLOCKS {
            self.add_block(at.into(), pointer(root, usize_of(at)));
        }
        let per_table = pointers_per_block(usize_of(self.rest.geometry.block_size()));
        let mut first = u64::from(DIRECT_BLOCKS);
        for level in 0..3 {
            let table = pointer(root, usize_of(DIRECT_BLOCKS + level));
            self.read_table(table, first, level)?;
            first += per_table.pow(level + 1);
        }
        Ok(())
    }

    fn read_table(&mut self, table: BlockNr, first: u64, level: u32) -> Result<()> {
        if table.0 == 0 {
            return Ok(());
        }
        let bytes = self.read_node(table)?;
        indirect::validate(&bytes, &self.blocks(), Place::InodeBlock(self.nr, table))?;
        let per_table = pointers_per_block(bytes.len());
        let mut logical = first;
        for at in 0..bytes.len() / 4 {
            match level {
                0 => self.add_block(logical, pointer(&bytes, at)),
                _ => self.read_table(pointer(&bytes, at), logical, level - 1)?,
            }
            logical += per_table.pow(level);
        }
        Ok(())
    }

    /// The bytes of a block of the map, which is listed.
    fn read_node(&mut self, block: BlockNr) -> Result<Vec<u8>> {
        if !self.visited.insert(block) {
            return Err(damaged(self.nr, block));
        }
        self.nodes.push(block);
        self.rest.read(block)
    }

    fn add_block(&mut self, logical: u64, block: BlockNr) {
        if block.0 == 0 {
            return;
        }
        let next = Extent {
            logical: LogicalBlock(clamp_u32(logical)),
            start: block,
            len: 1,
            state: ExtentState::Written,
        };
        push(&mut self.extents, next);
    }
}
