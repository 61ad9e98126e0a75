//! Iterates over the mapped runs of block tables, and reads each table once.
//!
//! Invariant: a map that names one of its tables twice is damage. So the work is bounded by the
//! tables that are on the device, and not by the 2^30 blocks that a few tables can claim to map.

use super::super::limits::check_run;
use super::super::mapped::Mapped;
use super::walk::{Table, load, run_from};
use crate::cache::extent_status::Mapping;
use crate::state::engine::Fs;
use crate::state::inode::InodeState;
use crate::types::error::Result;
use std::collections::BTreeSet;
use std::ops::{ControlFlow, Range};
use uext4_format::indirect::{DIRECT_BLOCKS, pointers_per_block};
use uext4_format::{BlockNr, Corrupt, CorruptKind, DamageLocation, LogicalBlock};
use uext4_num::clamp_u32;

/// Levels of tables below `i_block`.
const LEVELS_MAX: u32 = 3;

struct Walk<'a> {
    fs: &'a Fs,
    state: &'a InodeState,
    range: Range<u64>,
    /// Tables that were read.
    seen: BTreeSet<BlockNr>,
    visit: &'a mut dyn FnMut(Mapped) -> ControlFlow<()>,
}

/// Calls `visit` for every mapped run that overlaps `range` (in blocks), clipped to it, in order.
pub(in super::super) fn for_each(
    fs: &Fs,
    state: &InodeState,
    range: Range<u64>,
    visit: &mut dyn FnMut(Mapped) -> ControlFlow<()>,
) -> Result<()> {
    let pointers = pointers_per_block(fs.block_size());
    let mut walk = Walk {
        fs,
        state,
        range,
        seen: BTreeSet::new(),
        visit,
    };
    let direct = DIRECT_BLOCKS;
    if walk.runs(&Table::Root, 0, 0, direct)?.is_break() {
        return Ok(());
    }
    let (mut first, mut span) = (u64::from(direct), pointers);
    for levels in 1..=LEVELS_MAX {
        let top = Table::Root.pointer(state, direct + levels - 1);
        if let Some(top) = top
            && walk.below(top, levels, first, span)?.is_break()
        {
            return Ok(());
        }
        first = first.saturating_add(span);
        span = span.saturating_mul(pointers);
    }
    Ok(())
}

impl Walk<'_> {
    /// The table `nr` with this many levels, which maps `span` blocks from `first` on.
    fn below(
        &mut self,
        nr: BlockNr,
        levels: u32,
        first: u64,
        span: u64,
    ) -> Result<ControlFlow<()>> {
        if first >= self.range.end || first.saturating_add(span) <= self.range.start {
            return Ok(ControlFlow::Continue(()));
        }
        if !self.seen.insert(nr) {
            let place = DamageLocation::InodeBlock(self.state.nr(), nr);
            return Err(Corrupt::new(place, "block map", CorruptKind::BlockTwice).into());
        }
        let table = load(self.fs, self.state, nr)?;
        let pointers = clamp_u32(pointers_per_block(self.fs.block_size()));
        if levels == 1 {
            return self.runs(&table, first, 0, pointers);
        }
        let each = span / u64::from(pointers);
        for at in 0..pointers {
            let first = first + u64::from(at) * each;
            if let Some(child) = table.pointer(self.state, at)
                && self.below(child, levels - 1, first, each)?.is_break()
            {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The runs of the data pointers `at..end` of a table, whose position 0 is block `first`.
    fn runs(&mut self, table: &Table, first: u64, at: u32, end: u32) -> Result<ControlFlow<()>> {
        let skipped = clamp_u32(self.range.start.saturating_sub(first));
        let left = clamp_u32(self.range.end.saturating_sub(first));
        let (mut at, end) = (at.max(skipped), end.min(left));
        while at < end {
            let run = table.read(self.state, |bytes| run_from(bytes, at, end - at));
            let logical = LogicalBlock(clamp_u32(first + u64::from(at)));
            at += run.len_blocks();
            let Mapping::Mapped {
                start,
                len_blocks,
                state,
            } = run
            else {
                continue;
            };
            check_run(self.fs, self.state, start, len_blocks)?;
            let mapped = Mapped {
                logical,
                start,
                len_blocks,
                state,
            };
            if (self.visit)(mapped).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}
