//! Check of symbolic link targets.

use super::maps::Mapped;
use crate::inodes::inline_bytes;
use crate::state::{Check, Step};
use uext4_format::extent::ExtentNode;
use uext4_format::indirect::{ROOT_POINTERS, pointer};
use uext4_format::xattr::{XattrName, XattrValue, decode_ibody};
use uext4_format::{
    CorruptKind, DamageLocation, I_BLOCK_BYTES, Inode, InodeFlags, InodeNr, encrypted_target_bytes,
};
use uext4_num::u64_of;

/// Bytes of the length at the start of an encrypted target.
const LENGTH_BYTES: usize = 2;

impl Check<'_> {
    /// Checks a target. `mapped` is the link's map; `None` for a target in the inode itself.
    pub(crate) fn check_symlink(
        &mut self,
        nr: InodeNr,
        inode: &Inode,
        mapped: Option<&Mapped>,
    ) -> Step {
        let size = usize::try_from(inode.size).unwrap_or(usize::MAX);
        let is_encrypted = inode.flags.contains(InodeFlags::ENCRYPT);
        let len_of = if is_encrypted {
            len_of_encrypted
        } else {
            len_of
        };
        let is_sound = if inode.flags.contains(InodeFlags::INLINE_DATA) {
            let is_target = is_encrypted || len_of(&inline_target(nr, inode)) == size;
            inode.size == inline_bytes(nr, inode) && is_target
        } else if mapped.is_none() {
            size < I_BLOCK_BYTES && size != 0 && len_of(&inode.i_block) == size
        } else {
            self.is_block_sound(nr, inode, size, len_of)?
        };
        if !is_sound {
            let problem = CorruptKind::TargetLength;
            self.add_problem(DamageLocation::Inode(nr), "symbolic link", problem);
        }
        Ok(())
    }

    fn is_block_sound(
        &mut self,
        nr: InodeNr,
        inode: &Inode,
        size: usize,
        len_of: fn(&[u8]) -> usize,
    ) -> Step<bool> {
        let blocks = self.blocks_of(nr, inode)?;
        self.give_back(u64_of(blocks.len()) * 16);
        let Some(&(0, block)) = blocks.first() else {
            return Ok(false);
        };
        let target = self.read(block)?;
        // A shorter target has its place in the inode.
        let is_long = (I_BLOCK_BYTES..target.len()).contains(&size);
        Ok(blocks.len() == 1 && is_map_of_target(inode) && is_long && len_of(&target) == size)
    }
}

/// Whether a map is of one block, without nodes or tables: no other one is read of a link.
pub(crate) fn is_map_of_target(inode: &Inode) -> bool {
    if !inode.flags.contains(InodeFlags::EXTENTS) {
        return (1..ROOT_POINTERS).all(|at| pointer(&inode.i_block, at).0 == 0);
    }
    let root = ExtentNode::new(&inode.i_block[..]);
    let is_leaf = root.depth() == 0 && root.count() == 1;
    is_leaf && root.extents().next().is_some_and(|extent| extent.len == 1)
}

/// Bytes before the first zero.
pub(crate) fn len_of(bytes: &[u8]) -> usize {
    let end = bytes.iter().position(|byte| *byte == 0);
    end.unwrap_or(bytes.len())
}

/// Bytes of an encrypted target, which begins with its length; all of them if that is impossible.
fn len_of_encrypted(bytes: &[u8]) -> usize {
    let end = encrypted_target_bytes(bytes);
    if (LENGTH_BYTES + 1..bytes.len()).contains(&end) {
        end
    } else {
        bytes.len()
    }
}

/// Bytes of an encrypted target by its size or by the length at its start, of which one may be
/// wrong: the least one with only zeroes behind it.
pub(crate) fn kept_of_encrypted(bytes: &[u8], size: u64) -> Option<usize> {
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    let ends = [size, encrypted_target_bytes(bytes)].into_iter();
    ends.filter(|end| {
        let is_inside = (LENGTH_BYTES + 1..bytes.len()).contains(end);
        is_inside && bytes.iter().skip(*end).all(|byte| *byte == 0)
    })
    .min()
}

/// The target of a link with inline data, and what follows it.
pub(crate) fn inline_target(nr: InodeNr, inode: &Inode) -> Vec<u8> {
    let attributes = decode_ibody(&inode.tail, DamageLocation::Inode(nr)).unwrap_or_default();
    let rest = match attributes.get(&XattrName::inline_data()) {
        Some(XattrValue::Here(value)) => value.clone(),
        _ => Vec::new(),
    };
    [&inode.i_block[..], &rest].concat()
}
