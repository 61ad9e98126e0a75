//! The index of a hashed directory: a root in block 0 and up to two levels of nodes below it.
//!
//! Layout: block 0 is a valid linear block with "." and ".."; the index is hidden in the record of
//! "..": 8 bytes of information, then entries of 8 bytes (hash, block). A node hides its entries in
//! one free record. The first entry has no hash: limit and count (2 bytes each) take its place, and
//! its hash counts as 0. With checksums 8 bytes follow the last slot.
//!
//! An entry's hash is the lowest in its block; its lowest bit is set if that hash began in the
//! block before.
//! Not here: the leaves (`dirent`), the hash functions (`hash`).
//! References: kernel documentation, "directory" (hash tree directories).

mod node;
mod root;
mod split;
#[cfg(test)]
mod tests;

pub use node::{DxEntry, DxNode};
pub(crate) use root::has_info;
pub use root::{RootInfo, init_root};
pub use split::{LeafSplit, split_leaf};

/// Bytes of an entry, and of the checksum tail.
pub(crate) const ENTRY_BYTES: usize = 8;
/// Offset of the entries of a node: after the free record that hides them.
pub(crate) const NODE_START: usize = 8;
/// Offset of the information of a root: after "." and "..".
pub(crate) const INFO_START: usize = 24;
pub(crate) const INFO_BYTES: usize = 8;
/// Offset of the entries of a root.
pub(crate) const ROOT_START: usize = INFO_START + INFO_BYTES;

/// Maximum depth of an index, by the feature `largedir`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaxLevels {
    /// One level of nodes at most.
    Two,
    /// Two levels of nodes at most (`largedir`).
    Three,
}

impl MaxLevels {
    /// The largest value of the root's "indirect levels".
    pub const fn indirect(self) -> u8 {
        match self {
            Self::Two => 1,
            Self::Three => 2,
        }
    }
}
