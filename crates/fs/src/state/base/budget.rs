//! Bound on metadata reads and time of one operation, for untrusted images.
//!
//! A consistent image can still keep a server busy: directories without an index and with millions
//! of entries, maps with one extent for each block. An operation may read a limited number of bytes
//! of metadata, which also bounds its memory, and run for a limited time. Past the limit it fails
//! as if the next block were damaged. Data are not bounded: a request says how much it transfers.

use super::Base;
use crate::types::error::Result;
use crate::types::options::MountOptions;
use std::time::Duration;
use uext4_format::{BlockNr, Corrupt, CorruptKind, DamageLocation};
use uext4_sync::{Allowance, Spending};

/// The bounds of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budget {
    blocks: u64,
    time: Duration,
}

impl Budget {
    /// From the options; `None` when they set no bound.
    pub(crate) fn of(options: &MountOptions, block_bytes: u64) -> Option<Self> {
        let (bytes, time) = (options.operation_bytes, options.operation_time);
        let is_bound = bytes.is_some() || time.is_some();
        is_bound.then_some(Self {
            blocks: bytes.map_or(u64::MAX, |bytes| (bytes / block_bytes).max(1)),
            time: time.unwrap_or(Duration::MAX),
        })
    }
}

impl Base {
    /// Counts the cost of an operation while the returned value lives.
    pub(crate) fn begin_operation(&self) -> Option<Spending> {
        let Budget { blocks, time } = self.budget?;
        let allowance = Allowance {
            steps: blocks,
            until: self.clock.monotonic().saturating_add(time),
        };
        allowance.begin()
    }

    /// Charges one more block of metadata to the operation.
    ///
    /// # Errors
    /// Damage at that block, when the operation has used up its allowance.
    pub(crate) fn spend(&self, place: DamageLocation, structure: &'static str) -> Result<()> {
        if self.budget.is_none() {
            return Ok(());
        }
        let problem = match Allowance::step() {
            Some(left) if left.steps == 0 => CorruptKind::TooManyBytes,
            Some(left) if self.clock.monotonic() > left.until => CorruptKind::TooLong,
            _ => return Ok(()),
        };
        Err(Corrupt::new(place, structure, problem).into())
    }

    /// As [`Self::spend`], for a block with a number.
    pub(crate) fn spend_block(&self, nr: BlockNr, structure: &'static str) -> Result<()> {
        self.spend(DamageLocation::Block(nr), structure)
    }
}
