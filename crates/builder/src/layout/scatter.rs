//! Places that follow from paths and sizes: a hash table of runs of blocks.
//!
//! A file of up to half a MiB has one run, a larger one a run of 1 MiB for each MiB; runs are
//! reserved a little longer than the contents. The key of the path gives the first choice, and the
//! first free run in a window behind it is taken. After some windows elsewhere the contents go to
//! whatever is free. Small runs begin in the first half of the space, large ones in the second, so
//! that small ones do not break the space for large ones into pieces.
//!
//! So a file that comes, goes or grows moves only files that chose the same blocks later, which are
//! about as many blocks as its own in an image that is half full.
//!
//! Invariants: no block is reserved twice. A place depends on the files before it only where they
//! reserved blocks of its windows.

use std::collections::BTreeMap;
use std::ops::Range;

use uext4_format::{Geometry, GroupNr};
use uext4_num::clamp_u32;

use crate::content::chunks::CHUNK_BYTES;
use crate::error::{Error, Result};
use crate::layout::part::{PartRequest, PlacedRun, spread};
use crate::tree::keys::{Key, Purpose};

/// Bytes of a large run.
const PART_BYTES: u64 = CHUNK_BYTES;
/// Windows that are tried.
const WINDOWS: u64 = 8;
/// Large runs in a window; a window for small runs has a quarter of it.
const WINDOW_PARTS: u64 = 16;

/// A hash table of runs of blocks, by keys of paths.
pub(crate) struct Scatter {
    /// Where contents may be.
    space: Range<u64>,
    part_blocks: u32,
    /// Start and end of runs that are not free, neighbours joined.
    reserved: BTreeMap<u64, u64>,
    /// Runs with contents, in the order of placing.
    used: Vec<(u64, u64)>,
}

/// How a run is chosen.
struct Choice {
    /// Number of blocks to reserve for the run.
    len: u64,
    /// Starts are multiples of it.
    align: u64,
    /// Where the first window begins: at this place of the space.
    from: Range<u64>,
    /// The window in which the run begins.
    window: u64,
}

impl Scatter {
    /// All blocks from `start` on are free, except for the fixed places of groups.
    pub(crate) fn new(geometry: &Geometry, start: u64) -> Scatter {
        let mut scatter = Scatter {
            space: start..geometry.blocks_count.max(start),
            part_blocks: clamp_u32(PART_BYTES >> geometry.block_bits),
            reserved: BTreeMap::new(),
            used: Vec::new(),
        };
        for group in (0..geometry.group_count).map(GroupNr) {
            let first = geometry.group_first_block(group).0;
            let end = first + u64::from(geometry.base_metadata_blocks(group));
            if end > first {
                scatter.reserve(first, end);
            }
        }
        scatter
    }

    /// Blocks of a part of a large file.
    pub(crate) fn part_blocks(&self) -> u32 {
        self.part_blocks
    }

    /// Allocates blocks for the ranges of blocks of a part that have data.
    pub(crate) fn allocate(
        &mut self,
        request: &PartRequest,
        data: &[Range<u32>],
    ) -> Result<Vec<PlacedRun>> {
        if data.is_empty() {
            return Ok(Vec::new());
        }
        let runs = match self.choose(request) {
            Some(start) => vec![(start, start + u64::from(request.blocks))],
            None => self.gather(request)?,
        };
        let placed = spread(&runs, data);
        self.used.extend(placed.iter().map(|one| {
            let start = one.run.start.0;
            (start, start + u64::from(one.run.len_blocks))
        }));
        Ok(placed)
    }

    /// Reserves a run in one of the windows; returns its start.
    fn choose(&mut self, request: &PartRequest) -> Option<u64> {
        let part = u64::from(request.first / self.part_blocks);
        let choice = self.choice(request);
        for nr in 0..WINDOWS {
            let at = match nr {
                0 => self.first_choice(request.key, part, &choice),
                _ => {
                    let key = request.key.with(Purpose::Choice, part * WINDOWS + nr);
                    self.space.start + key.below(self.space_blocks())
                }
            };
            if let Some(start) = self.free_run(at, &choice) {
                self.reserve(start, start + choice.len);
                return Some(start);
            }
        }
        None
    }

