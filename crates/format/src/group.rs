//! Group descriptors, and the checksums of the bitmaps that they point to.
//!
//! A descriptor has 32 bytes, or `s_desc_size` (at least 64) with the `64bit` feature, when every
//! number has a high half in the second part. Its block numbers are checked against the geometry.
//!
//! References: kernel doc `filesystems/ext4/group_descr.rst`, `bitmaps.rst`.

use crate::bytes::{get_u16, get_u32, join_u32, put_slice, put_u16, put_u32, upto};
use crate::checksum::{Checksums, DescriptorChecksum, Seed, crc16};
use crate::{BlockNr, Corrupt, CorruptKind, DamageLocation, Feature, Geometry, GroupNr};
use std::ops::Range;
use uext4_num::{high_u16, high_u32, low_u16, low_u32, usize_of};

#[cfg(test)]
mod tests;

/// Flags of `bg_flags`.
pub mod group_flag {
    /// No inode of the group is in use; bitmap and table are not initialised.
    pub const INODE_UNINIT: u16 = 0x1;
    /// The block bitmap is not initialised: it is computed from the geometry.
    pub const BLOCK_UNINIT: u16 = 0x2;
    /// The inode table reads as zeroes where it was never used.
    pub const INODE_ZEROED: u16 = 0x4;
}

const CHECKSUM_AT: usize = 0x1E;
const AFTER_CHECKSUM: usize = 0x20;
const WIDE_BYTES: usize = 64;

/// The descriptor of a block group, of 32 or 64 bytes on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupDescriptor {
    /// Block of the block bitmap.
    pub block_bitmap: BlockNr,
    /// Block of the inode bitmap.
    pub inode_bitmap: BlockNr,
    /// First block of the inode table.
    pub inode_table: BlockNr,
    /// Free clusters of the group.
    pub free_clusters: u32,
    /// Free inodes of the group.
    pub free_inodes: u32,
    /// Inodes of the group that are directories.
    pub used_dirs: u32,
    /// Flags of [`group_flag`] (`bg_flags`).
    pub flags: u16,
    /// Inodes at the end of the table that were never used: their bytes are undefined.
    pub itable_unused: u32,
    /// Checksum of the block bitmap; 16 bits of it in small descriptors.
    pub block_bitmap_checksum: u32,
    /// Checksum of the inode bitmap; 16 bits of it in small descriptors.
    pub inode_bitmap_checksum: u32,
    /// Block of the exclude bitmap of out-of-tree snapshots; preserved.
    pub exclude_bitmap: u64,
    reserved: u32,
    tail: Box<[u8]>,
}

impl GroupDescriptor {
    /// Parses a descriptor of `geometry.desc_size` bytes and checks it.
    ///
    /// # Errors
    /// [`Corrupt`] when the checksum is wrong, or a bitmap or the table lies outside the file
    /// system (without `flex_bg`: outside the group), or a count exceeds the group.
    pub fn parse(
        bytes: &[u8],
        group: GroupNr,
        geometry: &Geometry,
        checksums: &Checksums,
    ) -> Result<Self, Corrupt> {
        let problem =
            |problem| Corrupt::new(DamageLocation::Group(group), "group descriptor", problem);
        let size = usize::from(geometry.desc_size);
        let bytes = bytes
            .get(..size)
            .ok_or_else(|| problem(CorruptKind::short(bytes)))?;
        let expected = descriptor_checksum(bytes, group, checksums);
        let stored = get_u16(bytes, CHECKSUM_AT).into();
        CorruptKind::compare(stored, expected.map(u32::from)).map_err(problem)?;
        let mut descriptor = Self::parse_unverified(bytes);
        if expected.is_none() {
            // These are defined only if descriptors have checksums.
            descriptor.itable_unused = 0;
            descriptor.flags &= !(group_flag::INODE_UNINIT | group_flag::BLOCK_UNINIT);
        }
        descriptor.check(group, geometry).map_err(problem)?;
        Ok(descriptor)
    }

