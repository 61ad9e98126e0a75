//! The map of a file: all its extents, and the blocks of the map itself.
//!
//! Invariant: no block of a map is read twice, so that a map that refers to itself ends, and what
//! it lists is bounded by the blocks that the image stores.

use crate::{Error, Result, Volume};
use std::collections::BTreeSet;
use std::ops::Range;
use uext4_device::BlockDevice;
use uext4_format::extent::{
    Expect, Extent, ExtentNode, ExtentState, ROOT_CAPACITY, block_capacity,
};
use uext4_format::indirect::{self, DIRECT_BLOCKS, pointer, pointers_per_block};
use uext4_format::{
    BlockNr, Checksums, Corrupt, CorruptKind, DamageLocation, FileType, Geometry, Inode,
    InodeFlags, InodeNr, LogicalBlock,
};
use uext4_num::{clamp_u32, u64_of, usize_of};

/// An end behind the last block that a file can have.
const END: u64 = 1 << 32;

/// The blocks that a file maps, and those of the map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileMap {
    /// How it maps them.
    pub format: MapFormat,
    /// Mapped runs in ascending order of their logical blocks.
    pub extents: Vec<Extent>,
    /// Blocks of the map itself.
    pub nodes: Vec<BlockNr>,
}

/// How a file maps its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapFormat {
    /// A tree of extents (`EXTENTS` flag).
    Extents,
    /// Tables of block numbers.
    Tables,
}

/// Whether an inode has a map, and not its data or a device number in that place.
pub fn has_map(inode: &Inode) -> bool {
    if inode.flags.contains(InodeFlags::INLINE_DATA) {
        return false;
    }
    let has_extents = inode.flags.contains(InodeFlags::EXTENTS);
    match inode.file_type() {
        Some(FileType::Regular | FileType::Directory) => true,
        Some(FileType::Symlink) => has_extents || inode.size >= u64_of(inode.i_block.len()),
        _ => false,
    }
}

impl FileMap {
    /// Runs of blocks of data, then blocks of the map.
    pub fn blocks(&self) -> impl Iterator<Item = Range<u64>> {
        let extents = self.extents.iter();
        let extents = extents.map(|extent| extent.start.0..extent.physical_end());
        extents.chain(self.nodes.iter().map(|node| node.0..node.0 + 1))
    }

    /// Number of nodes that the map has with these extents.
    pub fn nodes_with(&self, extents: usize, block_size: u32) -> usize {
        if self.format == MapFormat::Tables {
            return self.nodes.len();
        }
        let (mut level, mut nodes) = (extents, 0);
        while level > usize::from(ROOT_CAPACITY) {
            level = level.div_ceil(block_capacity(usize_of(block_size)).into());
            nodes += level;
        }
        nodes
    }
}

/// The file system that a map is read from.
pub struct MapSource<'a> {
    /// The device, with the changes of a replay.
    pub device: &'a dyn BlockDevice,
    /// The geometry that bounds block numbers.
    pub geometry: &'a Geometry,
    /// The checksums of nodes; [`Checksums::NONE`] to accept any.
    pub checksums: Checksums,
}

impl FileMap {
    /// Reads the map of an inode that has one.
    ///
    /// # Errors
    /// Damage; those of the device.
    pub fn read(volume: &Volume, nr: InodeNr, inode: &Inode) -> Result<Self> {
        let source = MapSource {
            device: &**volume.device(),
            geometry: volume.geometry(),
            checksums: volume.superblock().checksums(),
        };
        Self::read_before(source, nr, inode, END)
    }

    /// As [`Self::read`], of the blocks below `end` in the file. Nodes behind it are not read; the
    /// last extent may go beyond it.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_before(
        source: MapSource<'_>,
        nr: InodeNr,
        inode: &Inode,
        end: u64,
    ) -> Result<Self> {
        let format = if inode.flags.contains(InodeFlags::EXTENTS) {
            MapFormat::Extents
        } else {
            MapFormat::Tables
        };
        let mut reader = Reader {
            source,
            nr,
            inode,
            end,
            visited: BTreeSet::new(),
            extents: Vec::new(),
            nodes: Vec::new(),
        };
        match format {
            MapFormat::Extents => reader.read_root()?,
            MapFormat::Tables => reader.read_tables()?,
        }
        Ok(Self {
            format,
            extents: reader.extents,
            nodes: reader.nodes,
        })
    }
}

