//! Where blocks go: one after the other ([`Bump`]), or to places that follow from paths
//! ([`Scatter`]).

use std::ops::Range;

use uext4_format::{BlockNr, Geometry};
use uext4_mkfs::Draft;
use uext4_num::usize_of;

use crate::error::Result;
use crate::layout::bump::Bump;
use crate::layout::part::{PartRequest, PlacedRun};
use crate::layout::scatter::Scatter;
use crate::layout::size_plan::tables_end;
use crate::options::{BuildOptions, Tables};
use crate::tree::keys::Key;

/// Gives out blocks by one of the two rules.
pub(crate) enum BlockAllocator {
    Ascending(Bump),
    Scattered(Scatter),
}

impl BlockAllocator {
    /// Blocks of an image of this geometry and at most `blocks` blocks. With an early draft, which
    /// has its tables already, places follow from paths.
    pub(crate) fn new(
        options: &BuildOptions,
        early: Option<&Draft>,
        geometry: Geometry,
        blocks: u64,
    ) -> Result<BlockAllocator> {
        if let Some(draft) = early {
            return Ok(BlockAllocator::Scattered(Scatter::new(
                &geometry,
                draft.end().0,
            )));
        }
        let mut bump = Bump::new(geometry, blocks);
        if options.tables == Tables::Front {
            bump.skip_to(tables_end(options)?);
        }
        Ok(BlockAllocator::Ascending(bump))
    }

    /// Allocates blocks for the ranges of a part that have data, and none for others.
    pub(crate) fn allocate(
        &mut self,
        request: &PartRequest,
        data: &[Range<u32>],
    ) -> Result<Vec<PlacedRun>> {
        match self {
            BlockAllocator::Scattered(scatter) => scatter.allocate(request, data),
            BlockAllocator::Ascending(bump) => {
                let mut placed = Vec::with_capacity(data.len());
                for range in data {
                    let mut at = range.start;
                    while at < range.end {
                        let run = bump.take(range.end - at)?;
                        placed.push(PlacedRun { at, run });
                        at += run.len_blocks;
                    }
                }
                Ok(placed)
            }
        }
    }

    /// Allocates all blocks of a file, in the order of the file.
    pub(crate) fn allocate_file(&mut self, key: Key, blocks: u32) -> Result<Vec<PlacedRun>> {
        let part_blocks = match self {
            BlockAllocator::Ascending(_) => blocks.max(1),
            BlockAllocator::Scattered(scatter) => scatter.part_blocks(),
        };
        let mut placed = Vec::new();
        for first in (0..blocks).step_by(usize_of(part_blocks)) {
            let request = PartRequest {
                key,
                file_blocks: blocks.into(),
                first,
                blocks: part_blocks.min(blocks - first),
            };
            let all = 0..request.blocks;
            let part = self.allocate(&request, std::slice::from_ref(&all))?;
            placed.extend(part.into_iter().map(|one| PlacedRun {
                at: first + one.at,
                ..one
            }));
        }
        Ok(placed)
    }

    /// Allocates one block, such as a node of a map.
    pub(crate) fn allocate_one(&mut self, key: Key) -> Result<BlockNr> {
        let placed = self.allocate_file(key, 1)?;
        Ok(placed.first().expect("a block has a place").run.start)
    }

    /// The runs in use without these, which are a part of them; ascending.
    pub(crate) fn used_without(&self, free: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
        match self {
            BlockAllocator::Ascending(bump) => without(bump.runs(), free),
            BlockAllocator::Scattered(scatter) => without(&scatter.used(), free),
        }
    }
}

/// The runs without these, which are a part of them.
fn without(runs: &[(u64, u64)], mut free: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    free.sort_unstable();
    let mut used = Vec::new();
    let mut free = free.into_iter().peekable();
    for (start, end) in runs.iter().copied() {
        let mut at = start;
        while let Some((from, to)) = free.next_if(|(from, _)| *from < end) {
            if from > at {
                used.push((at, from));
            }
            at = to;
        }
        if at < end {
            used.push((at, end));
        }
    }
    used
}
