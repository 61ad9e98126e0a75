//! Unmapping of indirect blocks: from right to left, one run at a time. The caller frees the runs,
//! this frees the tables.

use super::super::limits::check_run;
use super::super::tree_blocks::free_tree_block;
use super::walk::{Step, Table, span, walk};
use crate::cache::meta::Seal;
use crate::state::engine::Fs;
use crate::state::inode::InodeState;
use crate::types::error::Result;
use std::ops::Range;
use uext4_format::extent::LOGICAL_BLOCKS;
use uext4_format::indirect::{IndirectPath, max_blocks, pointer, set_pointer};
use uext4_format::{BlockNr, BlockRun, LogicalBlock};
use uext4_journal::Handle;
use uext4_num::{clamp_u32, usize_of};

/// Credits of a step: the tables on the path, a group half for each table that becomes empty, the
/// groups of one run (at most one table's pointers), and the revokes of the run and of the tables.
pub(in super::super) const STEP_CREDITS: u32 = 3 + 3 + 4 + 4;

/// Progress of one step of [`remove_last`].
pub(in super::super) struct Removed {
    /// End of what is left, in blocks.
    pub(in super::super) end: u64,
    /// The blocks that were mapped from there on; the caller frees them.
    pub(in super::super) run: Option<BlockRun>,
    /// A pointer was cleared, in a table or in `i_block`.
    pub(in super::super) is_change: bool,
    /// The tables on the path to the range.
    steps: Vec<Step>,
}

/// Blocks that the tables can map.
pub(in super::super) fn reach(fs: &Fs) -> u64 {
    max_blocks(fs.block_size()).min(LOGICAL_BLOCKS)
}

/// Unmaps the last run of `range`, which ends within [`reach`], or skips its last hole. The caller
/// frees the run, then [`free_empty_tables`]: a failure there leaves no block without an owner.
pub(in super::super) fn remove_last(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &mut InodeState,
    range: Range<u64>,
) -> Result<Removed> {
    let mut removed = Removed {
        end: range.start,
        run: None,
        is_change: false,
        steps: Vec::new(),
    };
    let last = range.end - 1;
    let Some(path) = IndirectPath::new(LogicalBlock(clamp_u32(last)), fs.block_size()) else {
        return Ok(removed);
    };
    let steps = walk(fs, state, &path)?;
    let level = steps.len() - 1;
    if level < path.indirect_levels() {
        let (offset, _) = span(fs, &path, level);
        removed.end = last.saturating_sub(offset);
    } else {
        let max = clamp_u32(range.end - range.start);
        let (run, skipped) = last_run(&steps[level], state, max);
        removed.end = range.end - u64::from(skipped);
        if let Some(run) = run {
            clear_run(fs, handle, state, &steps[level], skipped, run)?;
            removed.end -= u64::from(run.len_blocks);
            removed.is_change = true;
        }
        removed.run = run;
    }
    removed.steps = steps;
    Ok(removed)
}

/// The last run of consecutive blocks up to the step's position, and the number of empty pointers
/// behind it.
fn last_run(step: &Step, state: &InodeState, max: u32) -> (Option<BlockRun>, u32) {
    step.table.read(state, |table| {
        let at = |distance: u32| pointer(table, usize_of(step.at - distance)).0;
        let count = max.min(step.at + 1);
        let skipped = clamp_u32((0..count).take_while(|&distance| at(distance) == 0).count());
        if skipped == count {
            return (None, skipped);
        }
        let last = at(skipped);
        let before = (1..count - skipped)
            .take_while(|&len| last.checked_sub(u64::from(len)) == Some(at(skipped + len)));
        let len_blocks = 1 + clamp_u32(before.count());
        let start = BlockNr(last + 1 - u64::from(len_blocks));
        (Some(BlockRun { start, len_blocks }), skipped)
    })
}

/// Clears the pointers of a run that has `skipped` empty ones behind it.
fn clear_run(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &mut InodeState,
    step: &Step,
    skipped: u32,
    run: BlockRun,
) -> Result<()> {
    check_run(fs, state, run.start, run.len_blocks)?;
    let end = step.at + 1 - skipped;
    step.table.edit(handle, state, |table| {
        for at in end - run.len_blocks..end {
            set_pointer(table, usize_of(at), BlockNr(0));
        }
    });
    Ok(())
}

/// Frees the last table on the path of a removal if it is empty, and each parent that becomes empty
/// with it; true if it freed one.
pub(in super::super) fn free_empty_tables(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &mut InodeState,
    removed: &Removed,
) -> Result<bool> {
    let mut freed = false;
    for pair in removed.steps.windows(2).rev() {
        let [parent, step] = pair else { break };
        let Table::Block(block) = &step.table else {
            break;
        };
        if !step
            .table
            .read(state, |table| table.iter().all(|byte| *byte == 0))
        {
            break;
        }
        free_tree_block(fs, handle, state, block.nr(), Seal::Indirect)?;
        parent.table.edit(handle, state, |table| {
            set_pointer(table, usize_of(parent.at), BlockNr(0))
        });
        freed = true;
    }
    Ok(freed)
}
