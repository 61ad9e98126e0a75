//! Changes of a map keep its cache of the extent status current.

use super::LOGICAL_END;
use crate::state::inode::InodeState;
use std::ops::Range;

/// Changes the map in `range`, and invalidates the range.
pub(super) fn changing<R>(
    state: &mut InodeState,
    range: Range<u64>,
    change: impl FnOnce(&mut InodeState) -> R,
) -> R {
    let before = state.status.begin_change(range);
    let result = change(state);
    if state.status.end_change(before) && super::is_in_inode(state) {
        state.status.clear();
    }
    result
}

/// Invalidates the whole file, because another map replaces this one.
pub(super) fn forget_all(state: &mut InodeState) {
    changing(state, 0..LOGICAL_END, |_| ());
}
