//! Moves blocks in transactions that keep the size of the file system.
//!
//! Data and new maps are written to free blocks, to which nothing refers. Then a transaction has
//! the inodes that refer to them, bitmaps and descriptors; it holds as many files as there is room.

use super::layout::{Holder, Layout};
use super::maps::{parts, remade};
use super::plan::{FileMove, Step};
use super::quota::Entries;
use crate::bitmaps::{block_bitmap, put_bitmap};
use crate::descriptors::Descriptors;
use crate::space;
use std::collections::BTreeMap;
use std::ops::Range;
use uext4_device::write_sparse;
use uext4_format::bitmap::{clear_bits, set_bits};
use uext4_format::extent::{Extent, ExtentState};
use uext4_format::indirect::{DOUBLE_INDIRECT, set_pointer};
use uext4_format::orphan_file::seal_orphan_block;
use uext4_format::xattr::XattrBlock;
use uext4_format::{
    BlockNr, Corrupt, CorruptKind, DamageLocation, GroupNr, Inode, InodeNr, Superblock,
};
use uext4_num::{clamp_usize, u64_of, usize_of};
use uext4_volume::FileMap;
use uext4_volume::Result;
use uext4_volume::Volume;

/// Most blocks of a transaction.
const BLOCKS_MAX: u64 = 4096;
/// Bytes copied at once.
const COPY_BYTES: u64 = 4 << 20;

/// Moves the blocks that the step says.
///
/// # Errors
/// Those of the device; [`uext4_volume::ResizeError::Journal`] if a change is larger than the
/// log. The file system is consistent then, with what moved before in its new place.
pub(super) fn run(volume: &mut Volume, layout: &Layout, step: &Step) -> Result<()> {
    let mut mover = Mover::new(volume)?;
    if let Some((holder, file)) = layout.journal.as_ref().zip(step.journal.as_ref()) {
        mover.move_journal(holder, file)?;
    }
    for file in &step.files {
        mover.move_file(&layout.holders[file.holder], file)?;
        mover.commit_if_full()?;
    }
    for (old, new) in &step.attributes {
        let users = layout.attributes.get(old).map_or(&[][..], Vec::as_slice);
        mover.move_attributes(*old, *new, users)?;
        mover.commit_if_full()?;
    }
    if let Some((old, new)) = step.resize_table {
        mover.move_resize_table(old, new)?;
    }
    mover.commit()?;
    mover.move_tables(&step.tables)
}

/// Changes of inodes and bitmaps that wait for a commit.
pub(super) struct Mover<'a> {
    pub(super) volume: &'a mut Volume,
    pub(super) descriptors: Descriptors,
    /// Changed block bitmaps by group.
    bitmaps: BTreeMap<GroupNr, Vec<u8>>,
    /// Other changed blocks: of inode tables and quota files.
    pub(super) blocks: BTreeMap<BlockNr, Vec<u8>>,
    /// Entries of quota files, as far as they were needed.
    pub(super) usages: Entries,
    /// Blocks from which on a transaction is full.
    room: u64,
    buffer: Vec<u8>,
}

impl<'a> Mover<'a> {
    pub(super) fn new(volume: &'a mut Volume) -> Result<Self> {
        Ok(Self {
            descriptors: Descriptors::read(volume)?,
            bitmaps: BTreeMap::new(),
            blocks: BTreeMap::new(),
            usages: Entries::new(),
            room: volume.room()?.min(BLOCKS_MAX) / 2,
            buffer: Vec::new(),
            volume,
        })
    }

    fn move_file(&mut self, holder: &Holder, file: &FileMove) -> Result<()> {
        let has_usages = self.is_quota_file(holder.nr);
        if has_usages {
            self.commit()?;
            self.usages.clear();
        }
        let inode = self.copy_file(holder, file)?;
        self.put_inode(holder.nr, &inode)?;
        self.mark_file(holder, file)?;
        if has_usages { self.commit() } else { Ok(()) }
    }

    /// Writes data and map to their new places; returns the inode that refers to them.
    pub(super) fn copy_file(&mut self, holder: &Holder, file: &FileMove) -> Result<Inode> {
        let (nr, map) = (holder.nr, &holder.map);
        let mut inode = self.inode(nr)?;
        if nr.0 == self.volume.superblock().orphan_file_inum {
            self.copy_orphan_file(nr, &inode, map, file)?;
        } else {
            self.copy(map, file)?;
        }
        let made = remade(map, self.volume, (nr, &inode), &file.data, &file.nodes)?;
        for (block, bytes) in &made.nodes {
            self.volume.write(*block, bytes)?;
        }
        inode.i_block = made.i_block;
        self.count_nodes(nr, &mut inode, map.nodes.len(), file.nodes.len())?;
        Ok(inode)
    }

