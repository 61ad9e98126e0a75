//! What the inode itself tells of its map: the format, and the root of the tree.
//!
//! Not here: anything that reads blocks (`lookup`).

use crate::state::inode::InodeState;
use uext4_format::extent::ExtentNode;
use uext4_format::indirect::DIRECT_BLOCKS;
use uext4_format::{FileType, InodeFlags, LogicalBlock};
use uext4_num::usize_of;

/// True when the inode maps by extents.
pub(crate) fn has_extents(state: &InodeState) -> bool {
    state.disk.flags.contains(InodeFlags::EXTENTS)
}

/// The root of a tree of extents.
fn root(state: &InodeState) -> ExtentNode<&[u8]> {
    ExtentNode::new(&state.disk.i_block[..])
}

/// Levels of nodes below the root of a tree of extents.
pub(super) fn depth(state: &InodeState) -> u16 {
    root(state).depth()
}

/// Whether the lookup must read blocks outside the inode.
pub(super) fn is_deep(state: &InodeState, at: LogicalBlock) -> bool {
    if has_extents(state) {
        depth(state) > 0
    } else {
        at.0 >= DIRECT_BLOCKS
    }
}

/// Whether the whole map is in the inode.
pub(crate) fn is_in_inode(state: &InodeState) -> bool {
    if has_extents(state) {
        depth(state) == 0
    } else {
        let tables = &state.disk.i_block[4 * usize_of(DIRECT_BLOCKS)..];
        tables.iter().all(|byte| *byte == 0)
    }
}

/// Number of extents of a file whose inode holds all of them; `None` for other files.
pub(crate) fn extents_in_inode(state: &InodeState) -> Option<usize> {
    let is_plain = has_extents(state) && depth(state) == 0;
    is_plain.then(|| root(state).count())
}

/// Whether the blocks of the inode go through the journal: directories, value inodes.
pub(super) fn holds_metadata(state: &InodeState) -> bool {
    let journaled = InodeFlags::EA_INODE.union(InodeFlags::JOURNAL_DATA);
    state.disk.file_type() != Some(FileType::Regular) || state.disk.flags.intersects(journaled)
}
