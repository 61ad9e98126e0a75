//! What can be believed of a damaged inode, and what its other fields say about its type.

use super::patch::Patch;
use crate::state::Step;
use uext4_format::dirent::begins_directory;
use uext4_format::extent::{Expect, ExtentNode};
use uext4_format::indirect::{ROOT_POINTERS, pointer};
use uext4_format::xattr::{XattrName, decode_ibody};
use uext4_format::{DamageLocation, FileType, I_BLOCK_BYTES, Inode, InodeFlags, InodeNr, RawInode};
use uext4_volume::has_map;

/// Most links of a file that is no directory.
const LINKS_MAX: u16 = 65_000;
/// Fields of an inode with a wrong checksum that may be odd; with more, it is garbage.
const ODDITIES_MAX: usize = 2;
/// Byte offset of the address of a fragment, which no file has.
const FRAGMENT: std::ops::Range<usize> = 0x70..0x74;

impl Patch<'_, '_> {
    /// Whether too many fields of an inode are impossible for a single cause.
    pub(super) fn is_garbage(&self, nr: InodeNr, inode: &Inode, raw: &[u8]) -> bool {
        let geometry = &self.check.geometry;
        let kind = inode.file_type();
        let fragment = raw.get(FRAGMENT).unwrap_or_default();
        let odd = [
            kind.is_none(),
            kind.is_some_and(|kind| self.check.odd_flags(nr, inode, kind) != InodeFlags::NONE),
            inode.links > LINKS_MAX,
            inode.links != 0 && inode.dtime != 0,
            RawInode(raw).size() >= self.check.size_max(inode),
            inode.sectors(geometry) > geometry.size_bytes() / 512,
            inode.file_acl.0 != 0 && !geometry.contains(inode.file_acl),
            fragment.iter().any(|byte| *byte != 0),
            !self.has_sound_root(nr, inode),
        ];
        odd.iter().filter(|odd| **odd).count() > ODDITIES_MAX
    }

    /// Whether the part of a map that is in the inode is possible.
    fn has_sound_root(&self, nr: InodeNr, inode: &Inode) -> bool {
        let geometry = &self.check.geometry;
        if !has_map(inode) {
            return true;
        }
        if inode.flags.contains(InodeFlags::EXTENTS) {
            let expect = Expect::root(geometry.first_data_block.into()..geometry.blocks_count);
            let root = ExtentNode::new(&inode.i_block[..]);
            return root.validate(&expect, DamageLocation::Inode(nr)).is_ok();
        }
        let mut blocks = (0..ROOT_POINTERS).map(|at| pointer(&inode.i_block, at));
        blocks.all(|block| block.0 == 0 || geometry.contains(block))
    }

    /// The type of an inode whose mode names none: a file of the file system itself, a directory by
    /// its first block, else a regular file, or a symbolic link by its target. `None` if nothing
    /// tells.
    pub(super) fn type_of(&mut self, nr: InodeNr, inode: &Inode) -> Step<Option<FileType>> {
        let is_empty = inode.i_block == [0; I_BLOCK_BYTES];
        if self.check.hidden.contains(nr) {
            return Ok((!is_empty).then_some(FileType::Regular));
        }
        if inode.flags.contains(InodeFlags::INLINE_DATA) {
            let set = decode_ibody(&inode.tail, DamageLocation::Inode(nr)).unwrap_or_default();
            let has_data = set.get(&XattrName::inline_data()).is_some();
            return Ok(has_data.then_some(FileType::Regular));
        }
        if self.is_directory(nr, inode)? {
            return Ok(Some(FileType::Directory));
        }
        let mut guess = inode.clone();
        guess.mode = FileType::Symlink.mode_bits();
        if !inode.flags.contains(InodeFlags::EXTENTS) && !is_empty && self.is_fast_link(&guess) {
            return Ok(Some(FileType::Symlink));
        }
        guess.mode = FileType::Regular.mode_bits();
        let is_file = inode.links != 0 && self.has_sound_root(nr, &guess);
        Ok(is_file.then_some(FileType::Regular))
    }

    /// Whether the first block of an inode is that of a directory with its number.
    pub(super) fn is_directory(&mut self, nr: InodeNr, inode: &Inode) -> Step<bool> {
        let extents = self.extents_of(nr, inode)?;
        let Some(first) = extents.first().filter(|first| first.logical.0 == 0) else {
            return Ok(false);
        };
        let bytes = self.read(first.start)?;
        Ok(begins_directory(&bytes, nr))
    }
}
