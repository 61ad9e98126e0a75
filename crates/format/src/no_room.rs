//! Error of an edit that does not fit.

/// The node, block or area is full; nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no room left in the block")]
pub struct NoRoom;
