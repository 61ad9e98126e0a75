//! Blocks that repairs change, until they are written together.
//!
//! Reads see the changes. Checksums are made here, so that a repair only states values.

use super::space::Space;
use crate::state::{Check, Step};
use std::collections::{BTreeMap, HashSet};
use uext4_format::{BlockNr, Checksums, GroupDescriptor, GroupNr, Inode, InodeNr, Superblock};
use uext4_num::{clamp_usize, usize_of};

/// Changes of one round of repairs.
pub(crate) struct Patch<'c, 'a> {
    /// What the check has found out.
    pub(crate) check: &'c mut Check<'a>,
    /// The superblock to write.
    pub(crate) superblock: Superblock,
    pub(crate) blocks: BTreeMap<BlockNr, Vec<u8>>,
    /// Inodes with a finding, once they were asked for.
    pub(super) damaged: Option<HashSet<InodeNr>>,
    pub(super) space: Space,
}

impl<'c, 'a> Patch<'c, 'a> {
    pub(crate) fn new(check: &'c mut Check<'a>) -> Self {
        Self {
            superblock: check.superblock.clone(),
            space: Space::new(check.geometry.blocks_count),
            blocks: BTreeMap::new(),
            damaged: None,
            check,
        }
    }

    /// A block as it will be.
    pub(crate) fn read(&mut self, nr: BlockNr) -> Step<Vec<u8>> {
        match self.blocks.get(&nr) {
            Some(bytes) => Ok(bytes.clone()),
            None => self.check.read(nr),
        }
    }

    /// Changes a whole block.
    pub(crate) fn write(&mut self, nr: BlockNr, bytes: Vec<u8>) -> Step {
        if !self.blocks.contains_key(&nr) {
            self.check
                .take(u64::from(self.check.geometry.block_size()) + BLOCK_OVERHEAD_BYTES)?;
        }
        self.blocks.insert(nr, bytes);
        Ok(())
    }

    /// Changes bytes of the device, which lie in one block.
    pub(super) fn write_part(&mut self, byte: u64, part: &[u8]) -> Step {
        let block_size = self.check.block_bytes();
        let nr = BlockNr(byte / block_size);
        let at = clamp_usize(byte % block_size);
        let mut bytes = self.read(nr)?;
        if let Some(old) = bytes.get_mut(at..at + part.len()) {
            old.copy_from_slice(part);
        }
        self.write(nr, bytes)
    }

    /// The bytes of an inode; `None` if its group is damaged.
    pub(crate) fn inode_bytes(&mut self, nr: InodeNr) -> Step<Option<Vec<u8>>> {
        let Some(byte) = self.check.inode_byte(nr) else {
            return Ok(None);
        };
        let block_size = self.check.block_bytes();
        let block = self.read(BlockNr(byte / block_size))?;
        let at = clamp_usize(byte % block_size);
        let size = usize::from(self.check.geometry.inode_size);
        Ok(block.get(at..at + size).map(<[u8]>::to_vec))
    }

    /// An inode, whatever its checksum; `None` if its fields contradict each other.
    pub(crate) fn inode(&mut self, nr: InodeNr) -> Step<Option<Inode>> {
        let bytes = self.inode_bytes(nr)?;
        let geometry = &self.check.geometry;
        Ok(bytes.and_then(|bytes| Inode::parse(&bytes, nr, geometry, &Checksums::NONE).ok()))
    }

    /// Changes an inode, with its checksum.
    pub(crate) fn write_inode(&mut self, nr: InodeNr, inode: &Inode) -> Step {
        let mut bytes = vec![0; usize::from(self.check.geometry.inode_size)];
        inode.write_to(&mut bytes, nr, &self.check.geometry, &self.check.checksums);
        self.write_inode_bytes(nr, &bytes)
    }

    /// Changes all bytes of an inode.
    pub(crate) fn write_inode_bytes(&mut self, nr: InodeNr, bytes: &[u8]) -> Step {
        match self.check.inode_byte(nr) {
            Some(byte) => self.write_part(byte, bytes),
            None => Ok(()),
        }
    }

    /// Changes a descriptor, with its checksum.
    pub(crate) fn write_descriptor(&mut self, nr: GroupNr, descriptor: &GroupDescriptor) -> Step {
        let geometry = self.check.geometry;
        let mut bytes = vec![0; usize::from(geometry.desc_size)];
        descriptor.write_to(&mut bytes, nr, &geometry, &self.check.checksums);
        let (block, at) = geometry.descriptor_location(nr);
        self.write_part(block.0 * self.check.block_bytes() + u64::from(at), &bytes)
    }

    /// A descriptor as it will be, whatever its checksum.
    pub(crate) fn descriptor(&mut self, nr: GroupNr) -> Step<GroupDescriptor> {
        let (block, at) = self.check.geometry.descriptor_location(nr);
        let bytes = self.read(block)?;
        let size = usize::from(self.check.geometry.desc_size);
        let at = usize_of(at);
        let bytes = bytes.get(at..at + size).unwrap_or_default();
        Ok(GroupDescriptor::parse_unverified(bytes))
    }
}

/// Memory for each changed block beside its bytes.
const BLOCK_OVERHEAD_BYTES: u64 = 64;
