//! The free runs before a block, for moves to the front: the allocator searches whole groups, and
//! the block may be inside of one.

use super::reserved::Reserved;
use crate::state::engine::Fs;
use crate::types::error::{Error, Result};
use std::collections::BTreeSet;
use uext4_format::{BlockNr, BlockRun};
use uext4_num::clamp_u32;

/// Free runs by length. Others may take them meanwhile.
pub(super) struct FreeRuns {
    /// Length in blocks, and first block.
    by_len: BTreeSet<(u64, u64)>,
}

impl FreeRuns {
    /// The free runs before block `end`, also those of freed and preallocated blocks.
    pub(super) fn before(fs: &Fs, end: u64) -> Result<Self> {
        fs.space.discard_preallocations();
        fs.base.journal.commit_running()?;
        let runs = fs.space.free_runs(&fs.base)?;
        let ratio = u64::from(fs.base.geometry.blocks_per_cluster());
        let end = end / ratio * ratio;
        let by_len = runs
            .into_iter()
            .map(|run| (run.end.min(end).saturating_sub(run.start), run.start))
            .filter(|(len, _)| *len > 0);
        Ok(Self {
            by_len: by_len.collect(),
        })
    }

    /// Reserves `len_blocks` blocks in the shortest run that has them, else the longest run.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if no run is left.
    pub(super) fn reserve<'a>(&mut self, fs: &'a Fs, len_blocks: u64) -> Result<Reserved<'a>> {
        loop {
            let fits = self.by_len.range((len_blocks, 0)..).next();
            let found = fits.or(self.by_len.last()).copied();
            let (len, start) = found.ok_or(Error::NoSpace)?;
            self.by_len.remove(&(len, start));
            let taken = len.min(len_blocks);
            let run = BlockRun {
                start: BlockNr(start),
                len_blocks: clamp_u32(taken),
            };
            match Reserved::exactly(fs, run) {
                // Another thread has a part of it.
                Err(Error::NoSpace) => continue,
                Err(error) => return Err(error),
                Ok(reserved) => {
                    if taken < len {
                        self.by_len.insert((len - taken, start + taken));
                    }
                    return Ok(reserved);
                }
            }
        }
    }
}
