//! Validation of a node against its parent. All properties that later code relies on are checked
//! here, once.

use std::ops::Range;

use super::{ExtentNode, LOGICAL_BLOCKS, MAGIC, MAX_DEPTH};
use crate::{Corrupt, CorruptKind, DamageLocation};
use uext4_num::clamp_u32;

/// What the parent, or the inode, demands of a node.
#[derive(Clone, Debug)]
pub struct Expect {
    /// The depth, one less than the parent's; `None` at the root.
    pub depth: Option<u16>,
    /// Logical blocks that the parent gives to this node.
    pub logical: Range<u64>,
    /// Blocks of the file system: first data block to the number of blocks.
    pub blocks: Range<u64>,
}

impl Expect {
    /// The constraints of the root of a tree in a file system with these blocks.
    pub fn root(blocks: Range<u64>) -> Self {
        Self {
            depth: None,
            logical: 0..LOGICAL_BLOCKS,
            blocks,
        }
    }

    /// The constraints of the child at entry `at` of `parent`, which was itself checked with
    /// `self`.
    pub fn child<B: AsRef<[u8]>>(&self, parent: &ExtentNode<B>, at: usize) -> Self {
        let key = |at| parent.key(at).map(|key| u64::from(key.0));
        let start = key(at).unwrap_or(self.logical.start);
        let end = key(at.saturating_add(1)).unwrap_or(self.logical.end);
        let depth = Some(parent.depth().saturating_sub(1));
        Self {
            depth,
            logical: start..end,
            blocks: self.blocks.clone(),
        }
    }
}

impl<B: AsRef<[u8]>> ExtentNode<B> {
    /// Checks header and entries: magic, depth, counts, order, ranges. Not the checksum.
    pub fn validate(&self, expect: &Expect, place: DamageLocation) -> Result<(), Corrupt> {
        let header = |problem| Err(Corrupt::new(place, "extent header", problem));
        if self.magic() != MAGIC {
            return header(CorruptKind::magic(self.magic().into()));
        }
        if self.depth() > MAX_DEPTH || expect.depth.is_some_and(|depth| depth != self.depth()) {
            return header(CorruptKind::Depth {
                found: self.depth(),
            });
        }
        let limit = clamp_u32(self.max());
        if self.max() == 0 || self.max() > self.capacity() {
            return header(CorruptKind::Limit {
                found: limit,
                max: clamp_u32(self.capacity()),
            });
        }
        if self.count() > self.max() {
            let count = clamp_u32(self.count());
            return header(CorruptKind::CountAboveLimit { count, limit });
        }
        if self.is_empty() && self.depth() > 0 {
            return header(CorruptKind::InnerEmpty);
        }
        match self.depth() {
            0 => self.validate_extents(expect, place),
            _ => self.validate_indexes(expect, place),
        }
    }

    fn validate_extents(&self, expect: &Expect, place: DamageLocation) -> Result<(), Corrupt> {
        let mut next = expect.logical.start;
        for extent in self.extents() {
            let logical = extent.logical.0;
            let problem = if extent.len == 0 {
                CorruptKind::ZeroLength
            } else if u64::from(logical) < next {
                CorruptKind::Order { logical }
            } else if extent.logical_end() > expect.logical.end {
                CorruptKind::BehindNode { logical }
            } else if !inside(extent.start.0, extent.physical_end(), &expect.blocks) {
                CorruptKind::BlocksOutside {
                    start: extent.start.0,
                }
            } else {
                next = extent.logical_end();
                continue;
            };
            return Err(Corrupt::new(place, "extent", problem));
        }
        Ok(())
    }

    fn validate_indexes(&self, expect: &Expect, place: DamageLocation) -> Result<(), Corrupt> {
        let mut next = expect.logical.start;
        for index in self.indexes() {
            let logical = index.logical.0;
            let key = u64::from(logical);
            let problem = if key < next {
                CorruptKind::Order { logical }
            } else if key >= expect.logical.end {
                CorruptKind::BehindNode { logical }
            } else if !expect.blocks.contains(&index.child.0) {
                CorruptKind::ChildOutside {
                    block: index.child.0,
                }
            } else {
                next = key.saturating_add(1);
                continue;
            };
            return Err(Corrupt::new(place, "extent index", problem));
        }
        Ok(())
    }
}

fn inside(start: u64, end: u64, blocks: &Range<u64>) -> bool {
    start >= blocks.start && end <= blocks.end
}
