//! What the area of the log for fast commits holds ([`crate::fast`]).

use uext4_format::Tid;

/// State of the area, under `one_commit`.
#[derive(Default)]
pub(crate) struct FastArea {
    /// Transaction of the fast commits in it.
    pub(crate) tid: Option<Tid>,
    pub(crate) used_blocks: u32,
}
