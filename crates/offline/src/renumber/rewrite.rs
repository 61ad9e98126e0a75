//! Changes the blocks of one transaction.

use super::Renumbered;
use super::batch::{Batch, Holds};
use super::references::Owner;
use crate::bitmaps::{block_bitmap, inode_bitmap, put_bitmap};
use crate::changes::Changes;
use crate::descriptors::Descriptors;
use std::collections::BTreeSet;
use uext4_format::bitmap::{clear_bits, set_bits};
use uext4_format::dirent::{renumber, seal_block, verify_block};
use uext4_format::extent::ExtentNode;
use uext4_format::inline_data::{self, PARENT_BYTES, ROOT_BYTES};
use uext4_format::orphan_file::{seal_orphan_block, verify_orphan_block};
use uext4_format::xattr::{
    Area, XattrBlock, XattrName, XattrValue, decode_ibody, encode_ibody, renumber_values,
};
use uext4_format::{
    BlockNr, Checksums, Corrupt, CorruptKind, DamageLocation, FileType, Full, Geometry, GroupNr,
    Inode, InodeFlags, InodeNr, group_flag, inode_bitmap_checksum,
};
use uext4_volume::Result;
use uext4_volume::Volume;

impl Batch {
    /// Makes the change.
    ///
    /// # Errors
    /// Those of the device; damage.
    pub(super) fn run(self, volume: &mut Volume) -> Result<()> {
        let mut disk = volume.superblock().clone();
        self.numbers.apply(&mut disk);
        let mut work = Work {
            volume,
            geometry: *volume.geometry(),
            checksums: volume.superblock().checksums(),
            descriptors: Descriptors::read(volume)?,
            changes: Changes::new(volume),
            numbers: &self.numbers,
        };
        for (block, (owner, holds)) in &self.owned {
            work.owned(*block, *owner, *holds)?;
        }
        for block in &self.values {
            work.values(*block)?;
        }
        let moved = self.numbers.iter().map(|pair| pair.0);
        let inodes: BTreeSet<InodeNr> = self.inodes.iter().copied().chain(moved).collect();
        for nr in inodes {
            work.inode(nr)?;
        }
        work.descriptors.put_primary(&mut work.changes)?;
        let blocks = work.changes.into_blocks();
        volume.change(blocks, disk)
    }
}

struct Work<'a> {
    volume: &'a Volume,
    geometry: Geometry,
    checksums: Checksums,
    descriptors: Descriptors,
    changes: Changes<'a>,
    numbers: &'a Renumbered,
}

