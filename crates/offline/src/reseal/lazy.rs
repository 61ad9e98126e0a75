//! What the flags of a group say instead of its bitmaps and its inode table. Without checksums of
//! groups such flags have no meaning, so bitmaps and table have to be on the device.
//!
//! Crash safety: while a flag is set, no program reads what it stands for. So bitmaps and inodes
//! that were never used are written first, outside of the transaction, which clears the flags.

use super::Work;
use uext4_format::bitmap::{set_bits, uninit_block_bitmap, uninit_inode_bitmap};
use uext4_format::{
    BlockNr, GroupDescriptor, GroupNr, block_bitmap_checksum, group_flag, inode_bitmap_checksum,
};
use uext4_num::usize_of;
use uext4_volume::Result;

impl Work<'_> {
    /// Writes bitmaps of a group, and its inodes behind the `written` ones, and clears the flags in
    /// `descriptor`.
    pub(super) fn write_lazy(
        &mut self,
        group: GroupNr,
        descriptor: &mut GroupDescriptor,
        written: u32,
    ) -> Result<()> {
        let (geometry, seed) = (self.geometry, self.old.metadata);
        self.zero_unused_inodes(descriptor, written)?;
        if descriptor.has_flag(group_flag::BLOCK_UNINIT) {
            let mut bitmap = uninit_block_bitmap(&geometry, group, descriptor);
            set_bits(&mut bitmap, geometry.clusters_in_group(group), u32::MAX);
            self.volume.write(descriptor.block_bitmap, &bitmap)?;
            let sum = seed.map_or(0, |seed| block_bitmap_checksum(seed, &bitmap, &geometry));
            descriptor.set_block_bitmap_checksum(sum, &geometry);
        }
        if descriptor.has_flag(group_flag::INODE_UNINIT) {
            let bitmap = uninit_inode_bitmap(&geometry);
            self.volume.write(descriptor.inode_bitmap, &bitmap)?;
            let sum = seed.map_or(0, |seed| inode_bitmap_checksum(seed, &bitmap, &geometry));
            descriptor.set_inode_bitmap_checksum(sum, &geometry);
        }
        descriptor.flags = 0;
        descriptor.itable_unused = 0;
        Ok(())
    }

    fn zero_unused_inodes(&mut self, descriptor: &GroupDescriptor, written: u32) -> Result<()> {
        let geometry = self.geometry;
        if descriptor.has_flag(group_flag::INODE_ZEROED) || written >= geometry.inodes_per_group {
            return Ok(());
        }
        let (first, offset) = geometry.inode_location(descriptor.inode_table, written);
        let end = descriptor.inode_table.0 + u64::from(geometry.inode_table_blocks());
        let mut whole = first;
        if offset > 0 {
            let mut bytes = self.changes.get(first)?;
            bytes[usize_of(offset)..].fill(0);
            self.changes.put(first, bytes)?;
            whole = BlockNr(first.0 + 1);
        }
        let bits = geometry.block_bits;
        let device = self.volume.device();
        Ok(device.write_zeroes(whole.0 << bits, (end - whole.0) << bits)?)
    }
}
