//! The last block of a directory: it takes a place that became free, and the directory ends one
//! block earlier.
//!
//! Invariants: the `index` lock is held exclusively; what a place that is filled had is elsewhere.
//! Locking: one object at a time.

use super::grow::overwrite;
use super::reference::Reference;
use super::view::Dir;
use crate::{Result, map};
use uext4_format::LogicalBlock;
use uext4_journal::{Handle, Image};

/// Whether a step found something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shrunk {
    /// A block less: there may be more to do.
    ByABlock,
    /// Nothing to do.
    NoMore,
}

/// Moves the last block of the directory to `free`, to which no entry leads any more.
pub(super) fn fill_with_last(
    view: &mut Dir<'_>,
    handle: &Handle<'_>,
    free: LogicalBlock,
    reference: &Reference,
) -> Result<Shrunk> {
    let last = LogicalBlock(view.blocks - 1);
    if free != last {
        let bytes: Image = view.block_or_damage(last)?.image();
        let place = view.block_or_damage(free)?;
        overwrite(handle, &place, &bytes);
        // The node that is changed may be the one that has just moved.
        let moved = reference.block.nr() == view.block_or_damage(last)?.nr();
        let holder = if moved { &place } else { &reference.block };
        let mut state = handle.write(holder);
        reference
            .kind
            .node(state.bytes_mut())
            .set_block(reference.at, free);
    }
    // Nothing leads to the last block any more, and who is in it still is out again before anybody
    // changes its entries at their new place. All else that moved was overwritten.
    view.block_or_damage(last)?.drain();
    view.inode.index.open();
    drop_last(view, handle)
}

/// Ends the directory one block earlier.
pub(super) fn drop_last(view: &mut Dir<'_>, handle: &Handle<'_>) -> Result<Shrunk> {
    let last = u64::from(view.blocks - 1);
    let mut state = handle.write(view.inode);
    map::remove(view.fs, handle, &mut state, last..last + 1)?;
    state.disk.size = last * view.fs.block_size() as u64;
    view.blocks -= 1;
    Ok(Shrunk::ByABlock)
}
