//! Two neighbours below one node that become one block.
//!
//! Leaves are merged beside all who change entries elsewhere: both and the one that takes the freed
//! place are locked from before the version advances until it has advanced again, so that who waits
//! for one of them finds that the version is past, and looks again. Nodes are merged with the
//! directory closed.
//!
//! Invariants: the `index` lock is held exclusively, so roots and nodes stay as they were looked
//! at. All that can be refused is found out before the first change.
//! Locking: the leaves that move, and nested in them one node after the other.

use super::blocks::Node;
use super::grow::{entry_of, overwrite, packed};
use super::index::{Path, Step};
use super::last::{Shrunk, drop_last, fill_with_last};
use super::reference::{Reference, last_reference};
use super::view::Dir;
use crate::Result;
use crate::meta::{BlockState, MetaBlock};
use std::sync::Arc;
use uext4_format::LogicalBlock;
use uext4_format::dirent::{BlockKind, DirEntries};
use uext4_format::htree::{DxEntry, DxNode};
use uext4_journal::{Handle, Object};

/// Two blocks that become one.
pub(super) struct Merge<'a> {
    /// The node that leads to both, and the entry of the one that goes.
    parent: &'a Step,
    gone_at: usize,
    /// The block that stays, the one that goes, and the bytes of both.
    kept_at: LogicalBlock,
    gone: LogicalBlock,
    bytes: Vec<u8>,
    last: Reference,
    /// Both, as they were looked at. Nodes stay, for the lock is held.
    seen: [Seen; 2],
}

/// A block, and how often it had been changed when it was looked at.
struct Seen {
    block: Arc<MetaBlock>,
    changes: u32,
}

impl Seen {
    fn look(block: Arc<MetaBlock>) -> Self {
        let changes = block.read().changes();
        Self { block, changes }
    }

    fn stands(&self, state: &BlockState) -> bool {
        state.changes() == self.changes
    }
}

impl Merge<'_> {
    /// True when both are as they were looked at.
    pub(super) fn stands(&self) -> bool {
        let stands = |seen: &Seen| seen.stands(&seen.block.read());
        self.seen.iter().all(stands)
    }

    /// Merges them with the directory closed.
    pub(super) fn carry_out(self, view: &mut Dir<'_>, handle: &Handle<'_>) -> Result<Shrunk> {
        overwrite(handle, &self.seen[0].block, &self.bytes);
        self.leave_parent(handle);
        let last = self.last.after_removal(self.parent, self.gone_at);
        fill_with_last(view, handle, self.gone, &last)
    }

    fn leave_parent(&self, handle: &Handle<'_>) {
        let Step { block, kind, .. } = self.parent;
        let mut state = handle.write_nested(block);
        kind.node(state.bytes_mut()).remove(self.gone_at);
    }

    /// What is to take the place of the leaf that goes.
    pub(super) fn moving(&self, view: &Dir<'_>) -> Result<Moving> {
        let last = LogicalBlock(view.blocks - 1);
        if self.gone == last {
            return Ok(Moving::Nothing);
        }
        let block = view.block_or_damage(last)?;
        let is_leaf = BlockKind::of(block.read().bytes()) == BlockKind::Leaf;
        Ok(match is_leaf && self.kept_at != last {
            true => Moving::Leaf(block),
            false => Moving::Another,
        })
    }

    /// Merges two leaves beside others, unless one has changed since it was looked at. `moving` is
    /// the leaf that takes the freed place.
    pub(super) fn carry_out_beside(
        self,
        view: &mut Dir<'_>,
        handle: &Handle<'_>,
        moving: Option<&Arc<MetaBlock>>,
    ) -> Result<Shrunk> {
        let [kept, gone] = &self.seen;
        {
            let mut merged = handle.write(&kept.block);
            let mut freed = match moving {
                Some(_) => handle.write_nested(&gone.block),
                None => gone.block.live().write_unlogged_nested(),
            };
            let moved = moving.map(|block| block.live().write_unlogged_nested());
            if !kept.stands(&merged) || !gone.stands(&freed) {
                return Ok(Shrunk::NoMore);
            }
            let index = &view.inode.index;
            let before = index.version();
            index.advance();
            merged.bytes_mut().copy_from_slice(&self.bytes);
            if let Some(moved) = &moved {
                freed.bytes_mut().copy_from_slice(moved.bytes());
            }
            let nodes = self.lead_past(handle, moved.is_some());
            index.advance();
            if let (Some(before), Some(now)) = (before, index.version()) {
                view.inode.dir_blocks().carry_over(before, now, nodes);
            }
        }
        drop_last(view, handle)
    }

    /// No entry leads to the leaf that goes any more, but that of the leaf in its place, if one is.
    /// Answers the nodes that are others now.
    fn lead_past(&self, handle: &Handle<'_>, is_filled: bool) -> [(LogicalBlock, Node); 2] {
        self.leave_parent(handle);
        let last = self.last.after_removal(self.parent, self.gone_at);
        if is_filled {
            let mut state = handle.write_nested(&last.block);
            last.kind
                .node(state.bytes_mut())
                .set_block(last.at, self.gone);
        }
        [
            (self.parent.place, &self.parent.block),
            (last.place, &last.block),
        ]
        .map(|(place, block)| {
            let bytes = block.live().read_nested().image();
            let nr = block.nr();
            (place, Node { nr, bytes })
        })
    }
}

