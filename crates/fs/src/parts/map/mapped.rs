//! A mapped run of a file.

use uext4_format::extent::{Extent, ExtentState};
use uext4_format::{BlockNr, LogicalBlock};

/// A mapped run of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapped {
    /// First block of the file.
    pub(crate) logical: LogicalBlock,
    /// First block on the device.
    pub(crate) start: BlockNr,
    pub(crate) len_blocks: u32,
    /// Whether the blocks hold data.
    pub(crate) state: ExtentState,
}

impl Mapped {
    /// End in the file, in blocks.
    pub(crate) fn end(&self) -> u64 {
        u64::from(self.logical.0) + u64::from(self.len_blocks)
    }

    /// Whether `next` follows in the file and on the device, in the same state.
    pub(crate) fn is_followed_by(&self, next: &Mapped) -> bool {
        self.end() == u64::from(next.logical.0)
            && self.start.0 + u64::from(self.len_blocks) == next.start.0
            && self.state == next.state
    }

    /// As an entry of a tree, if it is as short as one.
    pub(super) fn extent(&self) -> Option<Extent> {
        Some(Extent {
            logical: self.logical,
            start: self.start,
            len: u16::try_from(self.len_blocks).ok()?,
            state: self.state,
        })
    }
}
