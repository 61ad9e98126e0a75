//! A run of blocks reserved in memory, used from the front.

use crate::state::engine::Fs;
use crate::state::space::Want;
use crate::types::error::{Error, Result};
use uext4_format::{BlockNr, BlockRun};

/// The reserved blocks that are left. They are free again when it is dropped.
pub(super) struct Reserved<'a> {
    fs: &'a Fs,
    left: BlockRun,
}

impl<'a> Reserved<'a> {
    /// Reserves one run of `want.min_blocks` to `want.len_blocks` blocks.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if there is none, also after a commit of what was freed.
    pub(super) fn run(fs: &'a Fs, want: &Want) -> Result<Self> {
        let left = fs.space.reserve_or_commit(&fs.base, want)?;
        Ok(Self { fs, left })
    }

    /// As [`Self::run`] without the commit; `None` if there is no such run.
    pub(super) fn run_at_once(fs: &'a Fs, want: &Want) -> Result<Option<Self>> {
        match fs.space.reserve(&fs.base, want) {
            Ok(left) => Ok(Some(Self { fs, left })),
            Err(Error::NoSpace) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reserves all of `want.len_blocks` in one run if possible, else a run of at least half of
    /// that, and so on.
    pub(super) fn fewest_pieces(fs: &'a Fs, mut want: Want) -> Result<Self> {
        let least = fs.base.geometry.blocks_per_cluster();
        loop {
            if let Some(reserved) = Self::run_at_once(fs, &want)? {
                return Ok(reserved);
            }
            if want.min_blocks <= least {
                return Self::run(fs, &want);
            }
            want.min_blocks = (want.min_blocks / 2).max(least);
        }
    }

    /// Reserves these blocks, whole clusters of one group.
    ///
    /// # Errors
    /// [`Error::NoSpace`] unless all of them are free.
    pub(super) fn exactly(fs: &'a Fs, run: BlockRun) -> Result<Self> {
        let pieces = fs.space.reserve_exactly(&fs.base, run)?;
        debug_assert!(pieces.len() == 1, "the run is in one group");
        Ok(Self { fs, left: run })
    }

    /// The first block that is left, or the block behind all.
    pub(super) fn start(&self) -> BlockNr {
        self.left.start
    }

    /// Number of blocks left.
    pub(super) fn len_blocks(&self) -> u32 {
        self.left.len_blocks
    }

    /// Takes whole clusters off the front; the caller owns them.
    pub(super) fn take(&mut self, len_blocks: u32) -> BlockRun {
        let len_blocks = len_blocks.min(self.left.len_blocks);
        let taken = BlockRun {
            len_blocks,
            ..self.left
        };
        self.left = BlockRun {
            start: BlockNr(taken.start.0 + u64::from(len_blocks)),
            len_blocks: self.left.len_blocks - len_blocks,
        };
        taken
    }

    /// Gives whole clusters at the front back.
    pub(super) fn skip(&mut self, len_blocks: u32) {
        let skipped = self.take(len_blocks);
        give_back(self.fs, skipped);
    }
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        give_back(self.fs, self.left);
    }
}

/// Frees reserved blocks that no handle committed.
pub(super) fn give_back(fs: &Fs, run: BlockRun) {
    if run.len_blocks > 0 {
        fs.space.unreserve(run);
    }
}
