//! Checksums of a group: its bitmaps, and the inodes of its table.

use super::Work;
use crate::bitmaps::written_inodes;
use uext4_format::{
    BlockNr, Corrupt, CorruptKind, DamageLocation, GroupDescriptor, GroupNr, Inode,
    block_bitmap_checksum, group_flag, inode_bitmap_checksum,
};
use uext4_num::usize_of;
use uext4_volume::Result;

impl Work<'_> {
    /// The descriptor of a group with the new checksums of its bitmaps. The inodes of the group are
    /// among the changes.
    pub(super) fn group(&mut self, group: GroupNr) -> Result<GroupDescriptor> {
        let mut descriptor = self.descriptors.get(group)?;
        let written = written_inodes(&self.geometry, &descriptor);
        if self.ends_lazy {
            self.write_lazy(group, &mut descriptor, written)?;
        }
        let (geometry, seed) = (self.geometry, self.new.metadata);
        if !descriptor.has_flag(group_flag::BLOCK_UNINIT) {
            let bitmap = self.volume.read(descriptor.block_bitmap)?;
            descriptor.verify_block_bitmap(&bitmap, group, &geometry, &self.old)?;
            let sum = seed.map_or(0, |seed| block_bitmap_checksum(seed, &bitmap, &geometry));
            descriptor.set_block_bitmap_checksum(sum, &geometry);
        }
        if !descriptor.has_flag(group_flag::INODE_UNINIT) {
            let bitmap = self.volume.read(descriptor.inode_bitmap)?;
            descriptor.verify_inode_bitmap(&bitmap, group, &geometry, &self.old)?;
            let sum = seed.map_or(0, |seed| inode_bitmap_checksum(seed, &bitmap, &geometry));
            descriptor.set_inode_bitmap_checksum(sum, &geometry);
            self.inodes(group, (&descriptor, written), &bitmap)?;
        }
        Ok(descriptor)
    }

    /// The inodes of a group that were ever written.
    fn inodes(
        &mut self,
        group: GroupNr,
        (descriptor, written): (&GroupDescriptor, u32),
        bitmap: &[u8],
    ) -> Result<()> {
        let per_block = self.geometry.inodes_per_block();
        for block in 0..written.div_ceil(per_block) {
            let first = block * per_block;
            let nr = BlockNr(descriptor.inode_table.0 + u64::from(block));
            self.table_block(group, nr, first, &|index| {
                let byte = bitmap.get(usize_of(index / 8)).copied().unwrap_or(0);
                byte >> (index % 8) & 1 == 1
            })?;
        }
        Ok(())
    }

    /// One block of a table, with the inodes from index `first` of the group on.
    fn table_block(
        &mut self,
        group: GroupNr,
        nr: BlockNr,
        first: u32,
        is_used: &dyn Fn(u32) -> bool,
    ) -> Result<()> {
        let mut bytes = self.changes.get(nr)?;
        let before = bytes.clone();
        let size = usize::from(self.geometry.inode_size);
        for (index, raw) in (first..).zip(bytes.chunks_exact_mut(size)) {
            if raw.iter().all(|byte| *byte == 0) {
                continue;
            }
            let ino = self.geometry.inode_at(group, index);
            match Inode::parse(raw, ino, &self.geometry, &self.old) {
                Ok(mut inode) => {
                    if is_used(index) {
                        self.file(ino, &inode)?;
                        self.rehash_inode(ino, &mut inode)?;
                    }
                    inode.write_to(raw, ino, &self.geometry, &self.new);
                }
                Err(corrupt) if is_used(index) => return Err(corrupt.into()),
                // What a removed file left, which a checker reads as well.
                Err(_) => raw.fill(0),
            }
        }
        if bytes != before {
            self.changes.put(nr, bytes)?;
        }
        Ok(())
    }

    /// A block that an inode refers to, within the file system.
    pub(super) fn block_of_file(&self, nr: BlockNr, place: DamageLocation) -> Result<Vec<u8>> {
        if !self.geometry.contains(nr) {
            return Err(Corrupt::new(place, "inode map", CorruptKind::MapOutside).into());
        }
        self.changes.get(nr)
    }
}
