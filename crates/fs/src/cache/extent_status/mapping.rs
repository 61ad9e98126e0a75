//! The mapping of a logical block of a file.

use uext4_format::BlockNr;
use uext4_format::extent::ExtentState;

/// The mapping of a logical block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mapping {
    /// A hole of at least this many blocks.
    Hole {
        /// Known length; the hole may be longer.
        len_blocks: u32,
    },
    /// Contiguous blocks of the device.
    Mapped {
        /// Device block of the first logical block.
        start: BlockNr,
        /// Length in blocks from there on.
        len_blocks: u32,
        /// Whether the blocks hold data.
        state: ExtentState,
    },
}

impl Mapping {
    pub(crate) fn len_blocks(&self) -> u32 {
        match *self {
            Mapping::Hole { len_blocks } | Mapping::Mapped { len_blocks, .. } => len_blocks,
        }
    }

    /// The first `max_blocks` blocks of it.
    pub(crate) fn cut(self, max_blocks: u32) -> Self {
        match self {
            Mapping::Hole { len_blocks } => Mapping::Hole {
                len_blocks: len_blocks.min(max_blocks),
            },
            Mapping::Mapped {
                start,
                len_blocks,
                state,
            } => Mapping::Mapped {
                start,
                len_blocks: len_blocks.min(max_blocks),
                state,
            },
        }
    }
}
