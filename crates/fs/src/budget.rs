//! What one operation may cost on an image that nobody trusts.
//!
//! A sound image can still be made to keep a server busy: directories without an index and with
//! millions of entries, maps with an extent for each block. So an operation may look at so many
//! bytes of metadata, which bounds what it holds as well, and take so long; then it ends as if the
//! block that it comes to were damaged. Data need no bound: a request says how much it is for.

use crate::{Fs, MountOptions, Result};
use std::time::Duration;
use uext4_format::{BlockNr, Corrupt, Place};
use uext4_sync::{Allowance, Spending};

/// The bounds of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Budget {
    blocks: u64,
    time: Duration,
}

impl Budget {
    /// As the options say; `None` when they set no bound.
    pub(crate) fn of(options: &MountOptions, block_bytes: u64) -> Option<Self> {
        let (bytes, time) = (options.operation_bytes, options.operation_time);
        let is_bound = bytes.is_some() || time.is_some();
        is_bound.then_some(Self {
            blocks: bytes.map_or(u64::MAX, |bytes| (bytes / block_bytes).max(1)),
            time: time.unwrap_or(Duration::MAX),
        })
    }
}

impl Fs {
    /// Counts what an operation costs while the answer lives.
    pub(crate) fn begin_operation(&self) -> Option<Spending> {
        let Budget { blocks, time } = self.budget?;
        let allowance = Allowance {
            steps: blocks,
            until: self.clock.monotonic().saturating_add(time),
        };
        allowance.begin()
    }

    /// The operation looks at one more block of metadata.
    ///
    /// # Errors
    /// Damage at that block, when it may not.
    pub(crate) fn spend(&self, place: Place, structure: &'static str) -> Result<()> {
        if self.budget.is_none() {
            return Ok(());
        }
        let problem = match Allowance::step() {
            Some(left) if left.steps == 0 => "an operation reads more than operation_bytes",
            Some(left) if self.clock.monotonic() > left.until => {
                "an operation takes longer than operation_seconds"
            }
            _ => return Ok(()),
        };
        Err(Corrupt::new(place, structure, problem).into())
    }

    /// As [`Self::spend`], for a block with a number.
    pub(crate) fn spend_block(&self, nr: BlockNr, structure: &'static str) -> Result<()> {
        self.spend(Place::Block(nr), structure)
    }
}
