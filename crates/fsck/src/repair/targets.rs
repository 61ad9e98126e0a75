//! Repair of symbolic links: a size that is the length of the target, wherever that is.

use super::Outcome;
use super::inodes::PERMISSIONS;
use super::map_reader::only;
use super::patch::Patch;
use crate::inodes::{has_extent_header, inline_bytes};
use crate::state::Step;
use crate::symlinks::{inline_target, is_map_of_target, kept_of_encrypted, len_of};
use uext4_format::extent::{Extent, ExtentState};
use uext4_format::indirect::{ROOT_POINTERS, pointer};
use uext4_format::xattr::{XattrName, XattrValue, encode_ibody};
use uext4_format::{
    Feature, FileType, GroupNr, I_BLOCK_BYTES, Inode, InodeFlags, InodeNr, LogicalBlock,
    set_encrypted_target_bytes,
};
use uext4_num::{u64_of, usize_of};

impl Patch<'_, '_> {
    /// Whether an inode without extents is a symbolic link whose target is in the inode itself. Its
    /// size, which should say so, may be wrong.
    pub(super) fn is_fast_link(&self, inode: &Inode) -> bool {
        let len = target_len(inode, &inode.i_block);
        let has_rest = inode.i_block.iter().skip(len).any(|byte| *byte != 0);
        inode.file_type() == Some(FileType::Symlink)
            && !inode.flags.contains(InodeFlags::INLINE_DATA)
            && !has_extent_header(inode)
            && (1..I_BLOCK_BYTES).contains(&len)
            && !has_rest
            && !self.is_link_table(inode)
    }

    /// Whether a symbolic link without extents has blocks, and leads to them. Where its size says
    /// that the target is in the inode itself, one of the two is wrong.
    pub(super) fn is_link_table(&self, inode: &Inode) -> bool {
        let geometry = &self.check.geometry;
        let of_attributes = if inode.file_acl.0 == 0 {
            0
        } else {
            geometry.cluster_size() / 512
        };
        !inode.flags.contains(InodeFlags::EXTENTS)
            && !inode.flags.contains(InodeFlags::INLINE_DATA)
            && inode.sectors(geometry) > of_attributes
            && pointer(&inode.i_block, 0).0 != 0
            && (0..ROOT_POINTERS).all(|at| {
                let block = pointer(&inode.i_block, at);
                block.0 == 0 || self.check.may_map(&only(block))
            })
    }

    /// Whether the target of a symbolic link without extents is in the inode itself, by its size or
    /// by its bytes.
    fn is_inside(&self, inode: &Inode) -> bool {
        let is_short = inode.size < u64_of(I_BLOCK_BYTES) && !self.is_link_table(inode);
        is_short || self.is_fast_link(inode)
    }

    /// Sets the size of a symbolic link to the length of its target. One without a target is
    /// cleared.
    pub(super) fn repair_target(&mut self, nr: InodeNr, mut inode: Inode) -> Step<Outcome> {
        let is_inline = inode.flags.contains(InodeFlags::INLINE_DATA);
        if !is_inline && has_extent_header(&inode) {
            inode.flags.insert(InodeFlags::EXTENTS);
        }
        let is_encrypted = inode.flags.contains(InodeFlags::ENCRYPT);
        if is_inline && is_encrypted {
            // Where its target ends, it says itself.
            inode.size = inline_bytes(nr, &inode);
            self.write_inode(nr, &inode)?;
            return Ok(Outcome::Repaired);
        }
        if is_encrypted {
            return self.repair_encrypted_target(nr, inode);
        }
        let has_extents = inode.flags.contains(InodeFlags::EXTENTS);
        let len = if is_inline {
            let len = len_of(&inline_target(nr, &inode));
            if !self.cut_inline_target(nr, &mut inode, len) {
                return Ok(Outcome::Impossible);
            }
            len
        } else if !has_extents && self.is_fast_link(&inode) {
            target_len(&inode, &inode.i_block)
        } else {
            self.keep_target_block(nr, &mut inode)?
        };
        if len == 0 {
            return self.clear_inode(nr);
        }
        inode.size = u64_of(len);
        self.write_inode(nr, &inode)?;
        Ok(Outcome::Repaired)
    }

    /// Lets the attribute of inline data end where the target does. A short target needs none.
    fn cut_inline_target(&self, nr: InodeNr, inode: &mut Inode, len: usize) -> bool {
        let mut set = self.attributes_in(nr, &inode.tail);
        let name = XattrName::inline_data();
        if len < I_BLOCK_BYTES {
            inode.flags.remove(InodeFlags::INLINE_DATA);
            inode.i_block[len..].fill(0);
            if set.remove(&name).is_none() {
                return true;
            }
        } else if let Some(XattrValue::Here(value)) = set.get(&name) {
            let mut value = value.clone();
            value.truncate(len - I_BLOCK_BYTES);
            set.set(name, XattrValue::Here(value));
        }
        encode_ibody(&mut inode.tail, &set).is_ok()
    }

