//! Repair of bitmaps and of the counts in descriptors, from what the passes have found in use.

use super::Outcome;
use super::patch::Patch;
use crate::state::Step;
use uext4_format::superblock::state;
use uext4_format::{
    DamageLocation, FileType, GroupNr, InodeNr, RawInode, block_bitmap_checksum, group_flag,
    inode_bitmap_checksum,
};
use uext4_num::usize_of;

impl Patch<'_, '_> {
    /// Marks the inodes in use, counts them, and lets the unused part of the table begin behind the
    /// last one.
    pub(super) fn repair_inode_bitmap(&mut self, group: GroupNr) -> Step<Outcome> {
        if self.write_table_in_use(group)? {
            return Ok(Outcome::Repaired);
        }
        let geometry = self.check.geometry;
        let per_group = geometry.inodes_per_group;
        let mut descriptor = self.descriptor(group)?;
        let mut bits = Bitmap::new(usize_of(geometry.block_size()));
        let mut directories = 0;
        for index in 0..per_group {
            let nr = geometry.inode_at(group, index);
            if self.is_in_use(nr)? {
                bits.set(index);
            }
            let kind = self.check.links.kind(nr);
            directories += u32::from(kind == Some(FileType::Directory));
        }
        let used = bits.count(per_group);
        descriptor.free_inodes = per_group - used;
        descriptor.used_dirs = directories;
        if descriptor.itable_unused != 0 || descriptor.has_flag(group_flag::INODE_UNINIT) {
            descriptor.itable_unused = per_group - bits.last(per_group);
        }
        if used > 0 {
            descriptor.flags &= !group_flag::INODE_UNINIT;
        }
        if !descriptor.has_flag(group_flag::INODE_UNINIT) {
            let bytes = bits.padded(per_group);
            if let Some(seed) = self.check.checksums.metadata {
                let checksum = inode_bitmap_checksum(seed, &bytes, &geometry);
                descriptor.set_inode_bitmap_checksum(checksum, &geometry);
            }
            self.write(descriptor.inode_bitmap, bytes)?;
        }
        self.write_descriptor(group, &descriptor)?;
        Ok(Outcome::Repaired)
    }

    /// An inode that a person left damaged stays in use as long as it has links.
    fn is_in_use(&mut self, nr: InodeNr) -> Step<bool> {
        if self.check.is_reserved(nr) {
            return Ok(true);
        }
        if let Some(kind) = self.check.links.kind(nr) {
            let is_linked = self.check.links.wanted(nr) != 0 || self.check.is_orphan(nr);
            return Ok(is_linked || self.revive(nr, kind)?);
        }
        if !self.is_left(nr) {
            return Ok(false);
        }
        let bytes = self.inode_bytes(nr)?;
        Ok(bytes.is_some_and(|bytes| RawInode(&bytes).links() != 0))
    }

    /// Gives links to an inode without any that was deleted at no time; false if it was deleted.
    /// Like a mount, it cannot tell after errors, when no orphans are freed.
    fn revive(&mut self, nr: InodeNr, kind: FileType) -> Step<bool> {
        let Some(mut inode) = self.inode(nr)? else {
            return Ok(false);
        };
        if inode.dtime != 0 || self.superblock.state & state::ERROR != 0 {
            return Ok(false);
        }
        inode.links = if kind == FileType::Directory { 2 } else { 1 };
        self.write_inode(nr, &inode)?;
        Ok(true)
    }

    /// Whether the inode has a finding.
    pub(super) fn is_left(&mut self, nr: InodeNr) -> bool {
        let findings = &self.check.report.findings;
        let damaged = self.damaged.get_or_insert_with(|| {
            let numbers = findings
                .iter()
                .filter_map(|finding| match finding.corrupt.place {
                    DamageLocation::Inode(at) | DamageLocation::InodeBlock(at, _) => Some(at),
                    _ => None,
                });
            numbers.collect()
        });
        damaged.contains(&nr)
    }

    /// Marks the clusters in use, and counts them. A group without a bitmap gets one.
    pub(super) fn repair_block_bitmap(&mut self, group: GroupNr) -> Step<Outcome> {
        let geometry = self.check.geometry;
        let len = geometry.clusters_in_group(group);
        let start = geometry.group_first_block(group).0;
        let first = self.check.clusters(start..start + 1).start;
        let mut descriptor = self.descriptor(group)?;
        let mut bits = Bitmap::new(usize_of(geometry.block_size()));
        for at in 0..len {
            if self.check.claimed.has(first + u64::from(at)) {
                bits.set(at);
            }
        }
        descriptor.free_clusters = len - bits.count(len);
        descriptor.flags &= !group_flag::BLOCK_UNINIT;
        let bytes = bits.padded(len);
        if let Some(seed) = self.check.checksums.metadata {
            let checksum = block_bitmap_checksum(seed, &bytes, &geometry);
            descriptor.set_block_bitmap_checksum(checksum, &geometry);
        }
        self.write(descriptor.block_bitmap, bytes)?;
        self.write_descriptor(group, &descriptor)?;
        Ok(Outcome::Repaired)
    }
}

/// The block of a bitmap.
struct Bitmap(Vec<u8>);

impl Bitmap {
    fn new(bytes: usize) -> Self {
        Self(vec![0; bytes])
    }

    fn set(&mut self, bit: u32) {
        if let Some(byte) = self.0.get_mut(usize_of(bit / 8)) {
            *byte |= 1 << (bit % 8);
        }
    }

    fn has(&self, bit: u32) -> bool {
        let byte = self.0.get(usize_of(bit / 8));
        byte.is_some_and(|byte| byte & 1 << (bit % 8) != 0)
    }

    /// Set bits below `len`.
    fn count(&self, len: u32) -> u32 {
        let whole = self.0.iter().take(usize_of(len / 8));
        let rest = (len / 8 * 8..len).filter(|bit| self.has(*bit)).count();
        whole.map(|byte| byte.count_ones()).sum::<u32>() + uext4_num::clamp_u32(rest)
    }

    /// One behind the last set bit below `len`.
    fn last(&self, len: u32) -> u32 {
        (0..len)
            .rev()
            .find(|bit| self.has(*bit))
            .map_or(0, |bit| bit + 1)
    }

    /// The bytes, with all bits from `len` on set.
    fn padded(mut self, len: u32) -> Vec<u8> {
        let bits = uext4_num::clamp_u32(self.0.len()).saturating_mul(8);
        for bit in len..bits {
            self.set(bit);
        }
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_behind_the_end_are_set_and_not_counted() {
        let mut bits = Bitmap::new(4);
        bits.set(0);
        bits.set(12);
        assert_eq!((bits.count(13), bits.count(12), bits.last(32)), (2, 1, 13));
        assert_eq!(bits.padded(13), [0x01, 0xF0, 0xFF, 0xFF]);
    }
}
