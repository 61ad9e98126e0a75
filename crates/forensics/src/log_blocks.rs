//! Reads blocks of a log by their numbers in it, neighbours in one access.

use crate::{Error, Result};
use uext4_format::{Corrupt, CorruptKind, DamageLocation};
use uext4_journal::Log;
use uext4_num::{clamp_u32, clamp_usize, u64_of, usize_of};

/// Blocks that one read takes at most.
const WINDOW_BLOCKS: u32 = 64;

/// The blocks of a log, with a window of those that were read last.
pub(crate) struct LogBlocks {
    log: Log,
    block_size: u32,
    window: Vec<u8>,
    window_start: u32,
}

impl LogBlocks {
    pub(crate) fn new(log: Log, block_size: u32) -> Self {
        Self {
            log,
            block_size,
            window: Vec::new(),
            window_start: 0,
        }
    }

    /// Number of blocks, the superblock included.
    pub(crate) fn len_blocks(&self) -> u32 {
        self.log.len_blocks
    }

    /// The block of the device where block `at` of the log is; `None` past the end.
    pub(crate) fn device_block(&self, at: u32) -> Option<u64> {
        self.locate(at).map(|(block, _)| block)
    }

    /// Block `at` of the log.
    ///
    /// # Errors
    /// Those of the device; damage if the log has no such block.
    pub(crate) fn read(&mut self, at: u32) -> Result<&[u8]> {
        let size = usize_of(self.block_size);
        let there = clamp_u32(self.window.len().checked_div(size).unwrap_or(0));
        let inside = at.checked_sub(self.window_start).filter(|n| *n < there);
        let index = match inside {
            Some(index) => index,
            None => {
                self.fill(at)?;
                0
            }
        };
        let from = usize_of(index).saturating_mul(size);
        let bytes = self.window.get(from..from.saturating_add(size));
        bytes.ok_or_else(|| unmapped(at))
    }

    /// Fills the window from a block on; with that block alone where the device does not read more.
    fn fill(&mut self, at: u32) -> Result<()> {
        let (block, left) = self.locate(at).ok_or_else(|| unmapped(at))?;
        let from = block.saturating_mul(self.block_size.into());
        let mut failed = Ok(());
        for blocks in [left.min(WINDOW_BLOCKS), 1] {
            let bytes = u64::from(blocks).saturating_mul(self.block_size.into());
            self.window.resize(clamp_usize(bytes), 0);
            self.window_start = at;
            failed = self.log.device.read_at(from, &mut self.window);
            if failed.is_ok() {
                return Ok(());
            }
        }
        self.window.clear();
        Ok(failed?)
    }

    /// Device block of a log block, and the consecutive blocks from it on.
    fn locate(&self, at: u32) -> Option<(u64, u32)> {
        let left = self.log.len_blocks.checked_sub(at).filter(|n| *n > 0)?;
        let runs = &self.log.runs;
        let after = runs.partition_point(|run| run.log_start <= at);
        let run = runs.get(after.checked_sub(1)?)?;
        let into = at.checked_sub(run.log_start)?;
        let in_run = run.len.checked_sub(into).filter(|n| *n > 0)?;
        let block = run.device_block.checked_add(into.into())?;
        Some((block, in_run.min(left)))
    }
}

fn unmapped(at: u32) -> Error {
    let place = DamageLocation::JournalBlock(at);
    Corrupt::new(place, "journal", CorruptKind::Unmapped).into()
}

/// Memory of a window, in bytes.
pub(crate) fn window_bytes(block_size: u32) -> u64 {
    u64_of(usize_of(WINDOW_BLOCKS)).saturating_mul(block_size.into())
}
