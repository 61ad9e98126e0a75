//! A file system at rest, read block by block, as it is behind a replay of its log.
//!
//! Invariants: a block outside of the file system, or that the device does not read, is `None`; no
//! reader fails for it. The file system has no more blocks than the device, whatever it says, so
//! that an image that was cut is read up to its end, and counts of blocks bound the time.

use crate::ring::Ring;
use crate::{Memory, Result};
use uext4_device::{BlockDevice, Overlay};
use uext4_format::{
    BlockNr, Checksums, Feature, Geometry, GroupDescriptor, GroupNr, InodeNr, Superblock,
    group_flag,
};
use uext4_num::usize_of;
use uext4_sync::Arc;
use uext4_volume::superblock::read_primary;
use uext4_volume::{DescriptorTable, log};

/// See the module.
pub struct Image {
    device: Arc<dyn BlockDevice>,
    superblock: Superblock,
    geometry: Geometry,
    checksums: Checksums,
    descriptors: DescriptorTable,
}

impl Image {
    /// Opens the file system on `device`, by its primary superblock or the one at `at_kib`.
    ///
    /// # Errors
    /// Damage of the superblock; those of the device; too little memory for the descriptors.
    pub fn open(
        device: Arc<dyn BlockDevice>,
        at_kib: Option<u64>,
        memory: &Memory,
    ) -> Result<Self> {
        let superblock = read_primary(&*device, at_kib)?;
        let geometry = within(superblock.geometry()?, &*device);
        let block_bytes = u64::from(geometry.block_size());
        memory.take(u64::from(geometry.descriptor_blocks_count()).saturating_mul(block_bytes))?;
        let descriptors = DescriptorTable::read(&*device, &geometry)?;
        Ok(Self {
            checksums: superblock.checksums(),
            device,
            superblock,
            geometry,
            descriptors,
        })
    }

    /// Reads the log, on `external` if it is on another device. `None` without a journal. Blocks
    /// that a replay would write are read from the log from now on.
    ///
    /// # Errors
    /// Damage of the log's superblock and of the map to it; those of the device; too little memory.
    pub fn read_log(
        &mut self,
        external: Option<&Arc<dyn BlockDevice>>,
        memory: &Memory,
    ) -> Result<Option<Ring>> {
        if !self.geometry.features.has(Feature::HAS_JOURNAL) {
            return Ok(None);
        }
        let per_group = u64::from(self.geometry.desc_size).saturating_add(64);
        let bytes = u64::from(self.geometry.group_count).saturating_mul(per_group);
        memory.take(bytes)?;
        let log = log::find(&self.device, &self.superblock, &self.geometry, external)?;
        memory.give_back(bytes);
        let block_size = self.geometry.block_size();
        let mut ring = Ring::read(log, block_size, memory)?;
        self.replay(&mut ring, memory)?;
        Ok(Some(ring))
    }

    /// Puts the images that a replay writes over the device, in memory.
    fn replay(&mut self, ring: &mut Ring, memory: &Memory) -> Result<()> {
        let newest = ring.newest(memory)?;
        if newest.is_empty() {
            return Ok(());
        }
        let overlay = Overlay::new(Arc::clone(&self.device));
        let block_bytes = u64::from(self.geometry.block_size());
        for (nr, stored) in newest {
            if !self.geometry.contains(BlockNr(nr)) {
                continue;
            }
            memory.take(block_bytes)?;
            let bytes = ring.image(stored)?;
            overlay.write_at(nr.saturating_mul(block_bytes), &bytes)?;
        }
        self.device = Arc::new(overlay);
        self.reread_tables(memory)
    }

    /// The superblock and the descriptors behind a replay, where these are sound.
    fn reread_tables(&mut self, memory: &Memory) -> Result<()> {
        let Ok(superblock) = read_primary(&*self.device, None) else {
            return Ok(());
        };
        let geometry = within(superblock.geometry()?, &*self.device);
        if geometry.block_bits != self.geometry.block_bits {
            return Ok(());
        }
        let block_bytes = u64::from(geometry.block_size());
        memory.take(u64::from(geometry.descriptor_blocks_count()).saturating_mul(block_bytes))?;
        self.descriptors = DescriptorTable::read(&*self.device, &geometry)?;
        self.checksums = superblock.checksums();
        (self.superblock, self.geometry) = (superblock, geometry);
        Ok(())
    }

