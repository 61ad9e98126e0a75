//! Iterates over mapped runs as the map has them: bypasses the extent status cache, which merges
//! runs.

use super::limits::check_run;
use super::lookup::search;
use super::mapped::Mapped;
use super::root::has_extents;
use super::{extents, indirect};
use crate::cache::extent_status::Mapping;
use crate::state::engine::Fs;
use crate::state::inode::InodeState;
use crate::types::error::Result;
use std::ops::{ControlFlow, Range};
use uext4_format::LogicalBlock;
use uext4_format::extent::LOGICAL_BLOCKS;
use uext4_num::clamp_u32;

/// Calls `visit` for every mapped run that overlaps `range` (in blocks), clipped to it, in order.
/// Each block of the map is visited once: the bounds of extent nodes exclude a second place, and
/// tables are remembered.
///
/// # Errors
/// [`crate::Error::Corrupt`] for damage of the map, also for a table that is there twice.
pub(crate) fn for_each(
    fs: &Fs,
    state: &InodeState,
    range: Range<u64>,
    mut visit: impl FnMut(Mapped) -> ControlFlow<()>,
) -> Result<()> {
    let (mut at, end) = (range.start, range.end.min(LOGICAL_BLOCKS));
    if !has_extents(state) {
        return indirect::for_each(fs, state, at..end, &mut visit);
    }
    while at < end {
        let logical = LogicalBlock(clamp_u32(at));
        let max_blocks = clamp_u32(end - at);
        // Not from the extent status cache, which merges runs.
        let mapping = search(fs, state, logical, max_blocks)?;
        if let Mapping::Mapped {
            start,
            len_blocks,
            state,
        } = mapping
            && visit(Mapped {
                logical,
                start,
                len_blocks,
                state,
            })
            .is_break()
        {
            break;
        }
        at += u64::from(mapping.len_blocks());
    }
    Ok(())
}

/// The whole extent that maps `at`; `None` for holes and files without extents.
pub(crate) fn extent_around(
    fs: &Fs,
    state: &InodeState,
    at: LogicalBlock,
) -> Result<Option<Mapped>> {
    if !has_extents(state) {
        return Ok(None);
    }
    let found = extents::find(fs, state, at)?;
    if let Some(extent) = &found {
        check_run(fs, state, extent.start, extent.len_blocks)?;
    }
    Ok(found)
}
