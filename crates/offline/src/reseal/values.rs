//! Hashes of values in inodes (`ea_inode`): they begin with the seed of the file system, also
//! without checksums. The hash of a value is in its inode, and part of the hashes of all entries
//! and attribute blocks that refer to it.

use super::Work;
use uext4_format::xattr::{
    Area, EaInodeFields, VALUE_MAX_BYTES, rehash_values, renumber_values, value_hash,
};
use uext4_format::{Corrupt, CorruptKind, DamageLocation, Inode, InodeFlags, InodeNr, Seed};
use uext4_num::{clamp_usize, u64_of};
use uext4_volume::FileMap;
use uext4_volume::Result;

/// The seeds, if they differ and there can be values in inodes.
#[derive(Clone, Copy)]
pub(super) struct Seeds {
    pub(super) old: Seed,
    pub(super) new: Seed,
}

impl Work<'_> {
    /// Hashes in an inode: its own if it holds a value, and those of its entries.
    pub(super) fn rehash_inode(&mut self, nr: InodeNr, inode: &mut Inode) -> Result<()> {
        if self.seeds.is_none() {
            return Ok(());
        }
        if inode.flags.contains(InodeFlags::EA_INODE)
            && let Some(hash) = self.new_hash(nr)?
        {
            let fields = EaInodeFields::of(inode);
            EaInodeFields { hash, ..fields }.store(inode);
        }
        self.rehash_entries(&mut inode.tail, Area::InInode)
    }

    /// Hashes of the entries of an area, which has been decoded or verified before.
    pub(super) fn rehash_entries(&mut self, bytes: &mut [u8], area: Area) -> Result<()> {
        if self.seeds.is_none() {
            return Ok(());
        }
        let mut values = Vec::new();
        renumber_values(bytes, area, |nr| {
            values.push(nr);
            None
        });
        for nr in &values {
            self.new_hash(*nr)?;
        }
        let known = &self.value_hashes;
        rehash_values(bytes, area, |nr| known.get(&nr).copied().flatten());
        Ok(())
    }

    /// The hash of a value with the new seed; `None` if it has no hash, as the values of Lustre.
    fn new_hash(&mut self, nr: InodeNr) -> Result<Option<u32>> {
        let Some(seeds) = self.seeds else {
            return Ok(None);
        };
        if let Some(known) = self.value_hashes.get(&nr) {
            return Ok(*known);
        }
        let damaged = |problem| Corrupt::new(DamageLocation::Inode(nr), "value inode", problem);
        if !self.geometry.contains_inode(nr) {
            return Err(damaged(CorruptKind::NumberRange).into());
        }
        let (block, at) = self.descriptors.inode_position(nr)?;
        let bytes = self.volume.read(block)?;
        let inode = Inode::parse(&bytes[at..], nr, &self.geometry, &self.old)?;
        if !inode.flags.contains(InodeFlags::EA_INODE) {
            return Err(damaged(CorruptKind::HoldsNoValue).into());
        }
        let fields = EaInodeFields::of(&inode);
        let hash = if fields.hash == 0 && fields.refcount == 0 {
            None
        } else {
            let value = self.value(nr, &inode)?;
            if value_hash(seeds.old, &value) != fields.hash {
                return Err(damaged(CorruptKind::ValueHash).into());
            }
            Some(value_hash(seeds.new, &value))
        };
        self.value_hashes.insert(nr, hash);
        Ok(hash)
    }

    fn value(&self, nr: InodeNr, inode: &Inode) -> Result<Vec<u8>> {
        let damaged = |problem| Corrupt::new(DamageLocation::Inode(nr), "value inode", problem);
        let size = clamp_usize(inode.size);
        if size > VALUE_MAX_BYTES {
            return Err(damaged(CorruptKind::ValueSize).into());
        }
        let (mut value, bits) = (Vec::new(), self.geometry.block_bits);
        for extent in FileMap::read(self.volume, nr, inode)?.extents {
            if u64::from(extent.logical.0) << bits != u64_of(value.len()) {
                return Err(damaged(CorruptKind::ValueHole).into());
            }
            let len = size.saturating_sub(value.len());
            let mut bytes = vec![0; len.min(usize::from(extent.len) << bits)];
            self.volume
                .device()
                .read_at(extent.start.0 << bits, &mut bytes)?;
            value.append(&mut bytes);
            if value.len() == size {
                return Ok(value);
            }
        }
        if value.len() == size {
            Ok(value)
        } else {
            Err(damaged(CorruptKind::ValueHole).into())
        }
    }
}
