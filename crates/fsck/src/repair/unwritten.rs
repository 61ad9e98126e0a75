//! Inodes in parts of tables that descriptors wrongly say were never written.

use super::patch::Patch;
use crate::slots::written_inodes;
use crate::state::Step;
use uext4_format::{GroupDescriptor, GroupNr, InodeNr, RawInode, group_flag};
use uext4_num::usize_of;

impl Patch<'_, '_> {
    /// Lets all of the table that has an inode count as written, if the inode is in its unwritten
    /// part, and in use; false if not.
    pub(super) fn write_table_of(&mut self, nr: InodeNr) -> Step<bool> {
        let geometry = self.check.geometry;
        let (Some((group, index)), Some(bytes)) = (geometry.split_inode(nr), self.inode_bytes(nr)?)
        else {
            return Ok(false);
        };
        let descriptor = self.descriptor(group)?;
        let is_unwritten = index >= written_inodes(&descriptor, &geometry);
        if !is_unwritten || RawInode(&bytes).links() == 0 {
            return Ok(false);
        }
        self.write_table(group, descriptor)?;
        Ok(true)
    }

    /// As [`Self::write_table_of`]. True as well if that part counts as written since this round
    /// began: then the next round is the first to read the inode.
    pub(super) fn will_be_read(&mut self, nr: InodeNr) -> Step<bool> {
        let geometry = self.check.geometry;
        let (Some((group, index)), Some(bytes)) = (geometry.split_inode(nr), self.inode_bytes(nr)?)
        else {
            return Ok(false);
        };
        let descriptor = self.check.descriptors.get(usize_of(group.0));
        let was_unwritten = descriptor
            .and_then(Option::as_ref)
            .is_some_and(|descriptor| index >= written_inodes(descriptor, &geometry));
        if !was_unwritten || RawInode(&bytes).links() == 0 {
            return Ok(false);
        }
        self.write_table_of(nr)?;
        Ok(true)
    }

    /// The same for a group without a written table, if its bitmap is sound and has as many inodes
    /// in use as the descriptor says.
    pub(super) fn write_table_in_use(&mut self, group: GroupNr) -> Step<bool> {
        let geometry = self.check.geometry;
        let per_group = geometry.inodes_per_group;
        let descriptor = self.descriptor(group)?;
        if !descriptor.has_flag(group_flag::INODE_UNINIT) || descriptor.free_inodes >= per_group {
            return Ok(false);
        }
        let bitmap = self.read(descriptor.inode_bitmap)?;
        let checksums = &self.check.checksums;
        let sound = descriptor.verify_inode_bitmap(&bitmap, group, &geometry, checksums);
        let bytes = bitmap.get(..usize_of(per_group / 8)).unwrap_or_default();
        let free: u32 = bytes.iter().map(|byte| byte.count_zeros()).sum();
        if sound.is_err() || free != descriptor.free_inodes {
            return Ok(false);
        }
        self.write_table(group, descriptor)?;
        Ok(true)
    }

    fn write_table(&mut self, group: GroupNr, mut descriptor: GroupDescriptor) -> Step {
        descriptor.flags &= !group_flag::INODE_UNINIT;
        descriptor.itable_unused = 0;
        self.write_descriptor(group, &descriptor)
    }
}
