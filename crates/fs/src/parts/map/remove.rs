//! Removal of blocks from a map of either format: from right to left, one run at a time.
//!
//! A format unmaps the last run of a range ([`extents`], [`indirect`]). Its clusters are freed
//! here, because only a look-up shows whether a cluster has another mapped block.

use super::clusters::release;
use super::limits::check_run;
use super::root::has_extents;
use super::status::{self, record_change};
use super::{extents, indirect};
use crate::state::engine::Fs;
use crate::state::inode::InodeState;
use crate::types::error::Result;
use std::ops::Range;
use uext4_format::BlockRun;
use uext4_journal::Handle;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// All of the range is unmapped.
    Done,
    /// The handle's credits are used up: restart it, and continue with the range up to `end`.
    More {
        /// New exclusive end of the range, in blocks.
        end: u64,
    },
}

/// Unmaps the blocks of `range` from its end backwards, and frees them and emptied tree blocks.
/// Stops when the handle's credits run out, but always makes progress.
pub(crate) fn remove(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &mut InodeState,
    range: Range<u64>,
) -> Result<Progress> {
    if range.is_empty() {
        return Ok(Progress::Done);
    }
    record_change(handle, state, &range);
    status::changing(state, range.clone(), |state| {
        if has_extents(state) {
            remove_extents(fs, handle, state, range)
        } else {
            remove_pointers(fs, handle, state, range)
        }
    })
}

fn remove_extents(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &mut InodeState,
    range: Range<u64>,
) -> Result<Progress> {
    let mut end = range.end;
    let mut progress = Progress::Done;
    let mut removed_any = false;
    while let Some(cut) = extents::last_cut(fs, state, range.start..end)? {
        if removed_any && u64::from(handle.credits_left()) < extents::cut_credits(state) {
            progress = Progress::More { end };
            break;
        }
        let run = BlockRun {
            start: cut.start,
            len_blocks: u32::from(cut.len),
        };
        check_run(fs, state, run.start, run.len_blocks)?;
        extents::cut_out(fs, handle, state, cut)?;
        end = u64::from(cut.logical.0);
        release(fs, handle, state, end, run)?;
        removed_any = true;
    }
    if removed_any {
        extents::shrink(fs, handle, state)?;
    }
    Ok(progress)
}

fn remove_pointers(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &mut InodeState,
    range: Range<u64>,
) -> Result<Progress> {
    let mut end = range.end.min(indirect::reach(fs));
    let mut removed_any = false;
    while end > range.start {
        if removed_any && handle.credits_left() < indirect::STEP_CREDITS {
            return Ok(Progress::More { end });
        }
        let removed = indirect::remove_last(fs, handle, state, range.start..end)?;
        end = removed.end;
        if let Some(run) = removed.run {
            release(fs, handle, state, end, run)?;
        }
        removed_any |= removed.is_change;
        removed_any |= indirect::free_empty_tables(fs, handle, state, &removed)?;
    }
    Ok(Progress::Done)
}
