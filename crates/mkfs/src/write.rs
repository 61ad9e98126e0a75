//! Encoding of group metadata, and the order of writes to the device.

use std::borrow::Borrow;
use std::ops::Range;
use uext4_device::BlockDevice;
use uext4_format::bitmap::set_bits;
use uext4_format::superblock::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET, state};
use uext4_format::{
    BlockNr, Checksums, Feature, Geometry, GroupDescriptor, GroupNr, Inode, InodeNr, Superblock,
    block_bitmap_checksum, group_flag, inode_bitmap_checksum,
};
use uext4_num::{clamp_u16, clamp_u32, u64_of, usize_of};

use crate::Error;
use crate::options::{DeviceContents, InodeTables};
use crate::space::Space;

/// Size of the area at the end of the device where other formats have signatures, in bytes.
const END_BYTES: u64 = 64 << 10;
/// The end of the primary superblock, in bytes: that of block 1 where blocks have 1 KiB.
const SUPERBLOCK_END: u64 = SUPERBLOCK_OFFSET + u64_of(SUPERBLOCK_BYTES);
/// Bytes of inodes that are written together.
const TABLE_WRITE_BYTES: usize = 1 << 20;
/// Rules for writing inode tables and bitmaps.
#[derive(Clone, Copy)]
pub(super) struct Policy {
    pub(super) contents: DeviceContents,
    pub(super) tables: InodeTables,
}

pub(super) struct Writer<'a> {
    pub(super) device: &'a dyn BlockDevice,
    pub(super) geometry: Geometry,
    pub(super) checksums: Checksums,
    pub(super) policy: Policy,
}

/// Wipes the superblock, and signatures of other file systems: the first block, and the last bytes
/// of `size_bytes`. To be called before anything else is written to a device of unknown contents,
/// so that an interrupted writer leaves no file system with changed contents.
///
/// # Errors
/// Those of the device.
pub fn wipe(device: &dyn BlockDevice, size_bytes: u64, block_size: u32) -> Result<(), Error> {
    let end = END_BYTES.min(size_bytes);
    device.write_zeroes(0, SUPERBLOCK_END.max(u64::from(block_size)))?;
    device.write_zeroes(size_bytes - end, end)?;
    Ok(device.flush()?)
}

