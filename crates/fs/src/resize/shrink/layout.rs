//! What a file system at rest has where: the owner of each cluster in use.

use super::journal;
use super::maps::{Map, has_map};
use super::space::{self, Marks};
use crate::mount::AtRest;
use crate::resize::descriptors::Descriptors;
use crate::{InTheWay, ResizeError, Result};
use std::collections::BTreeMap;
use std::ops::Range;
use uext4_format::bitmap::uninit_block_bitmap;
use uext4_format::extent::Extent;
use uext4_format::indirect::pointer;
use uext4_format::{
    BlockNr, Feature, Geometry, GroupDescriptor, GroupNr, I_BLOCK_BYTES, Inode, InodeNr,
    Superblock, group_flag,
};
use uext4_num::usize_of;

const BAD_BLOCKS: InodeNr = InodeNr(1);
const RESIZE: InodeNr = InodeNr(7);
/// Index of the table of the resize inode in `i_block`.
const TABLE_AT: usize = 13;

/// A file whose blocks move.
#[derive(Clone)]
pub(super) struct Holder {
    pub(super) nr: InodeNr,
    pub(super) map: Map,
    /// The block behind the last one of data or map.
    pub(super) end: u64,
}

impl Holder {
    pub(super) fn new(nr: InodeNr, map: Map) -> Self {
        let extents = map.extents.iter().map(|extent| extent.physical_end());
        let nodes = map.nodes.iter().map(|node| node.0 + 1);
        let end = extents.chain(nodes).max().unwrap_or(0);
        Self { nr, map, end }
    }
}

/// Blocks that stay.
#[derive(Clone)]
pub(super) struct Pin {
    pub(super) blocks: Range<u64>,
    pub(super) owner: InTheWay,
}

/// See the module.
#[derive(Clone)]
pub(super) struct Layout {
    pub(super) superblock: Superblock,
    pub(super) geometry: Geometry,
    pub(super) groups: Vec<GroupDescriptor>,
    pub(super) holders: Vec<Holder>,
    /// Blocks of extended attributes, and the inodes that refer to them.
    pub(super) attributes: BTreeMap<u64, Vec<InodeNr>>,
    pub(super) pins: Vec<Pin>,
    /// The journal, if it can move.
    pub(super) journal: Option<Holder>,
    /// The last inode in use.
    pub(super) last_inode: InodeNr,
    /// Free clusters: sorted, without overlap.
    pub(super) free: Vec<Range<u64>>,
}

impl Layout {
    /// Reads all of it.
    ///
    /// # Errors
    /// Damage: also [`ResizeError::Owner`] if the bitmaps say something else than inodes do.
    pub(super) fn read(rest: &AtRest) -> Result<Self> {
        let table = Descriptors::read(rest)?;
        let all = (0..rest.geometry.group_count).map(GroupNr);
        let mut layout = Self {
            superblock: rest.superblock.clone(),
            geometry: rest.geometry,
            groups: all.map(|group| table.get(group)).collect::<Result<_>>()?,
            holders: Vec::new(),
            attributes: BTreeMap::new(),
            pins: Vec::new(),
            journal: None,
            last_inode: InodeNr(0),
            free: Vec::new(),
        };
        for group in (0..rest.geometry.group_count).map(GroupNr) {
            layout.read_inodes(rest, group)?;
            layout.read_free(rest, group)?;
        }
        layout.free = space::merged(std::mem::take(&mut layout.free));
        layout.pin_mmp();
        layout.check_owners()?;
        Ok(layout)
    }

    fn pin_mmp(&mut self) {
        let block = self.superblock.mmp_block;
        if self.geometry.features.has(Feature::MMP) && self.geometry.contains(BlockNr(block)) {
            self.pins.push(Pin {
                blocks: block..block + 1,
                owner: InTheWay::Mmp { block },
            });
        }
    }

    fn read_free(&mut self, rest: &AtRest, group: GroupNr) -> Result<()> {
        let bitmap = block_bitmap(rest, &self.groups[usize_of(group.0)], group)?;
        let first = rest.geometry.group_first_block(group).0 >> rest.geometry.cluster_bits;
        let count = rest.geometry.clusters_in_group(group);
        let mut at = 0;
        while let Some(start) = (at..count).find(|at| !bit(&bitmap, *at)) {
            at = (start..count).find(|at| bit(&bitmap, *at)).unwrap_or(count);
            self.free
                .push(first + u64::from(start)..first + u64::from(at));
        }
        Ok(())
    }

    fn read_inodes(&mut self, rest: &AtRest, group: GroupNr) -> Result<()> {
        let geometry = &rest.geometry;
        let descriptor = &self.groups[usize_of(group.0)];
        if descriptor.has_flag(group_flag::INODE_UNINIT) {
            return Ok(());
        }
        let bitmap = rest.read(descriptor.inode_bitmap)?;
        let checksums = rest.superblock.checksums();
        descriptor.verify_inode_bitmap(&bitmap, group, geometry, &checksums)?;
        let used: Vec<u32> = (0..geometry.inodes_per_group)
            .filter(|at| bit(&bitmap, *at))
            .collect();
        let table = descriptor.inode_table;
        let Some(last) = used.last() else {
            return Ok(());
        };
        self.last_inode = geometry.inode_at(group, *last);
        let mut there = (BlockNr(0), Vec::new());
        for index in used {
            let (block, offset) = geometry.inode_location(table, index);
            if there.0 != block {
                there = (block, rest.read(block)?);
            }
            let nr = geometry.inode_at(group, index);
            let bytes = &there.1[usize_of(offset)..];
            let inode = Inode::parse(bytes, nr, geometry, &checksums)?;
            self.add(rest, nr, &inode)?;
        }
        Ok(())
    }

