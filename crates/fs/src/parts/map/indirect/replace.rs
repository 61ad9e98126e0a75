//! Replaces pointers of block tables after their data were copied.

use super::walk::{Table, span, walk};
use crate::state::engine::Fs;
use crate::state::inode::InodeState;
use crate::types::error::Result;
use std::ops::Range;
use uext4_format::indirect::{IndirectPath, pointer, pointers_per_block, set_pointer};
use uext4_format::{BlockNr, LogicalBlock};
use uext4_journal::Handle;
use uext4_num::{clamp_u32, usize_of};

/// Sets the pointers of the mapped blocks of `range` to the blocks from `start` on, each at its
/// distance from the start of the range.
pub(in super::super) fn replace(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &mut InodeState,
    range: Range<u64>,
    start: BlockNr,
) -> Result<()> {
    let mut at = range.start;
    while at < range.end {
        let Some(path) = IndirectPath::new(LogicalBlock(clamp_u32(at)), fs.block_size()) else {
            break;
        };
        let mut steps = walk(fs, state, &path)?;
        let level = steps.len() - 1;
        if level < path.indirect_levels() {
            let (offset, size) = span(fs, &path, level);
            at += size - offset;
            continue;
        }
        let step = steps.pop().expect("the root is always there");
        let len = u64::from(path.run_blocks()).min(range.end - at);
        let positions = step.at..step.at + clamp_u32(len);
        let first = BlockNr(start.0 + (at - range.start));
        set_pointers(handle, state, &step.table, positions, first);
        at += len;
    }
    Ok(())
}

/// Sets the pointers that are not empty.
fn set_pointers(
    handle: &Handle<'_>,
    state: &mut InodeState,
    table: &Table,
    positions: Range<u32>,
    first: BlockNr,
) {
    table.edit(handle, state, |bytes| {
        for position in positions.clone() {
            if pointer(bytes, usize_of(position)).0 != 0 {
                let block = BlockNr(first.0 + u64::from(position - positions.start));
                set_pointer(bytes, usize_of(position), block);
            }
        }
    });
}

/// Bound on the blocks logged by [`replace`]: the last tables of the range.
pub(in super::super) fn cost(fs: &Fs, range: &Range<u64>) -> u32 {
    let tables = (range.end - range.start) / pointers_per_block(fs.block_size());
    clamp_u32(tables).saturating_add(3)
}