impl Writer<'_> {
    pub(super) fn block(&self, nr: BlockNr, bytes: &[u8]) -> Result<(), Error> {
        Ok(self
            .device
            .write_at(nr.0 << self.geometry.block_bits, bytes)?)
    }

    /// Zeroes blocks; nothing to do on a zeroed device.
    pub(super) fn zero(&self, start: BlockNr, blocks: u32) -> Result<(), Error> {
        if self.policy.contents == DeviceContents::Zeroed {
            return Ok(());
        }
        let bits = self.geometry.block_bits;
        Ok(self
            .device
            .write_zeroes(start.0 << bits, u64::from(blocks) << bits)?)
    }

    /// Computes counts, flags and checksums of a group, and writes the bitmaps that are needed.
    pub(super) fn group(
        &self,
        space: &Space,
        group: GroupNr,
        descriptor: &mut GroupDescriptor,
        used: &UsedInodes,
    ) -> Result<(), Error> {
        let geometry = &self.geometry;
        let runs = used.in_group(geometry, group);
        let inodes = runs.iter().map(|run| run.end - run.start).sum();
        let clusters = geometry.clusters_in_group(group);
        descriptor.free_clusters = clusters - space.used_clusters(group);
        descriptor.free_inodes = geometry.inodes_per_group - inodes;
        descriptor.used_dirs = used.directories_in_group(geometry, group);
        let lazy = self.has_lazy_groups();
        if lazy {
            let end = runs.last().map_or(0, |run| run.end);
            descriptor.itable_unused = geometry.inodes_per_group - end;
        }
        self.inode_table(descriptor, inodes, lazy)?;
        if lazy && group.0 + 1 < geometry.group_count && only_own(space, group, descriptor) {
            descriptor.flags |= group_flag::BLOCK_UNINIT;
        } else {
            self.block_bitmap(space, group, descriptor)?;
        }
        if lazy && inodes == 0 {
            descriptor.flags |= group_flag::INODE_UNINIT;
        } else {
            self.inode_bitmap(descriptor, &runs)?;
        }
        Ok(())
    }

    fn has_lazy_groups(&self) -> bool {
        let features = self.geometry.features;
        features.has(Feature::METADATA_CSUM) || features.has(Feature::UNINIT_BG)
    }

    /// Zeroes the table, unless it will not be read.
    fn inode_table(
        &self,
        descriptor: &mut GroupDescriptor,
        inodes: u32,
        lazy: bool,
    ) -> Result<(), Error> {
        let zeroed = self.policy.contents == DeviceContents::Zeroed;
        let zero = !lazy || inodes > 0 || self.policy.tables == InodeTables::Zero;
        if zero {
            self.zero(descriptor.inode_table, self.geometry.inode_table_blocks())?;
        }
        if lazy && (zeroed || zero) {
            descriptor.flags |= group_flag::INODE_ZEROED;
        }
        Ok(())
    }

    fn block_bitmap(
        &self,
        space: &Space,
        group: GroupNr,
        descriptor: &mut GroupDescriptor,
    ) -> Result<(), Error> {
        let mut bitmap = vec![0; usize_of(self.geometry.block_size())];
        for (start, end) in space.cluster_ranges(group) {
            set_bits(&mut bitmap, start, end);
        }
        set_bits(
            &mut bitmap,
            self.geometry.clusters_in_group(group),
            u32::MAX,
        );
        if let Some(seed) = self.checksums.metadata {
            let checksum = block_bitmap_checksum(seed, &bitmap, &self.geometry);
            descriptor.set_block_bitmap_checksum(checksum, &self.geometry);
        }
        self.block(descriptor.block_bitmap, &bitmap)
    }

    fn inode_bitmap(
        &self,
        descriptor: &mut GroupDescriptor,
        used: &[Range<u32>],
    ) -> Result<(), Error> {
        let mut bitmap = vec![0; usize_of(self.geometry.block_size())];
        for run in used {
            set_bits(&mut bitmap, run.start, run.end);
        }
        set_bits(&mut bitmap, self.geometry.inodes_per_group, u32::MAX);
        if let Some(seed) = self.checksums.metadata {
            let checksum = inode_bitmap_checksum(seed, &bitmap, &self.geometry);
            descriptor.set_inode_bitmap_checksum(checksum, &self.geometry);
        }
        self.block(descriptor.inode_bitmap, &bitmap)
    }

    /// Writes inodes, which are ascending. Neighbours are written together.
    pub(super) fn inodes<I: Borrow<Inode>>(
        &self,
        inodes: impl Iterator<Item = (InodeNr, I)>,
        descriptors: &[GroupDescriptor],
    ) -> Result<(), Error> {
        let size = usize::from(self.geometry.inode_size);
        let (mut start, mut bytes) = (0, Vec::new());
        for (ino, inode) in inodes {
            let at = self.inode_offset(ino, descriptors)?;
            if at != start + u64_of(bytes.len()) || bytes.len() >= TABLE_WRITE_BYTES {
                self.inode_bytes(start, &bytes)?;
                bytes.clear();
                start = at;
            }
            let from = bytes.len();
            bytes.resize(from + size, 0);
            let (_, inode_bytes) = bytes.split_at_mut(from);
            inode
                .borrow()
                .write_to(inode_bytes, ino, &self.geometry, &self.checksums);
        }
        self.inode_bytes(start, &bytes)
    }

    fn inode_bytes(&self, start: u64, bytes: &[u8]) -> Result<(), Error> {
        if bytes.is_empty() {
            return Ok(());
        }
        Ok(self.device.write_at(start, bytes)?)
    }

    /// Offset of an inode in the device, in bytes.
    fn inode_offset(&self, ino: InodeNr, descriptors: &[GroupDescriptor]) -> Result<u64, Error> {
        let (group, index) = self.geometry.split_inode(ino).ok_or(Error::TooSmall)?;
        let descriptor = descriptors.get(usize_of(group.0)).ok_or(Error::TooSmall)?;
        let (nr, offset) = self.geometry.inode_location(descriptor.inode_table, index);
        Ok((nr.0 << self.geometry.block_bits) + u64::from(offset))
    }

    /// Writes all copies of the descriptors.
    pub(super) fn descriptors(&self, descriptors: &[GroupDescriptor]) -> Result<(), Error> {
        let geometry = &self.geometry;
        let block_size = usize_of(geometry.block_size());
        let size = usize::from(geometry.desc_size);
        let mut bytes = vec![0; usize_of(geometry.descriptor_blocks_count()) * block_size];
        for (group, (descriptor, out)) in descriptors.iter().zip(bytes.chunks_mut(size)).enumerate()
        {
            descriptor.write_to(out, GroupNr(clamp_u32(group)), geometry, &self.checksums);
        }
        for group in (0..geometry.group_count).map(GroupNr) {
            let Some((index, run)) = geometry.descriptor_run(group) else {
                continue;
            };
            let start = usize_of(index) * block_size;
            let end = start
                .saturating_add(usize_of(run.len_blocks) * block_size)
                .min(bytes.len());
            self.block(run.start, bytes.get(start..end).unwrap_or(&[]))?;
        }
        Ok(())
    }

    /// Writes the copies of the superblock, without the clean mark.
    pub(super) fn superblock_copies(&self, superblock: &Superblock) -> Result<(), Error> {
        let mut copy = superblock.clone();
        copy.state &= !state::VALID;
        for group in (1..self.geometry.group_count).map(GroupNr) {
            let Some(nr) = self.geometry.superblock_block(group) else {
                continue;
            };
            copy.block_group_nr = clamp_u16(group.0); // as mke2fs, for groups above 65,535
            let mut bytes = vec![0; usize_of(self.geometry.block_size())];
            let (start, _) = bytes.split_at_mut(SUPERBLOCK_BYTES);
            start.copy_from_slice(&copy.to_bytes());
            self.block(nr, &bytes)?;
        }
        Ok(())
    }

    pub(super) fn superblock(&self, superblock: &Superblock) -> Result<(), Error> {
        Ok(self
            .device
            .write_at(SUPERBLOCK_OFFSET, &superblock.to_bytes())?)
    }
}