/// What takes a freed place.
pub(super) enum Moving {
    /// The place is the last one.
    Nothing,
    Leaf(Arc<MetaBlock>),
    /// Something that cannot move beside others.
    Another,
}

/// The pairs of neighbours that entry `at` of a node is in.
fn neighbours(step: &Step) -> Vec<(DxEntry, usize, DxEntry)> {
    let state = step.block.read();
    let node = step.kind.node(state.bytes());
    let pair = |left: usize| Some((node.entry(left)?, left + 1, node.entry(left + 1)?));
    let before = step.at.checked_sub(1).and_then(pair);
    before.into_iter().chain(pair(step.at)).collect()
}

/// A merge of the leaf of `path` with a neighbour.
pub(super) fn leaves_to_merge<'a>(view: &Dir<'_>, path: &'a Path) -> Result<Option<Merge<'a>>> {
    let merged = |left: &MetaBlock, right: DxEntry| merged_leaves(view, left, right.block);
    merge_below(view, path, path.parent(), merged)
}

/// A merge of two neighbours below `parent`, if `merged` finds bytes that hold both.
fn merge_below<'a>(
    view: &Dir<'_>,
    path: &'a Path,
    parent: &'a Step,
    merged: impl Fn(&MetaBlock, DxEntry) -> Result<Option<Vec<u8>>>,
) -> Result<Option<Merge<'a>>> {
    for (left, gone_at, right) in neighbours(parent) {
        let pair = [
            view.block_or_damage(left.block)?,
            view.block_or_damage(right.block)?,
        ];
        let seen = pair.map(Seen::look);
        let Some(bytes) = merged(&seen[0].block, right)? else {
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
            last,
            seen,
        }));
    }
    Ok(None)
}

/// The leaf with the entries of both, if they fill at most half of it, or one has none.
fn merged_leaves(view: &Dir<'_>, left: &MetaBlock, right: LogicalBlock) -> Result<Option<Vec<u8>>> {
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
    packed(view, entries.into_iter()).map(Some)
}

/// True when what is known of two leaves says that they cannot be merged.
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
    // The reference may stand in the node that goes: then it has moved to the one that stays.
    let [kept, gone] = merge.seen.each_ref().map(|seen| &seen.block);
    let left_count = DxNode::node(kept.read().bytes()).count();
    let last = merge
        .last
        .after_merge(gone, (kept, merge.kept_at), left_count);
    Ok(Some(Merge { last, ..merge }))
}

/// The left node with the entries of both, if they fill at most half of it, or one has just one.
fn merged_nodes(view: &Dir<'_>, left: &MetaBlock, right: DxEntry) -> Result<Option<Vec<u8>>> {
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
        // The first entry of a node has its hash in the parent.
        let hash = if at == 0 { right.hash } else { entry.hash };
        let count = node.count();
        let moved = node.insert(count, DxEntry { hash, ..entry });
        moved.map_err(|_| view.damage("a node does not take what fits"))?;
    }
    Ok(Some(bytes))
}
