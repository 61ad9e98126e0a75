//! Compaction: the last block of a directory moves to a freed one, and the directory gets shorter.
//!
//! Invariants: the `index` lock is held exclusively; the contents of the freed block are elsewhere.
//! Locking: one object at a time.

use super::grow::overwrite;
use super::reference::Reference;
use super::view::Dir;
use crate::{Result, map};
use uext4_format::LogicalBlock;
use uext4_journal::{Handle, Image};

/// Result of a step of shrinking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shrunk {
    /// One block was freed; there may be more to do.
    ByABlock,
    /// There was nothing to do.
    NoMore,
}

/// Moves the last block of the directory to `free`, which no entry leads to.
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
        // The changed node may be the one that has just moved.
        let moved = reference.block.nr() == view.block_or_damage(last)?.nr();
        let holder = if moved { &place } else { &reference.block };
        let mut state = handle.write(holder);
        reference
            .kind
            .node(state.bytes_mut())
            .set_block(reference.at, free);
    }
    // No entry leads to the last block any more. `drain` waits for its readers before its entries
    // can change at their new place. All other moved blocks were overwritten.
    view.block_or_damage(last)?.drain();
    view.inode.index.open();
    drop_last(view, handle)
}

/// Frees the last block.
pub(super) fn drop_last(view: &mut Dir<'_>, handle: &Handle<'_>) -> Result<Shrunk> {
    let last = u64::from(view.blocks - 1);
    let mut state = handle.write(view.inode);
    map::remove(view.fs, handle, &mut state, last..last + 1)?;
    state.disk.size = last * view.fs.block_size() as u64;
    view.blocks -= 1;
    Ok(Shrunk::ByABlock)
}
