//! The table of group descriptors of a file system at rest, as blocks.
//!
//! Invariant: a block that no group uses is zero, and so is what a growth adds to the last one.

use super::changes::Changes;
use std::collections::BTreeSet;
use uext4_format::{
    BlockNr, Checksums, Corrupt, CorruptKind, DamageLocation, Geometry, GroupDescriptor, GroupNr,
    InodeNr, Superblock,
};
use uext4_num::usize_of;
use uext4_volume::Result;
use uext4_volume::Volume;

/// The table in memory; changes of it are put into a transaction as whole blocks.
pub(crate) struct Descriptors {
    geometry: Geometry,
    checksums: Checksums,
    /// Indexed by descriptor block.
    blocks: Vec<Vec<u8>>,
    changed: BTreeSet<u32>,
}

impl Descriptors {
    /// Reads the primary descriptor blocks.
    pub(crate) fn read(volume: &Volume) -> Result<Self> {
        let geometry = *volume.geometry();
        let blocks = 0..geometry.descriptor_blocks_count();
        let mut blocks = blocks
            .map(|index| volume.read(geometry.descriptor_block(index)))
            .collect::<Result<Vec<_>>>()?;
        let used = usize_of(geometry.group_count % geometry.descriptors_per_block())
            * usize::from(geometry.desc_size);
        if let Some(last) = blocks.last_mut().filter(|_| used > 0) {
            last[used..].fill(0);
        }
        Ok(Self {
            geometry,
            checksums: volume.superblock().checksums(),
            blocks,
            changed: BTreeSet::new(),
        })
    }

    /// The file system that they describe.
    pub(crate) fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Makes room for the groups of a larger file system. With `meta_bg` blocks before the first
    /// one that is in its group exist even without groups.
    pub(crate) fn extend(&mut self, geometry: &Geometry) {
        self.geometry = *geometry;
        let block = vec![0; usize_of(geometry.block_size())];
        let count = usize_of(geometry.descriptor_blocks_count());
        self.blocks.resize(count, block);
    }

    /// The table of the same groups with descriptors of another size; each is to be set.
    pub(super) fn emptied(&self, geometry: &Geometry) -> Self {
        let mut table = Self {
            geometry: *geometry,
            checksums: self.checksums,
            blocks: Vec::new(),
            changed: BTreeSet::new(),
        };
        table.extend(geometry);
        table
    }

    /// The checksums of descriptors that are set from now on.
    pub(crate) fn use_checksums(&mut self, checksums: Checksums) {
        self.checksums = checksums;
    }

    /// Leaves out the groups that a smaller file system has not. Their descriptors in the last
    /// block stay, without free space: see "Replay by the kernel" in `docs/internals/resize.md`.
    ///
    /// # Errors
    /// Damage.
    pub(super) fn shrink(&mut self, geometry: &Geometry) -> Result<()> {
        let per_block = geometry.descriptors_per_block();
        let end = geometry.group_count.next_multiple_of(per_block);
        for group in (geometry.group_count..end.min(self.geometry.group_count)).map(GroupNr) {
            let mut descriptor = self.get(group)?;
            descriptor.free_clusters = 0;
            descriptor.free_inodes = 0;
            self.set(group, &descriptor);
        }
        self.geometry = *geometry;
        let count = geometry.descriptor_blocks_count();
        self.blocks.truncate(usize_of(count));
        self.changed.retain(|index| *index < count);
        Ok(())
    }

    /// The changed primary blocks, which count as unchanged afterwards.
    pub(super) fn take_changed(&mut self) -> Vec<(BlockNr, Vec<u8>)> {
        let changed = std::mem::take(&mut self.changed).into_iter();
        changed
            .map(|index| {
                let bytes = self.blocks[usize_of(index)].clone();
                (self.geometry.descriptor_block(index), bytes)
            })
            .collect()
    }

    /// The descriptor of a group.
    ///
    /// # Errors
    /// Damage.
    pub(crate) fn get(&self, group: GroupNr) -> Result<GroupDescriptor> {
        let (index, at) = self.table_position(group);
        let bytes = &self.blocks[usize_of(index)][at..];
        let (geometry, checksums) = (&self.geometry, &self.checksums);
        Ok(GroupDescriptor::parse(bytes, group, geometry, checksums)?)
    }

    /// Replaces the descriptor of a group.
    pub(crate) fn set(&mut self, group: GroupNr, descriptor: &GroupDescriptor) {
        let (index, at) = self.table_position(group);
        let bytes = &mut self.blocks[usize_of(index)][at..];
        descriptor.write_to(bytes, group, &self.geometry, &self.checksums);
        self.changed.insert(index);
    }

    /// Sets the counts of free space and inodes.
    pub(super) fn count(&self, wanted: &mut Superblock) -> Result<()> {
        let (mut clusters, mut inodes) = (0, 0);
        for group in (0..self.geometry.group_count).map(GroupNr) {
            let descriptor = self.get(group)?;
            clusters += u64::from(descriptor.free_clusters);
            inodes += descriptor.free_inodes;
        }
        wanted.free_blocks_count = clusters << self.geometry.cluster_bits;
        wanted.free_inodes_count = inodes;
        Ok(())
    }

    fn table_position(&self, group: GroupNr) -> (u32, usize) {
        let (_, offset) = self.geometry.descriptor_location(group);
        let index = group.0 / self.geometry.descriptors_per_block();
        (index, usize_of(offset))
    }

    /// Block and byte of an inode.
    ///
    /// # Errors
    /// Damage: of the descriptor, or a number that no group has.
    pub(crate) fn inode_position(&self, nr: InodeNr) -> Result<(BlockNr, usize)> {
        let outside = Corrupt::new(DamageLocation::Inode(nr), "inode", CorruptKind::NotInUse);
        let (group, index) = self.geometry.split_inode(nr).ok_or(outside)?;
        let table = self.get(group)?.inode_table;
        let (block, offset) = self.geometry.inode_location(table, index);
        Ok((block, usize_of(offset)))
    }

    /// Puts the changed primary blocks into `changes`.
    pub(crate) fn put_primary(&self, changes: &mut Changes<'_>) -> Result<()> {
        for index in &self.changed {
            let bytes = self.blocks[usize_of(*index)].clone();
            changes.put(self.geometry.descriptor_block(*index), bytes)?;
        }
        Ok(())
    }

    /// Writes the copies that a group holds; group 0 and the primary blocks of `meta_bg` are none.
    pub(crate) fn write_copies(&self, volume: &Volume, group: GroupNr) -> Result<()> {
        let Some((index, run)) = self.geometry.descriptor_run(group) else {
            return Ok(());
        };
        if run.start == self.geometry.descriptor_block(index) {
            return Ok(());
        }
        let first = usize_of(index);
        let end = self.blocks.len().min(first + usize_of(run.len_blocks));
        volume.write(run.start, &self.blocks[first..end].concat())
    }
}
