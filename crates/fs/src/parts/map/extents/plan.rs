//! Planned changes of one leaf: entries, and what takes their place.

use std::ops::Range;
use uext4_format::extent::{Extent, ExtentNode};
use uext4_format::{BlockNr, LogicalBlock};
use uext4_num::{clamp_u16, clamp_u32};

/// Entries of a leaf, and their replacement.
pub(super) struct Change {
    pub(super) at: Range<usize>,
    pub(super) with: Vec<Extent>,
}

impl Change {
    pub(super) fn nothing() -> Self {
        Change {
            at: 0..0,
            with: Vec::new(),
        }
    }

    pub(super) fn extra(&self) -> usize {
        self.with.len().saturating_sub(self.at.len())
    }

    pub(super) fn is_nothing(&self) -> bool {
        self.at.is_empty() && self.with.is_empty()
    }
}

/// The part of an extent between two logical blocks, if it is not empty.
pub(super) fn sub_extent(extent: &Extent, from: u64, to: u64) -> Option<Extent> {
    let skip = from.checked_sub(u64::from(extent.logical.0))?;
    (from < to).then(|| Extent {
        logical: LogicalBlock(clamp_u32(from)),
        start: BlockNr(extent.start.0 + skip),
        len: clamp_u16(to - from),
        state: extent.state,
    })
}

/// Replaces entries by parts, merged with the neighbours where possible.
pub(super) fn join(
    at: Range<usize>,
    parts: [Option<Extent>; 3],
    left: Option<Extent>,
    right: Option<Extent>,
) -> Change {
    let mut with: Vec<Extent> = parts.into_iter().flatten().collect();
    let mut at = at;
    if let (Some(left), Some(first)) = (left, with.first_mut())
        && left.joins(first)
    {
        *first = Extent {
            len: left.len + first.len,
            ..left
        };
        at.start -= 1;
    }
    if let (Some(right), Some(last)) = (right, with.last_mut())
        && last.joins(&right)
    {
        last.len += right.len;
        at.end += 1;
    }
    Change { at, with }
}

/// The extents before and behind a block in a hole.
pub(super) fn neighbours(
    node: &ExtentNode<&[u8]>,
    at: LogicalBlock,
) -> (Option<Extent>, Option<Extent>) {
    let position = node.search(at);
    let left = position.and_then(|position| node.extent(position));
    (
        left,
        node.extent(position.map_or(0, |position| position + 1)),
    )
}