    /// Lets the size and the length at the start of an encrypted target say the same. If neither is
    /// possible, the link becomes a regular file with all bytes that may be its target.
    fn repair_encrypted_target(&mut self, nr: InodeNr, mut inode: Inode) -> Step<Outcome> {
        let has_extents = inode.flags.contains(InodeFlags::EXTENTS);
        if !has_extents && self.is_inside(&inode) {
            let Some(len) = kept_of_encrypted(&inode.i_block, inode.size) else {
                return self.replace_by_file(nr, inode, u64_of(I_BLOCK_BYTES));
            };
            set_encrypted_target_bytes(&mut inode.i_block, len);
            inode.size = u64_of(len);
            self.write_inode(nr, &inode)?;
            return Ok(Outcome::Repaired);
        }
        let extents = self.extents_of(nr, &inode)?;
        let Some(first) = extents.first().filter(|first| first.logical.0 == 0) else {
            return self.clear_inode(nr);
        };
        let mut target = self.read(first.start)?;
        let Some(len) = kept_of_encrypted(&target, inode.size) else {
            let end = extents.last().map_or(0, Extent::logical_end);
            return self.replace_by_file(nr, inode, end * self.check.block_bytes());
        };
        set_encrypted_target_bytes(&mut target, len);
        let mut only = *first;
        only.len = 1;
        let is_only = extents.len() == 1 && is_map_of_target(&inode);
        if len < I_BLOCK_BYTES {
            inode.flags.remove(InodeFlags::EXTENTS);
            inode.i_block = std::array::from_fn(|at| if at < len { target[at] } else { 0 });
        } else if is_only || self.set_map(nr, &mut inode, &[only])? {
            self.write(first.start, target)?;
        } else {
            return Ok(Outcome::Impossible);
        }
        inode.size = u64_of(len);
        self.write_inode(nr, &inode)?;
        Ok(Outcome::Repaired)
    }

    fn replace_by_file(&mut self, nr: InodeNr, mut inode: Inode, size: u64) -> Step<Outcome> {
        if !self.keep_as_file(nr, &mut inode)? {
            return Ok(Outcome::Impossible);
        }
        inode.flags.remove(InodeFlags::ENCRYPT);
        inode.size = size;
        self.write_inode(nr, &inode)?;
        Ok(Outcome::Repaired)
    }

    /// Lets a symbolic link whose target cannot be told from encrypted bytes be a regular file that
    /// holds them; false if there is no space.
    pub(super) fn keep_as_file(&mut self, nr: InodeNr, inode: &mut Inode) -> Step<bool> {
        let geometry = self.check.geometry;
        let is_inside = !inode.flags.contains(InodeFlags::EXTENTS) && self.is_inside(inode);
        if !inode.flags.contains(InodeFlags::INLINE_DATA) && is_inside {
            let group = geometry.split_inode(nr).map_or(GroupNr(0), |place| place.0);
            let Some(block) = self.allocate(geometry.group_first_block(group))? else {
                return Ok(false);
            };
            let mut bytes = vec![0; usize_of(geometry.block_size())];
            bytes[..I_BLOCK_BYTES].copy_from_slice(&inode.i_block);
            if geometry.features.has(Feature::EXTENTS) {
                inode.flags.insert(InodeFlags::EXTENTS);
            }
            let extent = Extent {
                logical: LogicalBlock(0),
                start: block,
                len: 1,
                state: ExtentState::Written,
            };
            let sectors = inode.sectors(&geometry) + geometry.cluster_size() / 512;
            if !self.set_map(nr, inode, &[extent])?
                || inode.set_sectors(sectors, &geometry).is_err()
            {
                return Ok(false);
            }
            inode.size = inode.size.min(u64_of(I_BLOCK_BYTES));
            self.write_new(block, bytes)?;
        }
        inode.mode = FileType::Regular.mode_bits() | inode.mode & PERMISSIONS;
        Ok(true)
    }

    /// The length of a target in a block, which becomes the only block of the link; 0 if there is
    /// none. A short one moves into the inode.
    fn keep_target_block(&mut self, nr: InodeNr, inode: &mut Inode) -> Step<usize> {
        let extents = self.extents_of(nr, inode)?;
        let Some(first) = extents.first().filter(|first| first.logical.0 == 0) else {
            return Ok(0);
        };
        let target = self.read(first.start)?;
        let len = target_len(inode, &target);
        if len >= target.len() {
            return Ok(0);
        }
        if len < I_BLOCK_BYTES {
            inode.flags.remove(InodeFlags::EXTENTS);
            inode.i_block = std::array::from_fn(|at| if at < len { target[at] } else { 0 });
            return Ok(len);
        }
        let mut only = *first;
        only.len = 1;
        let is_only = extents.len() == 1 && is_map_of_target(inode);
        if !is_only && !self.set_map(nr, inode, &[only])? {
            return Ok(0);
        }
        Ok(len)
    }
}

/// Bytes of a target at the start of these; all of them if none ends there.
fn target_len(inode: &Inode, bytes: &[u8]) -> usize {
    if inode.flags.contains(InodeFlags::ENCRYPT) {
        kept_of_encrypted(bytes, inode.size).unwrap_or(bytes.len())
    } else {
        len_of(bytes)
    }
}
