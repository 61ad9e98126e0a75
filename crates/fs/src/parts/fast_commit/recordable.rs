//! Which inodes a fast commit may record: a list of what all replayers restore, a full commit for
//! all else.
//!
//! Linux and e2fsck read every recorded inode as a regular file with extents: they take the target
//! of a symbolic link, the number of a device or a table of blocks for the root of an extent tree.
//! e2fsck looks for the number of fields behind the first 128 bytes without a look at the length of
//! the record, which has none of them for an inode from before its table was made wider.

use super::Recorded;
use crate::parts::map;
use crate::state::inode::InodeState;
use uext4_format::{BlockNr, FileType, GOOD_OLD_INODE_BYTES, InodeFlags};
use uext4_journal::FullReason;

/// Returns the reason for a full commit unless records of the inode, or of its names, have the same
/// effect with every replayer.
pub(super) fn check(state: &InodeState) -> Recorded<()> {
    check_kind(state)?;
    if !state.has_room_for_fields() {
        return Err(FullReason::Layout);
    }
    match state.disk.file_acl {
        BlockNr(0) => Ok(()),
        // Linux leaves the attribute block out when it counts the blocks of a recorded inode.
        _ => Err(FullReason::Attribute),
    }
}

/// As [`check`], for a change of a name alone.
pub(super) fn check_kind(state: &InodeState) -> Recorded<()> {
    let is_inline = state.disk.flags.contains(InodeFlags::INLINE_DATA);
    match state.disk.file_type() {
        Some(FileType::Regular) if map::has_extents(state) && !is_inline => Ok(()),
        Some(FileType::Directory) => Err(FullReason::Directory),
        _ => Err(FullReason::Layout),
    }
}

/// Whether these bytes of an inode may have attributes behind its fields, of any length. The magic
/// number of attributes is not zero, and begins at a multiple of 4.
pub(super) fn may_have_attributes(inode: &[u8]) -> bool {
    const MAGIC: [u8; 4] = [0x00, 0x00, 0x02, 0xEA];
    let behind = inode.get(GOOD_OLD_INODE_BYTES..).unwrap_or_default();
    behind.chunks_exact(MAGIC.len()).any(|word| word == MAGIC)
}
