//! Selection of two neighbouring blocks to merge, and their merged contents.
//!
//! Invariants: the `index` lock is held exclusively, so roots and nodes do not change; leaves may.
//! All reasons to refuse a merge are checked here.
//! Locking: one object at a time.

use super::grow::{entry_of, packed};
use super::index::{Path, Step};
use super::merge::{Merge, Seen};
use super::reference::last_reference;
use super::view::{Dir, NewLeaf};
use crate::Result;
use crate::meta::MetaBlock;
use uext4_format::dirent::{DirEntries, LeafTable};
use uext4_format::htree::{DxEntry, DxNode};
use uext4_format::{CorruptKind, LogicalBlock};
use uext4_journal::Image;

/// The neighbouring pairs that contain entry `at` of a node.
fn neighbours(step: &Step) -> Vec<(DxEntry, usize, DxEntry)> {
    let state = step.block.read();
    let node = step.kind.node(state.bytes());
    let pair = |left: usize| Some((node.entry(left)?, left + 1, node.entry(left + 1)?));
    let before = step.at.checked_sub(1).and_then(pair);
    before.into_iter().chain(pair(step.at)).collect()
}

/// Merged contents, with the table of names if they are a leaf.
type Merged = (Image, Option<LeafTable>);

/// A merge of the leaf of `path` with a neighbour.
pub(super) fn leaves_to_merge<'a>(view: &Dir<'_>, path: &'a Path) -> Result<Option<Merge<'a>>> {
    let merged = |left: &MetaBlock, right: DxEntry| merged_leaves(view, left, right.block);
    merge_below(view, path, path.parent(), merged)
}

/// A merge of two neighbours below `parent`, if `merged` answers contents for them.
fn merge_below<'a>(
    view: &Dir<'_>,
    path: &'a Path,
    parent: &'a Step,
    merged: impl Fn(&MetaBlock, DxEntry) -> Result<Option<Merged>>,
) -> Result<Option<Merge<'a>>> {
    for (left, gone_at, right) in neighbours(parent) {
        let pair = [
            view.block_or_damage(left.block)?,
            view.block_or_damage(right.block)?,
        ];
        let seen = pair.map(Seen::look);
        let Some((bytes, table)) = merged(&seen[0].block, right)? else {
            continue;
        };
        let Some(last) = last_reference(view, path)? else {
            return Ok(None);
        };
        return Ok(Some(Merge {
            parent,
            gone_at,
            kept_at: left.block,
            gone: right.block,
            bytes,
            table,
            last,
            seen,
        }));
    }
    Ok(None)
}

/// The merged leaf, if its entries fill at most half of it, or one of the leaves is empty.
fn merged_leaves(view: &Dir<'_>, left: &MetaBlock, right: LogicalBlock) -> Result<Option<Merged>> {
    let right = view.block_or_damage(right)?;
    if have_too_much(left, &right) {
        return Ok(None);
    }
    let images = [(left.nr(), left.image()), (right.nr(), right.image())];
    let mut entries = Vec::new();
    let mut area_bytes = 0;
    let mut of_left = 0;
    for (nr, image) in &images {
        area_bytes = view.leaf(&image[..], *nr).area_bytes();
        let area = &image[..area_bytes];
        for entry in DirEntries::new(area, 0, image.len(), view.place(*nr)) {
            let entry = entry?;
            if !entry.is_free() {
                entries.push(entry_of(entry));
            }
        }
        if *nr == left.nr() {
            of_left = entries.len();
        }
    }
    let used: usize = entries.iter().map(|entry| entry.space_needed()).sum();
    let one_is_empty = of_left == 0 || of_left == entries.len();
    if used > area_bytes / 2 && !one_is_empty {
        return Ok(None);
    }
    let NewLeaf { bytes, table } = view.new_leaf(packed(view, entries.into_iter())?)?;
    Ok(Some((bytes, Some(table))))
}

/// True when the tables of two leaves show that they cannot be merged.
fn have_too_much(left: &MetaBlock, right: &MetaBlock) -> bool {
    let known = |block: &MetaBlock| {
        let state = block.read();
        let table = state.table()?;
        Some((table.used_bytes(), table.area_bytes()))
    };
    match (known(left), known(right)) {
        (Some((left, area)), Some((right, _))) => left.min(right) > 0 && left + right > area / 2,
        _ => false,
    }
}

/// A merge of the node of `path` at `level` with a neighbour.
pub(super) fn nodes_to_merge<'a>(
    view: &Dir<'_>,
    path: &'a Path,
    level: usize,
) -> Result<Option<Merge<'a>>> {
    let merged = |left: &MetaBlock, right: DxEntry| merged_nodes(view, left, right);
    let Some(merge) = merge_below(view, path, path.step(level - 1), merged)? else {
        return Ok(None);
    };
    // The reference may be in the node that goes: then it moves to the one that stays.
    let [kept, gone] = merge.seen.each_ref().map(|seen| &seen.block);
    let left_count = DxNode::node(kept.read().bytes()).count();
    let last = merge
        .last
        .after_merge(gone, (kept, merge.kept_at), left_count);
    Ok(Some(Merge { last, ..merge }))
}

/// The merged node, if its entries fill at most half of it, or one of the nodes has just one.
fn merged_nodes(view: &Dir<'_>, left: &MetaBlock, right: DxEntry) -> Result<Option<Merged>> {
    let right_block = view.block_or_damage(right.block)?;
    let mut bytes = left.image().to_vec();
    let state = right_block.read();
    let above = DxNode::node(state.bytes());
    let mut node = DxNode::node(&mut bytes[..]);
    let (count, more) = (node.count(), above.count());
    let limit = if count.min(more) == 1 {
        node.limit()
    } else {
        node.limit() / 2
    };
    if count + more > limit {
        return Ok(None);
    }
    for (at, entry) in above.entries().enumerate() {
        // The hash of a node's first entry is in its parent.
        let hash = if at == 0 { right.hash } else { entry.hash };
        let count = node.count();
        let moved = node.insert(count, DxEntry { hash, ..entry });
        moved.map_err(|_| view.damage(CorruptKind::NodeTakesNot))?;
    }
    Ok(Some((bytes.into(), None)))
}