    fn choice(&self, request: &PartRequest) -> Choice {
        let part_blocks = u64::from(self.part_blocks);
        let middle = self.space.start + self.space_blocks() / 2;
        if request.file_blocks * 2 > part_blocks {
            return Choice {
                len: part_blocks,
                align: part_blocks,
                from: middle..self.space.end,
                window: part_blocks * WINDOW_PARTS,
            };
        }
        Choice {
            len: with_reserve(request.file_blocks),
            align: 1,
            from: self.space.start..middle,
            window: part_blocks * WINDOW_PARTS / 4,
        }
    }

    fn first_choice(&self, key: Key, part: u64, choice: &Choice) -> u64 {
        let count = ((choice.from.end - choice.from.start) / choice.align).max(1);
        let nr = (key.below(count) + part) % count;
        choice.from.start + nr * choice.align
    }

    fn space_blocks(&self) -> u64 {
        (self.space.end - self.space.start).max(1)
    }

    /// The first free run that begins in the window at a block.
    fn free_run(&self, at: u64, choice: &Choice) -> Option<u64> {
        let end = at + choice.window;
        let from = self.behind(at);
        let mut at = from.next_multiple_of(choice.align);
        for (start, reserved_end) in self.reserved.range(from..) {
            if at + choice.len <= *start || at >= end {
                break;
            }
            at = at.max(reserved_end.next_multiple_of(choice.align));
        }
        (at < end && at + choice.len <= self.space.end).then_some(at)
    }

    /// The first block from this one on that is free or the end of the space.
    fn behind(&self, at: u64) -> u64 {
        match self.reserved.range(..=at).next_back() {
            Some((_, end)) => at.max(*end),
            None => at,
        }
    }

    /// Reserves the next free blocks behind the first choice, and then from the start.
    fn gather(&mut self, request: &PartRequest) -> Result<Vec<(u64, u64)>> {
        let home = self.space.start + request.key.below(self.space_blocks());
        let mut runs = Vec::new();
        let mut left = u64::from(request.blocks);
        for from in [home, self.space.start] {
            let mut at = self.behind(from);
            while left > 0 && at < self.space.end {
                let next = self.reserved.range(at..).next();
                let free_end = next.map_or(self.space.end, |(start, _)| *start);
                let end = free_end.min(self.space.end).min(at + left);
                runs.push((at, end));
                left -= end - at;
                self.reserve(at, end);
                at = self.behind(end);
            }
        }
        match left {
            0 => Ok(runs),
            _ => Err(full(self.space.end)),
        }
    }

    fn reserve(&mut self, start: u64, end: u64) {
        let before = self.reserved.range(..=start).next_back();
        let before = before.filter(|(_, before_end)| **before_end == start);
        let start = before.map_or(start, |(before, _)| *before);
        let end = self.reserved.remove(&end).unwrap_or(end);
        self.reserved.insert(start, end);
    }

    /// Runs with contents, ascending, neighbours joined.
    pub(crate) fn used(&self) -> Vec<(u64, u64)> {
        let mut used = self.used.clone();
        used.sort_unstable();
        used.dedup_by(|next, last| {
            let joins = last.1 == next.0;
            if joins {
                last.1 = next.1;
            }
            joins
        });
        used
    }
}

/// Blocks to reserve for a small file: room for a growth of up to a quarter.
fn with_reserve(blocks: u64) -> u64 {
    let step = (blocks.next_power_of_two() / 8).max(1);
    blocks.next_multiple_of(step)
}

fn full(blocks: u64) -> Error {
    Error::Refused {
        source_name: "the image".to_owned(),
        problem: format!("its {blocks} blocks are full with room for files to grow"),
        advice: "give twice the size of the contents, or build without diff-friendly places",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserves_are_bounded() {
        for blocks in 1..10_000 {
            let reserved = with_reserve(blocks);
            assert!(blocks <= reserved && reserved * 4 <= blocks * 5, "{blocks}");
        }
    }
}
