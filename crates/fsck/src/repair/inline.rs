//! Repair of inline data whose attribute is missing.

use super::Outcome;
use super::patch::Patch;
use crate::inodes::{has_extent_header, inline_bytes};
use crate::state::Step;
use crate::symlinks::len_of;
use uext4_format::xattr::{XattrName, XattrValue, encode_ibody};
use uext4_format::{
    FileType, GOOD_OLD_INODE_BYTES, I_BLOCK_BYTES, Inode, InodeFlags, InodeNr, KNOWN_EXTRA_BYTES,
};
use uext4_num::u64_of;

impl Patch<'_, '_> {
    /// An inode with a map, or a link with its target in it, loses the flag. Another one gets the
    /// attribute, and the size of what is there.
    pub(super) fn repair_inline(&mut self, nr: InodeNr) -> Step<Outcome> {
        let Some(mut inode) = self.inode(nr)? else {
            return Ok(Outcome::Impossible);
        };
        if has_no_inline_data(&inode) {
            inode.flags.remove(InodeFlags::INLINE_DATA);
            if has_extent_header(&inode) {
                inode.flags.insert(InodeFlags::EXTENTS);
            }
            self.write_inode(nr, &inode)?;
            return Ok(Outcome::Repaired);
        }
        let mut set = self.attributes_in(nr, &inode.tail);
        if inode.extra_isize == 0 {
            // Without extra fields no attributes of an inode are read.
            let room = usize::from(self.check.geometry.inode_size) - GOOD_OLD_INODE_BYTES;
            let rest = room.saturating_sub(KNOWN_EXTRA_BYTES.into());
            inode.set_extra_isize(KNOWN_EXTRA_BYTES, &vec![0; rest]);
        }
        let name = XattrName::inline_data();
        if set.get(&name).is_none() {
            set.set(name, XattrValue::Here(Vec::new()));
        }
        if encode_ibody(&mut inode.tail, &set).is_err() {
            return Ok(Outcome::Impossible);
        }
        let there = inline_bytes(nr, &inode);
        inode.size = match inode.file_type() {
            Some(FileType::Directory) => there,
            _ => inode.size.min(there),
        };
        self.write_inode(nr, &inode)?;
        Ok(Outcome::Repaired)
    }
}

/// Whether the bytes in an inode are the root of a map, a target, or nothing.
fn has_no_inline_data(inode: &Inode) -> bool {
    let has_root = has_extent_header(inode);
    let is_empty = inode.size == 0 && inode.i_block == [0; I_BLOCK_BYTES];
    let len = len_of(&inode.i_block);
    let is_link = inode.file_type() == Some(FileType::Symlink)
        && len < I_BLOCK_BYTES
        && u64_of(len) == inode.size;
    has_root || is_empty || is_link
}
