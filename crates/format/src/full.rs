//! Error of an edit that does not fit.

/// The node, block or area is full; nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no space left in the node, block or area")]
pub struct Full;
