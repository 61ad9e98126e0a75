//! Merge of two neighbouring leaves below one node, while other threads change other leaves.
//!
//! The merged leaf is drafted without locks and installed if both leaves are unchanged since. Both,
//! and the leaf that takes the freed place, are locked during the whole move, so a thread that
//! waits for one of them fails the version check and retries.
//!
//! Invariants: the `index` lock is held exclusively and not closed, so roots and nodes do not
//! change. A block has its new contents before an entry leads to it.
//! Locking: the leaves, and nested in them one node after the other.

use super::index::{Path, Step};
use super::neighbours::{Draft, draft};
use super::reference::{Reference, last_reference};
use super::view::Dir;
use crate::cache::meta::MetaBlock;
use crate::parts::map;
use crate::types::credits;
use crate::types::error::Result;
use uext4_format::LogicalBlock;
use uext4_format::dirent::BlockKind;
use uext4_journal::{Handle, Image, Object};
use uext4_sync::Arc;

/// Merges the leaf of `path` with a neighbour, if both together are sparse; returns whether that
/// freed a block.
pub(super) fn merge_leaf(mut view: Dir<'_>, path: &Path) -> Result<bool> {
    let Some(draft) = draft(&view, path)? else {
        return Ok(false);
    };
    let last = LogicalBlock(view.blocks - 1);
    // The last block is not merged into: another one would have to take its place.
    let gone = usize::from(draft.leaves[0].place != last);
    let moving = if draft.leaves[gone].place == last {
        None
    } else {
        match Moving::last(&view, path)? {
            None => return Ok(false),
            found => found,
        }
    };
    // Replayed names do not depend on the blocks that hold them.
    let handle = view.fs.start_recorded(credits::DIR_SHRINK)?;
    let merge = Merge {
        parent: path.parent(),
        draft,
        gone,
        moving,
    };
    let is_done = merge.carry_out(&view, &handle);
    if is_done {
        drop_last(&mut view, &handle)?;
    }
    Ok(is_done)
}

/// Frees the last block of a directory; no entry leads to it.
fn drop_last(view: &mut Dir<'_>, handle: &Handle<'_>) -> Result<()> {
    let last = u64::from(view.blocks - 1);
    let mut state = handle.write(view.inode);
    map::remove(view.fs, handle, &mut state, last..last + 1)?;
    state.disk.size = last * view.fs.block_bytes();
    view.blocks -= 1;
    Ok(())
}

/// The last block of the directory, which moves to the freed place.
struct Moving {
    block: Arc<MetaBlock>,
    /// The entry that leads to it.
    reference: Reference,
    is_leaf: bool,
}

impl Moving {
    fn last(view: &Dir<'_>, path: &Path) -> Result<Option<Self>> {
        let Some(reference) = last_reference(view, path)? else {
            return Ok(None);
        };
        let block = view.block_or_damage(LogicalBlock(view.blocks - 1))?;
        let is_leaf = BlockKind::of(block.read().bytes()) == BlockKind::Leaf;
        Ok(Some(Self {
            block,
            reference,
            is_leaf,
        }))
    }
}

struct Merge<'a> {
    /// The node above both leaves.
    parent: &'a Step,
    draft: Draft,
    /// Which of the two leaves goes.
    gone: usize,
    moving: Option<Moving>,
}

impl Merge<'_> {
    /// Moves the entries and the last block; false if a leaf has changed since the draft.
    fn carry_out(mut self, view: &Dir<'_>, handle: &Handle<'_>) -> bool {
        let leaves = &self.draft.leaves;
        let (kept, gone) = (&leaves[1 - self.gone], &leaves[self.gone]);
        let mut merged = handle.write(&kept.block);
        let mut freed = match self.moving {
            Some(_) => handle.write_nested(&gone.block),
            None => gone.block.live().write_unlogged_nested(),
        };
        // Nodes do not change, so only a leaf is locked.
        let leaf = self.moving.as_ref().filter(|moving| moving.is_leaf);
        let mut moved = leaf.map(|moving| moving.block.live().write_unlogged_nested());
        if !kept.is_unchanged(&merged) || !gone.is_unchanged(&freed) {
            return false;
        }
        let index = &view.inode.index;
        index.begin_move();
        merged.replace(self.draft.bytes.clone(), self.draft.table.take());
        let mut nodes = vec![self.leave_parent(handle)];
        if let Some(moving) = &self.moving {
            match &mut moved {
                Some(moved) => freed.replace(moved.image(), moved.take_table()),
                None => {
                    let image = image_of_node(&moving.block);
                    freed.replace(image.clone(), None);
                    nodes.push((gone.place, image));
                }
            }
            nodes.push(self.redirect(handle, &moving.reference, gone.place));
        }
        let copy = view.inode.dir_blocks().index();
        nodes.extend(split_below(view, &nodes));
        copy.end_move(index, nodes);
        true
    }

    /// Removes an entry of the parent, and lets the other lead to the leaf that stays.
    fn leave_parent(&self, handle: &Handle<'_>) -> (LogicalBlock, Image) {
        let Step {
            place, block, kind, ..
        } = self.parent;
        let mut state = handle.write_nested(block);
        let mut node = kind.node(state.bytes_mut());
        let kept = self.draft.leaves[1 - self.gone].place;
        node.set_block(self.draft.left_at, kept);
        node.remove(self.draft.left_at + 1);
        (*place, state.image())
    }

    /// Lets the entry of the last block lead to its new place.
    fn redirect(
        &self,
        handle: &Handle<'_>,
        reference: &Reference,
        to: LogicalBlock,
    ) -> (LogicalBlock, Image) {
        let Reference {
            place, block, kind, ..
        } = reference;
        let in_parent = block.nr() == self.parent.block.nr();
        let is_behind = in_parent && reference.at > self.draft.left_at;
        let mut state = handle.write_nested(block);
        let mut node = kind.node(state.bytes_mut());
        node.set_block(reference.at - usize::from(is_behind), to);
        (*place, state.image())
    }
}

/// The nodes above leaves that were split since the last move, without those of `nodes`.
fn split_below(view: &Dir<'_>, nodes: &[(LogicalBlock, Image)]) -> Vec<(LogicalBlock, Image)> {
    let blocks = view.inode.dir_blocks();
    let behind = blocks.index().behind().into_iter();
    behind
        .filter(|place| nodes.iter().all(|(known, _)| known != place))
        .filter_map(|place| Some((place, image_of_node(&*blocks.block(place)?))))
        .collect()
}

fn image_of_node(block: &MetaBlock) -> Image {
    block.live().read_nested().image()
}
