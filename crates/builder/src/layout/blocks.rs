//! Where blocks go: one after the other ([`Bump`]), or to places that follow from paths
//! ([`Scatter`]).

use std::ops::Range;

use uext4_format::{BlockNr, Geometry};
use uext4_mkfs::Draft;
use uext4_num::usize_of;

use crate::error::Result;
use crate::layout::bump::Bump;
use crate::layout::part::{Placed, Wanted};
use crate::layout::scatter::Scatter;
use crate::layout::size_plan::tables_end;
use crate::options::{BuildOptions, Tables};
use crate::tree::keys::Key;

/// See the module.
pub(crate) enum Places {
    Ascending(Bump),
    Scattered(Scatter),
}

impl Places {
    /// Blocks of an image of this geometry and at most `blocks` blocks. With an early draft, which
    /// has its tables already, places follow from paths.
    pub(crate) fn new(
        options: &BuildOptions,
        early: Option<&Draft>,
        geometry: Geometry,
        blocks: u64,
    ) -> Result<Places> {
        if let Some(draft) = early {
            return Ok(Places::Scattered(Scatter::new(&geometry, draft.end().0)));
        }
        let mut bump = Bump::new(geometry, blocks);
        if options.tables == Tables::Front {
            bump.skip_to(tables_end(options)?);
        }
        Ok(Places::Ascending(bump))
    }

    /// Places the ranges of blocks of a part that have data; others get no place.
    pub(crate) fn place(&mut self, wanted: &Wanted, data: &[Range<u32>]) -> Result<Vec<Placed>> {
        match self {
            Places::Scattered(scatter) => scatter.place(wanted, data),
            Places::Ascending(bump) => {
                let mut placed = Vec::with_capacity(data.len());
                for range in data {
                    let mut at = range.start;
                    while at < range.end {
                        let run = bump.take(range.end - at)?;
                        placed.push(Placed { at, run });
                        at += run.len_blocks;
                    }
                }
                Ok(placed)
            }
        }
    }

    /// Places all blocks of a file, in the order of the file.
    pub(crate) fn place_whole(&mut self, key: Key, blocks: u32) -> Result<Vec<Placed>> {
        let part_blocks = match self {
            Places::Ascending(_) => blocks.max(1),
            Places::Scattered(scatter) => scatter.part_blocks(),
        };
        let mut placed = Vec::new();
        for first in (0..blocks).step_by(usize_of(part_blocks)) {
            let wanted = Wanted {
                key,
                file_blocks: blocks.into(),
                first,
                blocks: part_blocks.min(blocks - first),
            };
            let all = 0..wanted.blocks;
            let part = self.place(&wanted, std::slice::from_ref(&all))?;
            placed.extend(part.into_iter().map(|one| Placed {
                at: first + one.at,
                ..one
            }));
        }
        Ok(placed)
    }

    /// Places one block.
    pub(crate) fn place_one(&mut self, key: Key) -> Result<BlockNr> {
        let placed = self.place_whole(key, 1)?;
        Ok(placed.first().expect("a block has a place").run.start)
    }

    /// The runs in use without these, which are a part of them; ascending.
    pub(crate) fn used_without(&self, free: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
        match self {
            Places::Ascending(bump) => without(bump.runs(), free),
            Places::Scattered(scatter) => without(&scatter.used(), free),
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