    /// The superblock, as the primary one.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// The geometry that the superblock describes.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The checksums of the file system.
    pub fn checksums(&self) -> &Checksums {
        &self.checksums
    }

    /// The bytes of a block.
    pub fn block(&self, nr: u64) -> Option<Vec<u8>> {
        if nr >= self.geometry.blocks_count {
            return None;
        }
        let mut bytes = vec![0; usize_of(self.geometry.block_size())];
        let at = nr.checked_mul(self.geometry.block_size().into())?;
        self.device.read_at(at, &mut bytes).ok()?;
        Some(bytes)
    }

    /// The descriptor of a group, whatever its checksum.
    pub fn descriptor(&self, group: GroupNr) -> GroupDescriptor {
        self.descriptors.unverified(group)
    }

    /// The descriptor of a group, if it is sound.
    pub(crate) fn parsed_descriptor(&self, group: GroupNr) -> Result<GroupDescriptor> {
        let parsed = self
            .descriptors
            .parse(group, &self.geometry, &self.checksums);
        Ok(parsed?)
    }

    /// Whether the descriptor says so, and its checksum is right. Without checksums there are no
    /// such flags.
    pub(crate) fn has_flag(&self, group: GroupNr, flag: u16) -> bool {
        let parsed = self.parsed_descriptor(group);
        parsed.is_ok_and(|descriptor| descriptor.has_flag(flag))
    }

    /// Inodes at the start of a group's table that may have been used.
    pub(crate) fn inodes_touched(&self, group: GroupNr) -> u32 {
        let all = self.geometry.inodes_per_group;
        match self.parsed_descriptor(group) {
            Ok(descriptor) if descriptor.has_flag(group_flag::INODE_UNINIT) => 0,
            Ok(descriptor) => all.saturating_sub(descriptor.itable_unused),
            Err(_) => all,
        }
    }

    /// The bitmap of the inodes of a group: empty if it was never written, `None` if it cannot be
    /// read or its checksum is wrong.
    pub(crate) fn inode_bitmap(&self, group: GroupNr) -> Option<Vec<u8>> {
        if self.has_flag(group, group_flag::INODE_UNINIT) {
            return Some(Vec::new());
        }
        let descriptor = self.descriptor(group);
        let bitmap = self.block(descriptor.inode_bitmap.0)?;
        let sealed =
            descriptor.verify_inode_bitmap(&bitmap, group, &self.geometry, &self.checksums);
        sealed.ok().map(|()| bitmap)
    }

    /// The bitmap of the clusters of a group: empty if it was never written, `None` if it cannot be
    /// read or its checksum is wrong.
    pub(crate) fn block_bitmap(&self, group: GroupNr) -> Option<Vec<u8>> {
        if self.has_flag(group, group_flag::BLOCK_UNINIT) {
            return Some(Vec::new());
        }
        let descriptor = self.descriptor(group);
        let bitmap = self.block(descriptor.block_bitmap.0)?;
        let sealed =
            descriptor.verify_block_bitmap(&bitmap, group, &self.geometry, &self.checksums);
        sealed.ok().map(|()| bitmap)
    }

    /// The bytes of an inode.
    pub fn inode_bytes(&self, nr: InodeNr) -> Option<Vec<u8>> {
        let (group, index) = self.geometry.split_inode(nr)?;
        let table = self.descriptor(group).inode_table;
        let (block, offset) = self.geometry.inode_location(table, index);
        let bytes = self.block(block.0)?;
        let from = usize_of(offset);
        let to = from.checked_add(self.geometry.inode_size.into())?;
        bytes.get(from..to).map(<[u8]>::to_vec)
    }
}

/// A geometry without the blocks behind the end of the device.
fn within(geometry: Geometry, device: &dyn BlockDevice) -> Geometry {
    let there = device
        .size_bytes()
        .checked_shr(geometry.block_bits)
        .unwrap_or(0);
    let least = u64::from(geometry.first_data_block).saturating_add(1);
    let mut within = geometry;
    within.blocks_count = geometry.blocks_count.min(there).max(least);
    within
}