    /// Sets the bits of the new blocks, and clears those of the old ones.
    pub(super) fn mark_file(&mut self, holder: &Holder, file: &FileMove) -> Result<()> {
        for moved in &file.data {
            let len = moved.old.end - moved.old.start;
            self.mark(moved.new, len, set_bits)?;
            self.mark(moved.old.start, len, clear_bits)?;
        }
        for node in &file.nodes {
            self.mark(node.0, 1, set_bits)?;
        }
        for node in &holder.map.nodes {
            self.mark(node.0, 1, clear_bits)?;
        }
        Ok(())
    }

    /// Corrects the space that the inode has by the blocks of its map.
    fn count_nodes(
        &mut self,
        nr: InodeNr,
        inode: &mut Inode,
        old: usize,
        new: usize,
    ) -> Result<()> {
        let geometry = *self.volume.geometry();
        let sectors = geometry.cluster_size() / 512;
        let others = inode.sectors(&geometry).checked_sub(u64_of(old) * sectors);
        let wrong = || Corrupt::new(DamageLocation::Inode(nr), "inode", CorruptKind::SizeWrong);
        let all = others.ok_or_else(wrong)? + u64_of(new) * sectors;
        self.charge(nr, inode, all)?;
        Ok(inode.set_sectors(all, &geometry).map_err(|_| wrong())?)
    }

    /// Copies data; unwritten extents have none.
    fn copy(&mut self, map: &FileMap, file: &FileMove) -> Result<()> {
        for (part, to) in written_parts(map, file) {
            self.copy_blocks(part.start.0, to.0, part.len.into())?;
        }
        Ok(())
    }

    /// Copies blocks to free ones, zeroes as holes.
    pub(super) fn copy_blocks(&mut self, from: u64, to: u64, len_blocks: u64) -> Result<()> {
        let bits = self.volume.geometry().block_bits;
        let (mut from, mut to, mut left) = (from << bits, to << bits, len_blocks << bits);
        while left > 0 {
            let len = left.min(COPY_BYTES);
            self.buffer.resize(clamp_usize(len), 0);
            self.volume.device().read_at(from, &mut self.buffer)?;
            let grain = usize_of(self.volume.geometry().block_size());
            write_sparse(&**self.volume.device(), to, &self.buffer, grain)?;
            (from, to, left) = (from + len, to + len, left - len);
        }
        Ok(())
    }

    /// As [`Self::copy`] for blocks whose checksums depend on their place.
    fn copy_orphan_file(
        &self,
        nr: InodeNr,
        inode: &Inode,
        map: &FileMap,
        file: &FileMove,
    ) -> Result<()> {
        let seed = self
            .volume
            .superblock()
            .checksums()
            .inode_seed(nr, inode.generation);
        for (part, to) in written_parts(map, file) {
            for at in 0..u64::from(part.len) {
                let mut bytes = self.volume.read(BlockNr(part.start.0 + at))?;
                let new = BlockNr(to.0 + at);
                seal_orphan_block(&mut bytes, new, seed);
                self.volume.write(new, &bytes)?;
            }
        }
        Ok(())
    }

    fn move_attributes(&mut self, old: u64, new: u64, users: &[InodeNr]) -> Result<()> {
        let mut bytes = self.volume.read(BlockNr(old))?;
        if let Some(seed) = self.volume.superblock().checksums().metadata {
            XattrBlock::new(&bytes[..]).verify_checksum(seed, BlockNr(old))?;
            XattrBlock::new(&mut bytes[..]).update_checksum(seed, BlockNr(new));
        }
        self.volume.write(BlockNr(new), &bytes)?;
        for nr in users {
            let mut inode = self.inode(*nr)?;
            inode.file_acl = BlockNr(new);
            self.put_inode(*nr, &inode)?;
        }
        self.mark(new, 1, set_bits)?;
        self.mark(old, 1, clear_bits)
    }