/// Inodes in use, and which of them are directories.
pub(super) struct UsedInodes {
    /// Runs of their numbers, ascending, neighbours joined.
    runs: Vec<Range<u32>>,
    /// Those of directories, ascending.
    directories: Vec<InodeNr>,
}

impl UsedInodes {
    /// These runs of numbers, in any order.
    pub(super) fn new(mut runs: Vec<Range<u32>>, directories: Vec<InodeNr>) -> UsedInodes {
        runs.sort_unstable_by_key(|run| run.start);
        runs.retain(|run| !run.is_empty());
        runs.dedup_by(|next, last| {
            let joins = last.end == next.start;
            if joins {
                last.end = next.end;
            }
            joins
        });
        UsedInodes { runs, directories }
    }

    /// The runs in a group, as indices in its table.
    fn in_group(&self, geometry: &Geometry, group: GroupNr) -> Vec<Range<u32>> {
        let first = geometry.inode_at(group, 0).0;
        let end = first.saturating_add(geometry.inodes_per_group);
        let from = self.runs.partition_point(|run| run.end <= first);
        let runs = self.runs.iter().skip(from);
        runs.take_while(|run| run.start < end)
            .map(|run| run.start.max(first) - first..run.end.min(end) - first)
            .collect()
    }

    fn directories_in_group(&self, geometry: &Geometry, group: GroupNr) -> u32 {
        let first = geometry.inode_at(group, 0);
        let end = InodeNr(first.0.saturating_add(geometry.inodes_per_group));
        let before = |limit| self.directories.partition_point(|ino| *ino < limit);
        clamp_u32(before(end) - before(first))
    }
}

/// Whether the group's used blocks are those that a reader computes for BLOCK_UNINIT: the base
/// metadata, and the group's own bitmaps and table if they are inside.
fn only_own(space: &Space, group: GroupNr, descriptor: &GroupDescriptor) -> bool {
    if space.is_base_only(group) {
        return true;
    }
    let geometry = &space.geometry;
    if geometry.features.has(Feature::FLEX_BG) || geometry.cluster_bits != 0 {
        return false;
    }
    let blocks = [
        descriptor.block_bitmap,
        descriptor.inode_bitmap,
        descriptor.inode_table,
    ];
    let own = 2 + geometry.inode_table_blocks() + geometry.base_metadata_blocks(group);
    blocks
        .into_iter()
        .all(|block| geometry.group_of_block(block) == group)
        && space.used_clusters(group) == own
}
