//! Around each change of a map: its range leaves the cache of the extent status, and is noted for
//! the next fast commit.

use super::root::is_in_inode;
use crate::state::inode::InodeState;
use std::ops::Range;
use uext4_format::FileType;
use uext4_format::extent::LOGICAL_BLOCKS;
use uext4_journal::{FullReason, Handle};

/// Changes the map in `range`, and invalidates the range.
pub(super) fn changing<R>(
    state: &mut InodeState,
    range: Range<u64>,
    change: impl FnOnce(&mut InodeState) -> R,
) -> R {
    let before = state.status.begin_change(range);
    let result = change(state);
    if state.status.end_change(before) && is_in_inode(state) {
        state.status.clear();
    }
    result
}

/// Invalidates the whole file, because another map replaces this one.
pub(super) fn forget_all(state: &mut InodeState) {
    changing(state, 0..LOGICAL_BLOCKS, |_| ());
}

/// Records a range that changes, for a fast commit. Names record what changes in directories.
pub(super) fn record_change(handle: &Handle<'_>, state: &mut InodeState, range: &Range<u64>) {
    let is_directory = state.disk.file_type() == Some(FileType::Directory);
    if !handle.is_recorded() || is_directory {
        return;
    }
    // e2fsck gives new blocks to the tree, without regard to those that later records map.
    if !is_in_inode(state) {
        handle.require_full(FullReason::Layout);
    }
    state.note_changed(range.clone());
}