    fn move_resize_table(&mut self, old: u64, new: u64) -> Result<()> {
        self.copy_blocks(old, new, 1)?;
        let mut inode = self.inode(InodeNr::RESIZE)?;
        set_pointer(&mut inode.i_block, DOUBLE_INDIRECT, BlockNr(new));
        self.put_inode(InodeNr::RESIZE, &inode)?;
        self.mark(new, 1, set_bits)?;
        self.mark(old, 1, clear_bits)
    }

    pub(super) fn inode(&self, nr: InodeNr) -> Result<Inode> {
        let (block, offset) = self.descriptors.inode_position(nr)?;
        let bytes = self.block(block)?;
        let checksums = self.volume.superblock().checksums();
        let geometry = self.volume.geometry();
        Ok(Inode::parse(&bytes[offset..], nr, geometry, &checksums)?)
    }

    pub(super) fn put_inode(&mut self, nr: InodeNr, inode: &Inode) -> Result<()> {
        let (block, offset) = self.descriptors.inode_position(nr)?;
        let mut bytes = self.block(block)?;
        let checksums = self.volume.superblock().checksums();
        inode.write_to(&mut bytes[offset..], nr, self.volume.geometry(), &checksums);
        self.blocks.insert(block, bytes);
        Ok(())
    }

    pub(super) fn block(&self, nr: BlockNr) -> Result<Vec<u8>> {
        match self.blocks.get(&nr) {
            Some(bytes) => Ok(bytes.clone()),
            None => self.volume.read(nr),
        }
    }

    /// Changes the bits of the clusters of a run.
    pub(super) fn mark(
        &mut self,
        start: u64,
        len_blocks: u64,
        change: fn(&mut [u8], u32, u32),
    ) -> Result<()> {
        let geometry = *self.volume.geometry();
        let Range { mut start, end } = space::clusters(&geometry, start, len_blocks);
        while start < end {
            let block = BlockNr(start << geometry.cluster_bits);
            let (group, first) = geometry.split_block_to_cluster(block);
            let there = geometry.clusters_in_group(group) - first;
            let len = uext4_num::clamp_u32(end - start).min(there);
            let bitmap = self.bitmap(group)?;
            change(bitmap, first, first + len);
            start += u64::from(len);
        }
        Ok(())
    }

    /// The block bitmap of a group, which will be written.
    pub(super) fn bitmap(&mut self, group: GroupNr) -> Result<&mut Vec<u8>> {
        if !self.bitmaps.contains_key(&group) {
            let descriptor = self.descriptors.get(group)?;
            let bitmap = block_bitmap(self.volume, &descriptor, group)?;
            self.bitmaps.insert(group, bitmap);
        }
        Ok(self.bitmaps.entry(group).or_default())
    }

    pub(super) fn commit_if_full(&mut self) -> Result<()> {
        let blocks = self.blocks.len() + 2 * self.bitmaps.len();
        if u64_of(blocks) >= self.room {
            self.commit()
        } else {
            Ok(())
        }
    }

    pub(super) fn commit(&mut self) -> Result<()> {
        let (blocks, wanted) = self.take_changes()?;
        if blocks.is_empty() {
            Ok(())
        } else {
            self.volume.change(blocks, wanted)
        }
    }

    /// The blocks that wait for a commit, and the superblock with their free counts.
    pub(super) fn take_changes(&mut self) -> Result<(BTreeMap<BlockNr, Vec<u8>>, Superblock)> {
        let mut blocks = std::mem::take(&mut self.blocks);
        let mut wanted = self.volume.superblock().clone();
        let bits = self.volume.geometry().cluster_bits;
        for (group, bitmap) in std::mem::take(&mut self.bitmaps) {
            let before = u64::from(self.descriptors.get(group)?.free_clusters);
            let nr = put_bitmap(&mut self.descriptors, self.volume, group, &bitmap)?;
            let after = u64::from(self.descriptors.get(group)?.free_clusters);
            wanted.free_blocks_count += after << bits;
            wanted.free_blocks_count = wanted.free_blocks_count.saturating_sub(before << bits);
            blocks.insert(nr, bitmap);
        }
        blocks.extend(self.descriptors.take_changed());
        Ok((blocks, wanted))
    }
}

/// Parts of extents with data that move, each with its new place.
fn written_parts<'a>(
    map: &'a FileMap,
    file: &'a FileMove,
) -> impl Iterator<Item = (Extent, BlockNr)> + 'a {
    let written = map
        .extents
        .iter()
        .filter(|extent| extent.state == ExtentState::Written);
    let all = written.flat_map(|extent| parts(*extent, &file.data));
    all.filter(|(part, to)| part.start != *to)
}
