//! Repair of symbolic links: a size that is the length of the target, wherever that is.

use super::Outcome;
use super::map_reader::only;
use super::patch::Patch;
use crate::inodes::has_extent_header;
use crate::state::Step;
use crate::symlinks::{inline_target, len_of, len_of_encrypted};
use uext4_format::indirect::{ROOT_POINTERS, pointer};
use uext4_format::{FileType, I_BLOCK_BYTES, Inode, InodeFlags, InodeNr};
use uext4_num::u64_of;

impl Patch<'_, '_> {
    /// Whether an inode without extents is a symbolic link whose target is in the inode itself. Its
    /// size, which should say so, may be wrong.
    pub(super) fn is_fast_link(&self, inode: &Inode) -> bool {
        let len = target_len(inode, &inode.i_block);
        let has_rest = inode.i_block.iter().skip(len).any(|byte| *byte != 0);
        let is_table = inode.sectors(&self.check.geometry) != 0
            && (0..ROOT_POINTERS).all(|at| {
                let block = pointer(&inode.i_block, at);
                block.0 == 0 || self.check.may_map(&only(block))
            });
        inode.file_type() == Some(FileType::Symlink)
            && !inode.flags.contains(InodeFlags::INLINE_DATA)
            && !has_extent_header(inode)
            && (1..I_BLOCK_BYTES).contains(&len)
            && !has_rest
            && !is_table
    }

    /// Sets the size of a symbolic link to the length of its target. One without a target is
    /// cleared.
    pub(super) fn repair_target(&mut self, nr: InodeNr, mut inode: Inode) -> Step<Outcome> {
        let is_inline = inode.flags.contains(InodeFlags::INLINE_DATA);
        if !is_inline && has_extent_header(&inode) {
            inode.flags.insert(InodeFlags::EXTENTS);
        }
        let has_extents = inode.flags.contains(InodeFlags::EXTENTS);
        let len = if is_inline {
            len_of(&inline_target(nr, &inode))
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
        let is_only = extents.len() == 1 && first.len == 1;
        if !is_only && !self.set_map(nr, inode, &[only])? {
            return Ok(0);
        }
        Ok(len)
    }
}

/// Bytes of a target at the start of these; all of them if none ends there.
fn target_len(inode: &Inode, bytes: &[u8]) -> usize {
    if inode.flags.contains(InodeFlags::ENCRYPT) {
        len_of_encrypted(bytes)
    } else {
        len_of(bytes)
    }
}