impl Work<'_> {
    /// A block whose checksum begins with the number of its inode, or with entries.
    fn owned(&mut self, nr: BlockNr, owner: Owner, holds: Holds) -> Result<()> {
        let seed = |nr| self.checksums.inode_seed(nr, owner.generation);
        let (old, new) = (seed(owner.nr), seed(self.numbers.now(owner.nr)));
        let place = DamageLocation::InodeBlock(owner.nr, nr);
        let mut bytes = self.volume.read(nr)?;
        match holds {
            Holds::TreeNode => {
                let mut node = ExtentNode::new(&mut bytes[..]);
                old.map_or(Ok(()), |seed| node.verify_checksum(seed, place))?;
                if let Some(seed) = new {
                    node.update_checksum(seed);
                }
            }
            Holds::Orphans => {
                verify_orphan_block(&bytes, nr, old)?;
                seal_orphan_block(&mut bytes, nr, new);
            }
            Holds::Entries => {
                old.map_or(Ok(()), |seed| verify_block(&bytes, seed, place))?;
                let (block_size, numbers) = (bytes.len(), self.numbers);
                renumber(&mut bytes, block_size, place, |nr| numbers.new_number(nr))?;
                if let Some(seed) = new {
                    seal_block(&mut bytes, seed);
                }
            }
        }
        self.changes.put(nr, bytes)
    }

    /// A block of attributes, whose checksum has the seed of the file system.
    fn values(&mut self, nr: BlockNr) -> Result<()> {
        let mut bytes = self.volume.read(nr)?;
        if let Some(seed) = self.checksums.metadata {
            XattrBlock::new(&bytes[..]).verify_checksum(seed, nr)?;
        }
        renumber_values(&mut bytes, Area::InBlock, |nr| self.numbers.new_number(nr));
        if let Some(seed) = self.checksums.metadata {
            XattrBlock::new(&mut bytes[..]).update_checksum(seed, nr);
        }
        self.changes.put(nr, bytes)
    }

    /// An inode, which changes, and may move.
    fn inode(&mut self, nr: InodeNr) -> Result<()> {
        let (block, at) = self.descriptors.inode_position(nr)?;
        let mut bytes = self.changes.get(block)?;
        let mut inode = Inode::parse(&bytes[at..], nr, &self.geometry, &self.checksums)?;
        self.change(nr, &mut inode)?;
        let new = self.numbers.now(nr);
        if new == nr {
            inode.write_to(&mut bytes[at..], nr, &self.geometry, &self.checksums);
            return self.changes.put(block, bytes);
        }
        bytes[at..at + usize::from(self.geometry.inode_size)].fill(0);
        self.changes.put(block, bytes)?;
        let is_directory = inode.file_type() == Some(FileType::Directory);
        self.free(nr, is_directory)?;
        let is_first_use = self.take(new, is_directory)?;
        let (block, at) = self.descriptors.inode_position(new)?;
        let mut bytes = self.changes.get(block)?;
        if is_first_use {
            bytes[at..].fill(0);
        }
        inode.write_to(&mut bytes[at..], new, &self.geometry, &self.checksums);
        self.changes.put(block, bytes)
    }

    fn change(&self, nr: InodeNr, inode: &mut Inode) -> Result<()> {
        let numbers = self.numbers;
        renumber_values(&mut inode.tail, Area::InInode, |nr| numbers.new_number(nr));
        let is_directory = inode.file_type() == Some(FileType::Directory);
        if is_directory && inode.flags.contains(InodeFlags::INLINE_DATA) {
            let parent = inline_data::parent(&inode.i_block);
            inline_data::set_parent(&mut inode.i_block, numbers.now(parent));
            inline_entries(nr, inode, &mut |nr| numbers.new_number(nr))?;
        }
        Ok(())
    }

    fn free(&mut self, nr: InodeNr, is_directory: bool) -> Result<()> {
        let (group, index) = self.split(nr)?;
        let mut descriptor = self.descriptors.get(group)?;
        descriptor.free_inodes += 1;
        descriptor.used_dirs = descriptor.used_dirs.saturating_sub(u32::from(is_directory));
        self.descriptors.set(group, &descriptor);
        self.put_bit(group, |bitmap| clear_bits(bitmap, index, index + 1))
    }

    /// Takes a number; returns whether the table has none in use from there on.
    fn take(&mut self, nr: InodeNr, is_directory: bool) -> Result<bool> {
        let (group, index) = self.split(nr)?;
        let mut descriptor = self.descriptors.get(group)?;
        let unused = self.geometry.inodes_per_group - index - 1;
        let is_first_use = descriptor.itable_unused > unused;
        descriptor.itable_unused = descriptor.itable_unused.min(unused);
        descriptor.free_inodes = descriptor.free_inodes.saturating_sub(1);
        descriptor.used_dirs += u32::from(is_directory);
        self.descriptors.set(group, &descriptor);
        self.put_bit(group, |bitmap| set_bits(bitmap, index, index + 1))?;
        self.write_block_bitmap(group)?;
        Ok(is_first_use)
    }

    fn split(&self, nr: InodeNr) -> Result<(GroupNr, u32)> {
        let outside = Corrupt::new(DamageLocation::Inode(nr), "inode", CorruptKind::NotInUse);
        Ok(self.geometry.split_inode(nr).ok_or(outside)?)
    }

    fn put_bit(&mut self, group: GroupNr, change: impl FnOnce(&mut [u8])) -> Result<()> {
        let mut descriptor = self.descriptors.get(group)?;
        // The descriptor of a changed bitmap has the checksum of that one.
        let mut bitmap = if self.changes.has(descriptor.inode_bitmap) {
            self.changes.get(descriptor.inode_bitmap)?
        } else {
            inode_bitmap(self.volume, &descriptor, group)?
        };
        change(&mut bitmap);
        descriptor.flags &= !group_flag::INODE_UNINIT;
        if let Some(seed) = self.checksums.metadata {
            let checksum = inode_bitmap_checksum(seed, &bitmap, &self.geometry);
            descriptor.set_inode_bitmap_checksum(checksum, &self.geometry);
        }
        self.descriptors.set(group, &descriptor);
        self.changes.put(descriptor.inode_bitmap, bitmap)
    }

    /// Writes the block bitmap of a group with inodes in use, as the kernel does.
    fn write_block_bitmap(&mut self, group: GroupNr) -> Result<()> {
        let descriptor = self.descriptors.get(group)?;
        if !descriptor.has_flag(group_flag::BLOCK_UNINIT) {
            return Ok(());
        }
        let bitmap = block_bitmap(self.volume, &descriptor, group)?;
        let nr = put_bitmap(&mut self.descriptors, self.volume, group, &bitmap)?;
        self.changes.put(nr, bitmap)
    }
}

/// Replaces the inodes of the entries of an inline directory, without its parent.
///
/// # Errors
/// Damage.
pub(super) fn inline_entries(
    nr: InodeNr,
    inode: &mut Inode,
    new: &mut dyn FnMut(InodeNr) -> Option<InodeNr>,
) -> Result<()> {
    let place = DamageLocation::Inode(nr);
    renumber(
        &mut inode.i_block[PARENT_BYTES..],
        ROOT_BYTES,
        place,
        &mut *new,
    )?;
    let mut set = decode_ibody(&inode.tail, place)?;
    let Some(XattrValue::Here(mut value)) = set.get(&XattrName::inline_data()).cloned() else {
        return Ok(());
    };
    if renumber(&mut value, ROOT_BYTES, place, &mut *new)? > 0 {
        set.set(XattrName::inline_data(), XattrValue::Here(value));
        let encoded = encode_ibody(&mut inode.tail, &set);
        encoded.map_err(|Full| Corrupt::new(place, "inline directory", CorruptKind::SizeWrong))?;
    }
    Ok(())
}