    /// Parses without checking anything; the length of `bytes` is the descriptor size.
    pub fn parse_unverified(bytes: &[u8]) -> Self {
        let wide = bytes.len() >= WIDE_BYTES;
        let high32 = |at| if wide { get_u32(bytes, at) } else { 0 };
        let block = |low, high| BlockNr(join_u32(get_u32(bytes, low), high32(high)));
        let number = |low, high| {
            let high = if wide { get_u16(bytes, high) } else { 0 };
            u32::from(get_u16(bytes, low)) | u32::from(high) << 16
        };
        GroupDescriptor {
            block_bitmap: block(0x0, 0x20),
            inode_bitmap: block(0x4, 0x24),
            inode_table: block(0x8, 0x28),
            free_clusters: number(0xC, 0x2C),
            free_inodes: number(0xE, 0x2E),
            used_dirs: number(0x10, 0x30),
            flags: get_u16(bytes, 0x12),
            itable_unused: number(0x1C, 0x32),
            block_bitmap_checksum: number(0x18, 0x38),
            inode_bitmap_checksum: number(0x1A, 0x3A),
            exclude_bitmap: block(0x14, 0x34).0,
            reserved: high32(0x3C),
            tail: bytes.get(WIDE_BYTES..).unwrap_or(&[]).into(),
        }
    }

    /// Writes the descriptor with its checksum into the first `desc_size` bytes of `out`.
    ///
    /// A shorter `out` is a bug of the caller.
    pub fn write_to(
        &self,
        out: &mut [u8],
        group: GroupNr,
        geometry: &Geometry,
        checksums: &Checksums,
    ) {
        let size = usize::from(geometry.desc_size);
        assert!(out.len() >= size, "a descriptor needs {size} bytes");
        let (out, _) = out.split_at_mut(size);
        self.write_low(out);
        if size >= WIDE_BYTES {
            self.write_high(out);
        }
        put_u16(out, CHECKSUM_AT, 0);
        if let Some(checksum) = descriptor_checksum(out, group, checksums) {
            put_u16(out, CHECKSUM_AT, checksum);
        }
    }

