//! Parts of files, up to 1 MiB each: what is to be placed, and the runs of blocks that it gets.

use std::ops::Range;

use uext4_format::{BlockNr, BlockRun};
use uext4_num::clamp_u32;

use crate::tree::keys::Key;

/// A part of a file that needs a place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartRequest {
    /// The key of the path of the file.
    pub(crate) key: Key,
    /// Blocks of the whole file.
    pub(crate) file_blocks: u64,
    /// First block of the part in the file: a multiple of 1 MiB.
    pub(crate) first: u32,
    /// Length of the part in blocks.
    pub(crate) blocks: u32,
}

/// Blocks of a part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlacedRun {
    /// Number of the first one in the part.
    pub(crate) at: u32,
    pub(crate) run: BlockRun,
}

/// Ranges of a part in the runs that it has.
pub(crate) fn spread(runs: &[(u64, u64)], data: &[Range<u32>]) -> Vec<PlacedRun> {
    let mut placed = Vec::with_capacity(data.len());
    for range in data {
        let mut first = 0;
        for (start, end) in runs {
            let len = clamp_u32(end - start);
            let from = range.start.max(first);
            let to = range.end.min(first + len);
            if from < to {
                let run = BlockRun {
                    start: BlockNr(start + u64::from(from - first)),
                    len_blocks: to - from,
                };
                placed.push(PlacedRun { at: from, run });
            }
            first += len;
        }
    }
    placed
}
