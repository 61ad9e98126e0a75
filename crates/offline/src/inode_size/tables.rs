//! Contents of larger inode tables. They are written to free blocks, so a crash before the
//! transaction leaves them without a meaning.

use crate::bitmaps::{bit, inode_bitmap, written_inodes};
use std::ops::Range;
use uext4_format::{
    BlockNr, Checksums, Geometry, GroupDescriptor, GroupNr, Inode, InodeNr, group_flag,
};
use uext4_num::{u64_of, usize_of};
use uext4_volume::Volume;
use uext4_volume::{Error, Result};

/// Bytes of an old table that are read at once.
const PIECE_BYTES: u32 = 1 << 20;

/// Writes the contents of the larger tables.
pub(super) struct Tables<'a> {
    volume: &'a Volume,
    old: Geometry,
    new: Geometry,
    checksums: Checksums,
    /// The block of a new table with the copy of the journal's inode, as it is without it.
    without_copy: Option<(BlockNr, Vec<u8>)>,
}

impl<'a> Tables<'a> {
    pub(super) fn new(volume: &'a Volume, new: Geometry) -> Self {
        Self {
            volume,
            old: volume.geometry,
            new,
            checksums: volume.superblock.checksums(),
            without_copy: None,
        }
    }

    /// The block that has the copy of the journal's inode, as it is without it; none with an
    /// external journal.
    pub(super) fn into_block_without_copy(self) -> Option<(BlockNr, Vec<u8>)> {
        self.without_copy
    }

    /// The descriptor of a group whose table is at `place`.
    pub(super) fn moved(&self, descriptor: &GroupDescriptor, place: BlockNr) -> GroupDescriptor {
        let mut moved = descriptor.clone();
        moved.inode_table = place;
        if written_inodes(&self.old, descriptor) < self.old.inodes_per_group {
            moved.flags &= !group_flag::INODE_ZEROED;
        }
        moved
    }

    /// Writes the new table of a group at `place`.
    ///
    /// # Errors
    /// Damage of an inode in use; those of the device.
    pub(super) fn copy(
        &mut self,
        group: GroupNr,
        descriptor: &GroupDescriptor,
        place: BlockNr,
    ) -> Result<()> {
        let bitmap = inode_bitmap(self.volume, descriptor, group)?;
        let written = written_inodes(&self.old, descriptor);
        let step = PIECE_BYTES.max(self.old.block_size()) / u32::from(self.old.inode_size);
        for first in (0..written).step_by(usize_of(step)) {
            let indexes = first..written.min(first + step);
            self.copy_inodes(group, &bitmap, indexes, [descriptor.inode_table, place])?;
        }
        self.copy_journal_inode(group, [descriptor.inode_table, place])
    }

    /// Copies inodes; the rest of the last block becomes zero.
    fn copy_inodes(
        &self,
        group: GroupNr,
        bitmap: &[u8],
        indexes: Range<u32>,
        [from, to]: [BlockNr; 2],
    ) -> Result<()> {
        let (old_size, new_size) = (self.old.inode_size, self.new.inode_size);
        let at = |table: BlockNr, size: u16| {
            (table.0 << self.old.block_bits) + u64::from(indexes.start) * u64::from(size)
        };
        let count = usize_of(indexes.end - indexes.start);
        let mut read = vec![0; count * usize::from(old_size)];
        self.volume.device.read_at(at(from, old_size), &mut read)?;
        let block_size = usize_of(self.new.block_size());
        let len = (count * usize::from(new_size)).next_multiple_of(block_size);
        if read.iter().all(|byte| *byte == 0) {
            let device = &self.volume.device;
            return Ok(device.write_zeroes(at(to, new_size), u64_of(len))?);
        }
        let mut made = vec![0; len];
        let slots = read.chunks_exact(usize::from(old_size));
        let slots = slots.zip(made.chunks_exact_mut(usize::from(new_size)));
        for (index, (raw, slot)) in indexes.clone().zip(slots) {
            let nr = self.old.inode_at(group, index);
            self.enlarge(nr, raw, slot, bit(bitmap, index))?;
        }
        Ok(self.volume.device.write_at(at(to, new_size), &made)?)
    }

    fn enlarge(&self, nr: InodeNr, raw: &[u8], slot: &mut [u8], is_used: bool) -> Result<()> {
        if raw.iter().all(|byte| *byte == 0) {
            return Ok(());
        }
        let mut inode = match Inode::parse(raw, nr, &self.old, &self.checksums) {
            Ok(inode) => inode,
            Err(corrupt) if is_used => return Err(corrupt.into()),
            // What a removed file left.
            Err(_) => return Ok(()),
        };
        let mut tail = inode.tail.to_vec();
        tail.resize(slot.len() - inode.tail_offset(), 0);
        inode.tail = tail[..].into();
        inode.write_to(slot, nr, &self.new, &self.checksums);
        Ok(())
    }

    /// Copies the journal's inode to its place in a table of old inodes.
    fn copy_journal_inode(&mut self, group: GroupNr, [from, to]: [BlockNr; 2]) -> Result<()> {
        let nr = InodeNr(self.volume.superblock.journal_inum);
        let found = self.old.split_inode(nr).filter(|found| found.0 == group);
        let Some((_, index)) = found else {
            return Ok(());
        };
        let (old_size, new_size) = (self.old.inode_size, self.new.inode_size);
        if index.is_multiple_of(u32::from(new_size / old_size)) {
            let problem = "its journal is in an inode where inodes of both sizes begin";
            return Err(Error::NotSupported(problem));
        }
        let (block, offset) = self.old.inode_location(from, index);
        let raw = self.volume.read(block)?;
        let raw = &raw[usize_of(offset)..][..usize::from(old_size)];
        let (block, offset) = self.old.inode_location(to, index);
        let without = self.volume.read(block)?;
        let mut with = without.clone();
        with[usize_of(offset)..][..usize::from(old_size)].copy_from_slice(raw);
        self.volume.write(block, &with)?;
        self.without_copy = Some((block, without));
        Ok(())
    }
}
