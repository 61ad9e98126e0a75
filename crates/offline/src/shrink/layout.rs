//! What a file system at rest has where: the owner of each cluster in use.

use crate::bitmaps::{for_each_inode, free_clusters, free_runs, inode_bitmap};
use crate::descriptors::Descriptors;
use crate::space::{self, Marks};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use uext4_format::extent::Extent;
use uext4_format::indirect::{DOUBLE_INDIRECT, pointer};
use uext4_format::{
    BlockNr, Corrupt, CorruptKind, DamageLocation, Feature, Geometry, GroupDescriptor, GroupNr,
    I_BLOCK_BYTES, Inode, InodeNr, Superblock,
};
use uext4_num::usize_of;
use uext4_volume::Volume;
use uext4_volume::{FileMap, has_map};
use uext4_volume::{InTheWay, ResizeError, Result};

/// A file whose blocks move.
#[derive(Clone)]
pub(super) struct Holder {
    pub(super) nr: InodeNr,
    pub(super) map: FileMap,
    /// The block behind the last one of data or map.
    pub(super) end: u64,
}

impl Holder {
    pub(super) fn new(nr: InodeNr, map: FileMap) -> Self {
        let end = map.blocks().map(|run| run.end).max().unwrap_or(0);
        Self { nr, map, end }
    }
}

/// Blocks that cannot move, and what they belong to.
#[derive(Clone)]
pub(super) struct Pin {
    pub(super) blocks: Range<u64>,
    pub(super) owner: InTheWay,
}

/// The owner of each cluster in use, read once for a pass.
#[derive(Clone)]
pub(super) struct Layout {
    pub(super) superblock: Superblock,
    pub(super) geometry: Geometry,
    pub(super) groups: Vec<GroupDescriptor>,
    pub(super) holders: Vec<Holder>,
    /// Blocks of the maps of the files that were read.
    pub(super) nodes: BTreeSet<BlockNr>,
    /// Blocks of extended attributes, and the inodes that refer to them.
    pub(super) attributes: BTreeMap<u64, Vec<InodeNr>>,
    pub(super) pins: Vec<Pin>,
    pub(super) journal: Option<Holder>,
    /// The block in which the resize inode maps reserved blocks.
    pub(super) resize_table: Option<u64>,
    /// The last inode in use.
    pub(super) last_inode: InodeNr,
    /// Numbers of free inodes: sorted, without overlap.
    pub(super) free_inodes: Vec<Range<u64>>,
    /// Free clusters: sorted, without overlap.
    pub(super) free: Vec<Range<u64>>,
}

impl Layout {
    /// Reads all of it.
    ///
    /// # Errors
    /// Damage: also [`ResizeError::Owner`] if the bitmaps say something else than inodes do.
    pub(super) fn read(volume: &Volume) -> Result<Self> {
        let table = Descriptors::read(volume)?;
        let all = (0..volume.geometry().group_count).map(GroupNr);
        let mut layout = Self {
            superblock: volume.superblock().clone(),
            geometry: *volume.geometry(),
            groups: all.map(|group| table.get(group)).collect::<Result<_>>()?,
            holders: Vec::new(),
            nodes: BTreeSet::new(),
            attributes: BTreeMap::new(),
            pins: Vec::new(),
            journal: None,
            resize_table: None,
            last_inode: InodeNr(0),
            free_inodes: Vec::new(),
            free: Vec::new(),
        };
        for group in (0..volume.geometry().group_count).map(GroupNr) {
            layout.read_inodes(volume, group)?;
            let descriptor = &layout.groups[usize_of(group.0)];
            layout
                .free
                .extend(free_clusters(volume, descriptor, group)?);
        }
        layout.free = space::merged(std::mem::take(&mut layout.free));
        layout.free_inodes = space::merged(std::mem::take(&mut layout.free_inodes));
        layout.pin_mmp();
        layout.nodes = BTreeSet::new();
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

    fn read_inodes(&mut self, volume: &Volume, group: GroupNr) -> Result<()> {
        let geometry = *volume.geometry();
        let descriptor = self.groups[usize_of(group.0)].clone();
        let bitmap = inode_bitmap(volume, &descriptor, group)?;
        let number = |index: u32| u64::from(geometry.inode_at(group, index).0);
        let first = u64::from(geometry.first_inode);
        for run in free_runs(&bitmap, geometry.inodes_per_group) {
            let end = number(run.end - 1) + 1;
            self.free_inodes.push(number(run.start).max(first)..end);
        }
        for_each_inode(volume, &descriptor, group, &mut |nr, inode| {
            self.last_inode = nr;
            self.add(volume, nr, inode)
        })
    }

    fn add(&mut self, volume: &Volume, nr: InodeNr, inode: &Inode) -> Result<()> {
        let outside = |block: BlockNr, structure| {
            let (place, problem) = (
                DamageLocation::InodeBlock(nr, block),
                CorruptKind::BlockOutsideSystem,
            );
            if self.geometry.contains(block) {
                Ok(())
            } else {
                Err(Corrupt::new(place, structure, problem))
            }
        };
        if inode.file_acl.0 != 0 {
            outside(inode.file_acl, "block of attributes")?;
            let users = self.attributes.entry(inode.file_acl.0).or_default();
            users.push(nr);
        }
        if nr == InodeNr::RESIZE && self.geometry.features.has(Feature::RESIZE_INODE) {
            let table = pointer(&inode.i_block, DOUBLE_INDIRECT);
            outside(table, "resize inode")?;
            self.resize_table = Some(table.0);
            return Ok(());
        }
        let has_bad_blocks = nr == InodeNr::BAD_BLOCKS && inode.i_block != [0; I_BLOCK_BYTES];
        if !has_map(inode) && !has_bad_blocks {
            return Ok(());
        }
        let map = FileMap::read(volume, nr, inode)?;
        self.own_nodes(&map)?;
        if has_bad_blocks {
            for blocks in map.blocks() {
                self.pin(nr, blocks);
            }
        } else if nr.0 == self.superblock.journal_inum {
            self.journal = Some(Holder::new(nr, map));
        } else {
            self.holders.push(Holder::new(nr, map));
        }
        Ok(())
    }

    /// Refuses a block of a map that another map has, before many such maps fill the memory.
    fn own_nodes(&mut self, map: &FileMap) -> Result<()> {
        for node in &map.nodes {
            if !self.nodes.insert(*node) {
                return Err(ResizeError::Owner { block: node.0 }.into());
            }
        }
        Ok(())
    }

    fn pin(&mut self, inode: InodeNr, blocks: Range<u64>) {
        let block = blocks.end - 1;
        let owner = InTheWay::Reserved { inode, block };
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
        let single = self.attributes.keys().chain(&self.resize_table);
        let others = pins.chain(single.map(|block| *block..*block + 1));
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
fn clusters_of(geometry: &Geometry, map: &FileMap) -> Vec<Range<u64>> {
    let mut all = clusters_of_data(geometry, &map.extents);
    all.extend(
        map.nodes
            .iter()
            .map(|node| space::clusters(geometry, node.0, 1)),
    );
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