struct Reader<'a> {
    source: MapSource<'a>,
    nr: InodeNr,
    inode: &'a Inode,
    /// Blocks of the file from here on are left out.
    end: u64,
    visited: BTreeSet<BlockNr>,
    extents: Vec<Extent>,
    nodes: Vec<BlockNr>,
}

impl Reader<'_> {
    /// Blocks that a map may refer to.
    fn blocks(&self) -> Range<u64> {
        let geometry = self.source.geometry;
        u64::from(geometry.first_data_block)..geometry.blocks_count
    }

    fn read_root(&mut self) -> Result<()> {
        let root = ExtentNode::new(&self.inode.i_block[..]);
        let expect = Expect::root(self.blocks());
        root.validate(&expect, DamageLocation::Inode(self.nr))?;
        self.read_tree(&root, &expect)
    }

    fn read_tree<B: AsRef<[u8]>>(&mut self, node: &ExtentNode<B>, expect: &Expect) -> Result<()> {
        if node.depth() == 0 {
            let all = node.extents();
            let before = all.take_while(|extent| u64::from(extent.logical.0) < self.end);
            self.extents.extend(before);
            return Ok(());
        }
        let seed = self
            .source
            .checksums
            .inode_seed(self.nr, self.inode.generation);
        for (at, index) in node.indexes().enumerate() {
            if u64::from(index.logical.0) >= self.end {
                break;
            }
            let bytes = self.read_node(index.child)?;
            let (child, expect) = (ExtentNode::new(&bytes[..]), expect.child(node, at));
            let place = DamageLocation::InodeBlock(self.nr, index.child);
            child.validate(&expect, place)?;
            seed.map_or(Ok(()), |seed| child.verify_checksum(seed, place))?;
            self.read_tree(&child, &expect)?;
        }
        Ok(())
    }

    fn read_tables(&mut self) -> Result<()> {
        let root = &self.inode.i_block;
        indirect::validate(root, &self.blocks(), DamageLocation::Inode(self.nr))?;
        for at in 0..DIRECT_BLOCKS {
            self.add_block(at.into(), pointer(root, usize_of(at)));
        }
        let per_table = pointers_per_block(usize_of(self.source.geometry.block_size()));
        let mut first = u64::from(DIRECT_BLOCKS);
        for level in 0..3 {
            let table = pointer(root, usize_of(DIRECT_BLOCKS + level));
            self.read_table(table, first, level)?;
            first += per_table.pow(level + 1);
        }
        Ok(())
    }

    fn read_table(&mut self, table: BlockNr, first: u64, level: u32) -> Result<()> {
        if table.0 == 0 || first >= self.end {
            return Ok(());
        }
        let bytes = self.read_node(table)?;
        indirect::validate(
            &bytes,
            &self.blocks(),
            DamageLocation::InodeBlock(self.nr, table),
        )?;
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
        let geometry = self.source.geometry;
        let mut bytes = vec![0; usize_of(geometry.block_size())];
        let at = block.0 << geometry.block_bits;
        self.source.device.read_at(at, &mut bytes)?;
        Ok(bytes)
    }

    fn add_block(&mut self, logical: u64, block: BlockNr) {
        if block.0 == 0 || logical >= self.end {
            return;
        }
        let next = Extent {
            logical: LogicalBlock(clamp_u32(logical)),
            start: block,
            len: 1,
            state: ExtentState::Written,
        };
        append_extent(&mut self.extents, next);
    }
}

/// Appends an extent, or makes the last one longer by it.
pub fn append_extent(extents: &mut Vec<Extent>, next: Extent) {
    match extents.last_mut().filter(|last| last.joins(&next)) {
        Some(last) => last.len += next.len,
        None => extents.push(next),
    }
}

fn damaged(nr: InodeNr, block: BlockNr) -> Error {
    let place = DamageLocation::InodeBlock(nr, block);
    Corrupt::new(place, "inode map", CorruptKind::MapShared).into()
}
