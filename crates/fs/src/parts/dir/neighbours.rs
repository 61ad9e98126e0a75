//! Selection of two neighbouring leaves to merge, and the draft of the merged leaf.
//!
//! Invariants: the `index` lock is held exclusively, so roots and nodes do not change; leaves may.
//! All reasons to refuse a merge are checked here.
//! Locking: one object at a time.

use super::grow::{entry_of, packed};
use super::index::{Path, Step};
use super::view::{Dir, NewLeaf};
use crate::cache::meta::{BlockState, MetaBlock};
use crate::types::error::Result;
use uext4_format::LogicalBlock;
use uext4_format::dirent::{DirEntries, LeafTable};
use uext4_journal::Image;
use uext4_sync::Arc;

/// The merged contents of two leaves.
pub(super) struct Draft {
    /// Index of the left leaf's entry in the node above.
    pub(super) left_at: usize,
    /// Both leaves, in the order of their hashes.
    pub(super) leaves: [LeafSnapshot; 2],
    pub(super) bytes: Image,
    /// Table of names of the merged leaf.
    pub(super) table: Option<LeafTable>,
}

/// A leaf with its change counter at the time of reading.
pub(super) struct LeafSnapshot {
    pub(super) place: LogicalBlock,
    pub(super) block: Arc<MetaBlock>,
    image: Image,
    changes: u32,
}

impl LeafSnapshot {
    fn read(view: &Dir<'_>, place: LogicalBlock) -> Result<Self> {
        let block = view.block_or_damage(place)?;
        let (image, changes) = {
            let state = block.read();
            (state.image(), state.changes())
        };
        Ok(Self {
            place,
            block,
            image,
            changes,
        })
    }

    /// Whether the leaf, whose state this is, is as it was seen.
    pub(super) fn is_unchanged(&self, state: &BlockState) -> bool {
        state.changes() == self.changes
    }
}

/// The draft of a merge of the leaf of `path` with one of its neighbours, if a merge is worthwhile.
pub(super) fn draft(view: &Dir<'_>, path: &Path) -> Result<Option<Draft>> {
    for (left_at, places) in neighbours(path.parent()) {
        if let Some(draft) = merged(view, left_at, places)? {
            return Ok(Some(draft));
        }
    }
    Ok(None)
}

/// The neighbouring pairs of leaves that contain the step's, with the index of the left entry.
fn neighbours(step: &Step) -> Vec<(usize, [LogicalBlock; 2])> {
    let state = step.block.read();
    let node = step.kind.node(state.bytes());
    let place = |at| node.entry(at).map(|entry| entry.block);
    let pair = |left: usize| Some((left, [place(left)?, place(left + 1)?]));
    let before = step.at.checked_sub(1).and_then(pair);
    before.into_iter().chain(pair(step.at)).collect()
}

/// The merged leaf, if its entries fill at most half of it, or one of the leaves is empty.
fn merged(view: &Dir<'_>, left_at: usize, places: [LogicalBlock; 2]) -> Result<Option<Draft>> {
    let [left, right] = places;
    let leaves = [
        LeafSnapshot::read(view, left)?,
        LeafSnapshot::read(view, right)?,
    ];
    if have_too_much(&leaves) {
        return Ok(None);
    }
    let mut entries = Vec::new();
    let (mut area_bytes, mut of_left) = (0, 0);
    for (at, LeafSnapshot { block, image, .. }) in leaves.iter().enumerate() {
        area_bytes = view.leaf(&image[..], block.nr()).area_bytes();
        let area = &image[..area_bytes];
        for entry in DirEntries::new(area, 0, image.len(), view.location(block.nr())) {
            let entry = entry?;
            if !entry.is_free() {
                entries.push(entry_of(entry));
            }
        }
        if at == 0 {
            of_left = entries.len();
        }
    }
    let used: usize = entries.iter().map(|entry| entry.space_needed()).sum();
    let one_is_empty = of_left == 0 || of_left == entries.len();
    if used > area_bytes / 2 && !one_is_empty {
        return Ok(None);
    }
    let NewLeaf { bytes, table } = view.new_leaf(packed(view, entries.into_iter())?)?;
    Ok(Some(Draft {
        left_at,
        leaves,
        bytes,
        table: Some(table),
    }))
}

/// True when the tables of two leaves show that they cannot be merged.
fn have_too_much(leaves: &[LeafSnapshot; 2]) -> bool {
    match leaves.each_ref().map(used_and_area_bytes) {
        [Some((left, area)), Some((right, _))] => left.min(right) > 0 && left + right > area / 2,
        _ => false,
    }
}

/// Used and available bytes of a leaf, if its table of names is in memory.
fn used_and_area_bytes(leaf: &LeafSnapshot) -> Option<(usize, usize)> {
    let state = leaf.block.read();
    let table = state.table()?;
    Some((table.used_bytes(), table.area_bytes()))
}
