//! A transaction between its close and its write to the log.

use crate::sink::Image;
use uext4_format::{BlockNr, Tid};

/// A transaction that is closed, rendered and ready to be written.
pub(crate) struct Closed {
    pub(crate) tid: Tid,
    /// One image per block, ascending.
    pub(crate) images: Vec<(BlockNr, Image)>,
    /// Ascending; none of them is among the images.
    pub(crate) revokes: Vec<BlockNr>,
    /// The blocks of `images` that are tables ([`crate::draft::Draft::is_table`]); ascending. Empty
    /// with a log.
    pub(crate) tables: Vec<BlockNr>,
}