    fn add(&mut self, rest: &AtRest, nr: InodeNr, inode: &Inode) -> Result<()> {
        if inode.file_acl.0 != 0 {
            let users = self.attributes.entry(inode.file_acl.0).or_default();
            users.push(nr);
        }
        if nr == RESIZE && self.geometry.features.has(Feature::RESIZE_INODE) {
            let table = pointer(&inode.i_block, TABLE_AT);
            self.pin(nr, table.0..table.0 + 1);
            return Ok(());
        }
        let has_bad_blocks = nr == BAD_BLOCKS && inode.i_block != [0; I_BLOCK_BYTES];
        if !has_map(inode) && !has_bad_blocks {
            return Ok(());
        }
        let map = Map::read(rest, nr, inode)?;
        let is_journal = nr.0 == self.superblock.journal_inum;
        if is_journal && journal::is_movable(rest, &map) {
            self.journal = Some(Holder::new(nr, map));
            return Ok(());
        }
        if has_bad_blocks || is_journal {
            for extent in &map.extents {
                self.pin(nr, extent.start.0..extent.physical_end());
            }
            for node in &map.nodes {
                self.pin(nr, node.0..node.0 + 1);
            }
            return Ok(());
        }
        self.holders.push(Holder::new(nr, map));
        Ok(())
    }

    fn pin(&mut self, inode: InodeNr, blocks: Range<u64>) {
        let block = blocks.end - 1;
        let owner = match inode.0 == self.superblock.journal_inum {
            true => InTheWay::JournalMap { block },
            false => InTheWay::Reserved { inode, block },
        };
        self.pins.push(Pin { blocks, owner });
    }

    /// Compares owners with bitmaps: each cluster in use has one owner.
    fn check_owners(&self) -> Result<()> {
        let geometry = &self.geometry;
        let all = geometry
            .blocks_count
            .div_ceil(geometry.blocks_per_cluster().into());
        let (mut owned, mut in_use) = (Marks::new(all), Marks::new(all));
        let wrong = |cluster: u64| ResizeError::Owner {
            block: cluster << geometry.cluster_bits,
        };
        owned.add(0..u64::from(geometry.first_data_block));
        for range in space::of_metadata(geometry, &self.groups) {
            owned.add(range);
        }
        let pins = self.pins.iter().map(|pin| pin.blocks.clone());
        let others = pins.chain(self.attributes.keys().map(|block| *block..*block + 1));
        let others = others.map(|run| space::clusters(geometry, run.start, run.end - run.start));
        let files = self.holders.iter().chain(&self.journal);
        let files = files.flat_map(|holder| clusters_of(geometry, &holder.map));
        for run in others.chain(files) {
            if let Some(cluster) = owned.add(run) {
                return Err(wrong(cluster).into());
            }
        }
        for run in space::without(std::slice::from_ref(&(0..all)), &self.free) {
            in_use.add(run);
        }
        match owned.first_difference(&in_use) {
            Some(cluster) => Err(wrong(cluster).into()),
            None => Ok(()),
        }
    }
}

/// The clusters of a file: of its data, then those of its map.
fn clusters_of(geometry: &Geometry, map: &Map) -> Vec<Range<u64>> {
    let mut all = clusters_of_data(geometry, &map.extents);
    let node = |node: &BlockNr| space::clusters(geometry, node.0, 1);
    all.extend(map.nodes.iter().map(node));
    all
}

/// The clusters of extents, in the order of the file. Extents that follow each other in a cluster
/// give it once.
pub(super) fn clusters_of_data(geometry: &Geometry, extents: &[Extent]) -> Vec<Range<u64>> {
    let mut all: Vec<Range<u64>> = Vec::with_capacity(extents.len());
    for extent in extents {
        let mut run = space::clusters(geometry, extent.start.0, extent.len.into());
        if all.last().is_some_and(|last| last.end == run.start + 1) {
            run.start += 1;
        }
        if !run.is_empty() {
            all.push(run);
        }
    }
    all
}

/// The block bitmap of a group, also of one that has none on the device yet.
pub(super) fn block_bitmap(
    rest: &AtRest,
    descriptor: &GroupDescriptor,
    group: GroupNr,
) -> Result<Vec<u8>> {
    let geometry = &rest.geometry;
    if descriptor.has_flag(group_flag::BLOCK_UNINIT) {
        return Ok(uninit_block_bitmap(geometry, group, descriptor));
    }
    let bitmap = rest.read(descriptor.block_bitmap)?;
    let checksums = rest.superblock.checksums();
    descriptor.verify_block_bitmap(&bitmap, group, geometry, &checksums)?;
    Ok(bitmap)
}

/// Bit `at` of a bitmap.
pub(super) fn bit(bitmap: &[u8], at: u32) -> bool {
    bitmap[usize_of(at / 8)] >> (at % 8) & 1 != 0
}
