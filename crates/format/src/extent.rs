//! Extent trees: mapping of logical to physical blocks, in the 60 bytes of `i_block` and in blocks.
//!
//! Layout: a 12-byte header, `eh_max` slots of 12 bytes, and in blocks with checksums a 4-byte tail
//! right after the last slot. A leaf (depth 0) holds extents, an inner node holds indexes.
//! Invariants ([`ExtentNode::validate`]): entries sorted by logical block and not overlapping;
//! every block inside the file system; depth falls by one per level and is at most [`MAX_DEPTH`].
//! References: kernel documentation, "ifork" (extent tree) and "checksums".

mod check;
mod node;
#[cfg(test)]
mod tests;

use crate::bytes::{get_u16, get_u32, put_u16, put_u32};
use crate::{BlockNr, LogicalBlock};
use uext4_num::{clamp_u16, low_u16, low_u32};

pub use check::Expect;
pub use node::ExtentNode;

/// Bytes of a node header, and of every entry.
pub const ENTRY_BYTES: usize = 12;
/// Bytes of the root node: all of `i_block`.
pub const ROOT_BYTES: usize = 60;
/// Entries that fit in the root.
pub const ROOT_CAPACITY: u16 = 4;
/// The deepest tree: the root's depth.
pub const MAX_DEPTH: u16 = 5;
/// First two bytes of a node.
pub const MAGIC: u16 = 0xF30A;
/// Logical blocks of a file: the last usable one is `0xFFFF_FFFE`.
pub const LOGICAL_BLOCKS: u64 = 0xFFFF_FFFF;

const WRITTEN_MAX: u16 = 32_768;

/// Entries that fit in a block of `block_size` bytes. The 4-byte tail always fits in what is left,
/// so the number is the same with and without checksums.
pub fn block_capacity(block_size: usize) -> u16 {
    clamp_u16(block_size.saturating_sub(ENTRY_BYTES) / ENTRY_BYTES)
}

/// Whether the blocks of an extent hold data yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ExtentState {
    /// The blocks hold data: reads return their content.
    Written,
    /// Allocated only: reads give zeroes.
    Unwritten,
}

/// A run of logical blocks mapped to consecutive physical blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First block of the file that it maps.
    pub logical: LogicalBlock,
    /// The physical block of `logical`; 48 bits.
    pub start: BlockNr,
    /// Length in blocks, 1 to [`Extent::max_len_blocks`].
    pub len: u16,
    /// Whether the blocks hold data.
    pub state: ExtentState,
}

impl Extent {
    /// The longest extent of this state, in blocks: 32768 written, 32767 unwritten.
    pub const fn max_len_blocks(state: ExtentState) -> u16 {
        match state {
            ExtentState::Written => WRITTEN_MAX,
            ExtentState::Unwritten => WRITTEN_MAX - 1,
        }
    }

    /// The logical block after the last one (may be 2^32, hence 64 bits).
    pub fn logical_end(&self) -> u64 {
        u64::from(self.logical.0).saturating_add(u64::from(self.len))
    }

    /// The physical block after the last one.
    pub fn physical_end(&self) -> u64 {
        self.start.0.saturating_add(u64::from(self.len))
    }

    /// The physical block of `block`, if this extent maps it.
    pub fn physical(&self, block: LogicalBlock) -> Option<BlockNr> {
        let distance = block.0.checked_sub(self.logical.0)?;
        let start = self.start.0;
        (distance < u32::from(self.len)).then(|| BlockNr(start.saturating_add(distance.into())))
    }

    /// True when `next` continues this extent, in the file and on disk, in the same state, and both
    /// fit into one extent.
    pub fn joins(&self, next: &Extent) -> bool {
        self.state == next.state
            && self.logical_end() == u64::from(next.logical.0)
            && self.physical_end() == next.start.0
            && self
                .len
                .checked_add(next.len)
                .is_some_and(|len| len <= Self::max_len_blocks(self.state))
    }

    /// Reads the 12 bytes of an entry. A length of 0 comes out as written with length 0, which
    /// [`ExtentNode::validate`] refuses.
    pub fn decode(raw: &[u8; ENTRY_BYTES]) -> Extent {
        let stored = get_u16(raw, 4);
        let (len, state) = match stored.checked_sub(WRITTEN_MAX) {
            Some(len @ 1..) => (len, ExtentState::Unwritten),
            _ => (stored, ExtentState::Written),
        };
        let start = u64::from(get_u16(raw, 6)) << 32 | u64::from(get_u32(raw, 8));
        Extent {
            logical: LogicalBlock(get_u32(raw, 0)),
            start: BlockNr(start),
            len,
            state,
        }
    }

    /// The 12 bytes of the entry. The caller keeps the length within its bounds.
    pub fn encode(&self) -> [u8; ENTRY_BYTES] {
        debug_assert!((1..=Self::max_len_blocks(self.state)).contains(&self.len));
        let stored = match self.state {
            ExtentState::Written => self.len,
            ExtentState::Unwritten => self.len | WRITTEN_MAX,
        };
        let mut raw = [0; ENTRY_BYTES];
        put_u32(&mut raw, 0, self.logical.0);
        put_u16(&mut raw, 4, stored);
        put_u16(&mut raw, 6, low_u16(self.start.0 >> 32));
        put_u32(&mut raw, 8, low_u32(self.start.0));
        raw
    }
}

/// An entry of an inner node: the child that maps from `logical` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtentIndex {
    /// First logical block of the child's range.
    pub logical: LogicalBlock,
    /// Block of the child node; 48 bits.
    pub child: BlockNr,
}

impl ExtentIndex {
    /// Reads the 12 bytes of an entry.
    pub fn decode(raw: &[u8; ENTRY_BYTES]) -> ExtentIndex {
        let child = u64::from(get_u16(raw, 8)) << 32 | u64::from(get_u32(raw, 4));
        ExtentIndex {
            logical: LogicalBlock(get_u32(raw, 0)),
            child: BlockNr(child),
        }
    }

    /// The 12 bytes of the entry.
    pub fn encode(&self) -> [u8; ENTRY_BYTES] {
        let mut raw = [0; ENTRY_BYTES];
        put_u32(&mut raw, 0, self.logical.0);
        put_u32(&mut raw, 4, low_u32(self.child.0));
        put_u16(&mut raw, 8, low_u16(self.child.0 >> 32));
        raw
    }
}