    /// True when the flag (of [`group_flag`]) is set.
    pub fn has_flag(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// Sets the checksum of the block bitmap, truncated to the width of the field.
    pub fn set_block_bitmap_checksum(&mut self, checksum: u32, geometry: &Geometry) {
        self.block_bitmap_checksum = checksum & bitmap_checksum_mask(geometry);
    }

    /// Sets the checksum of the inode bitmap, truncated to the width of the field.
    pub fn set_inode_bitmap_checksum(&mut self, checksum: u32, geometry: &Geometry) {
        self.inode_bitmap_checksum = checksum & bitmap_checksum_mask(geometry);
    }

    /// Checks the block bitmap's bytes against the descriptor.
    ///
    /// # Errors
    /// [`Corrupt`] when the file system has bitmap checksums and this one does not match.
    pub fn verify_block_bitmap(
        &self,
        bitmap: &[u8],
        group: GroupNr,
        geometry: &Geometry,
        checksums: &Checksums,
    ) -> Result<(), Corrupt> {
        let seed = checksums.metadata;
        let computed = seed.map(|seed| block_bitmap_checksum(seed, bitmap, geometry));
        compare(self.block_bitmap_checksum, computed, geometry)
            .map_err(|problem| Corrupt::new(DamageLocation::Group(group), "block bitmap", problem))
    }

    /// Checks the inode bitmap's bytes against the descriptor.
    ///
    /// # Errors
    /// [`Corrupt`] when the file system has bitmap checksums and this one does not match.
    pub fn verify_inode_bitmap(
        &self,
        bitmap: &[u8],
        group: GroupNr,
        geometry: &Geometry,
        checksums: &Checksums,
    ) -> Result<(), Corrupt> {
        let seed = checksums.metadata;
        let computed = seed.map(|seed| inode_bitmap_checksum(seed, bitmap, geometry));
        compare(self.inode_bitmap_checksum, computed, geometry)
            .map_err(|problem| Corrupt::new(DamageLocation::Group(group), "inode bitmap", problem))
    }

    fn write_low(&self, out: &mut [u8]) {
        put_u32(out, 0x0, low_u32(self.block_bitmap.0));
        put_u32(out, 0x4, low_u32(self.inode_bitmap.0));
        put_u32(out, 0x8, low_u32(self.inode_table.0));
        put_u16(out, 0xC, low_u16(self.free_clusters));
        put_u16(out, 0xE, low_u16(self.free_inodes));
        put_u16(out, 0x10, low_u16(self.used_dirs));
        put_u16(out, 0x12, self.flags);
        put_u32(out, 0x14, low_u32(self.exclude_bitmap));
        put_u16(out, 0x18, low_u16(self.block_bitmap_checksum));
        put_u16(out, 0x1A, low_u16(self.inode_bitmap_checksum));
        put_u16(out, 0x1C, low_u16(self.itable_unused));
    }

    fn write_high(&self, out: &mut [u8]) {
        put_u32(out, 0x20, high_u32(self.block_bitmap.0));
        put_u32(out, 0x24, high_u32(self.inode_bitmap.0));
        put_u32(out, 0x28, high_u32(self.inode_table.0));
        put_u16(out, 0x2C, high_u16(self.free_clusters));
        put_u16(out, 0x2E, high_u16(self.free_inodes));
        put_u16(out, 0x30, high_u16(self.used_dirs));
        put_u16(out, 0x32, high_u16(self.itable_unused));
        put_u32(out, 0x34, high_u32(self.exclude_bitmap));
        put_u16(out, 0x38, high_u16(self.block_bitmap_checksum));
        put_u16(out, 0x3A, high_u16(self.inode_bitmap_checksum));
        put_u32(out, 0x3C, self.reserved);
        put_slice(out, WIDE_BYTES, &self.tail);
    }

    /// The blocks where bitmaps and the table of a group may be. Block 0 never holds one: it is the
    /// superblock's or the boot block.
    pub fn places(group: GroupNr, geometry: &Geometry) -> Range<u64> {
        let first = geometry.group_first_block(group).0;
        let (start, end) = if geometry.features.has(Feature::FLEX_BG) {
            (u64::from(geometry.first_data_block), geometry.blocks_count)
        } else {
            let len = u64::from(geometry.blocks_in_group(group));
            (first, first.saturating_add(len))
        };
        start.max(1)..end
    }

    fn check(&self, group: GroupNr, geometry: &Geometry) -> Result<(), CorruptKind> {
        let places = Self::places(group, geometry);
        let inside = |block: BlockNr, len: u32| {
            let last = block.0.checked_add(u64::from(len));
            block.0 >= places.start && last.is_some_and(|last| last <= places.end)
        };
        if !inside(self.block_bitmap, 1) {
            return Err(CorruptKind::BlockBitmapRange {
                block: self.block_bitmap.0,
            });
        }
        if !inside(self.inode_bitmap, 1) {
            return Err(CorruptKind::InodeBitmapRange {
                block: self.inode_bitmap.0,
            });
        }
        if !inside(self.inode_table, geometry.inode_table_blocks()) {
            return Err(CorruptKind::InodeTableRange {
                block: self.inode_table.0,
            });
        }
        if self.free_clusters > geometry.clusters_per_group {
            return Err(CorruptKind::FreeClusters {
                found: self.free_clusters,
                max: geometry.clusters_per_group,
            });
        }
        let inodes = geometry.inodes_per_group;
        if self.free_inodes > inodes || self.used_dirs > inodes || self.itable_unused > inodes {
            return Err(CorruptKind::InodeCounts);
        }
        Ok(())
    }
}

/// The checksum of a block bitmap, all 32 bits.
pub fn block_bitmap_checksum(seed: Seed, bitmap: &[u8], geometry: &Geometry) -> u32 {
    covered(seed, bitmap, geometry.clusters_per_group)
}

/// The checksum of an inode bitmap, all 32 bits.
pub fn inode_bitmap_checksum(seed: Seed, bitmap: &[u8], geometry: &Geometry) -> u32 {
    covered(seed, bitmap, geometry.inodes_per_group)
}

fn covered(seed: Seed, bitmap: &[u8], bits: u32) -> u32 {
    seed.update(upto(bitmap, usize_of(bits / 8))).value()
}

/// Compares a bitmap's checksum in the descriptor with the computed one, if there are checksums.
fn compare(stored: u32, computed: Option<u32>, geometry: &Geometry) -> Result<(), CorruptKind> {
    let computed = computed.map(|computed| computed & bitmap_checksum_mask(geometry));
    CorruptKind::compare(stored, computed)
}

fn bitmap_checksum_mask(geometry: &Geometry) -> u32 {
    if usize::from(geometry.desc_size) >= WIDE_BYTES {
        !0
    } else {
        0xFFFF
    }
}

/// The checksum of a descriptor of `bytes.len()` bytes, with its own field taken as zero.
fn descriptor_checksum(bytes: &[u8], group: GroupNr, checksums: &Checksums) -> Option<u16> {
    let before = bytes.get(..CHECKSUM_AT).unwrap_or(&[]);
    let after = bytes.get(AFTER_CHECKSUM..).unwrap_or(&[]);
    match checksums.descriptor {
        DescriptorChecksum::None => None,
        DescriptorChecksum::Crc32c(seed) => {
            let seed = seed
                .update_u32(group.0)
                .update(before)
                .update(&[0, 0])
                .update(after);
            Some(low_u16(seed.value()))
        }
        DescriptorChecksum::Crc16 { uuid } => {
            let register = crc16(crc16(!0, &uuid), &group.0.to_le_bytes());
            Some(crc16(crc16(register, before), after))
        }
    }
}
