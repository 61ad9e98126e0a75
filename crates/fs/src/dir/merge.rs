//! Merge of two neighbouring blocks below one node.
//!
//! Leaves are merged concurrently with changes elsewhere. Both leaves and the one that takes the
//! freed place are locked during the whole move, so a thread that waits for one of them fails the
//! version check and retries. Nodes are merged with the directory closed.
//!
//! Invariants: the `index` lock is held exclusively, so roots and nodes do not change.
//! Locking: the leaves that move, and nested in them one node after the other.

use super::grow::overwrite;
use super::index::Step;
use super::last::{Shrunk, drop_last, fill_with_last};
use super::reference::Reference;
use super::view::Dir;
use crate::Result;
use crate::meta::{BlockState, MetaBlock};
use uext4_format::LogicalBlock;
use uext4_format::dirent::{BlockKind, LeafTable};
use uext4_journal::{Handle, Image, Object};
use uext4_sync::Arc;

/// A planned merge of two blocks.
pub(super) struct Merge<'a> {
    /// The node above both, and the index of the entry that goes.
    pub(super) parent: &'a Step,
    pub(super) gone_at: usize,
    /// The block that stays, the block that goes, and the merged contents.
    pub(super) kept_at: LogicalBlock,
    pub(super) gone: LogicalBlock,
    pub(super) bytes: Image,
    /// Table of names of a merged leaf.
    pub(super) table: Option<LeafTable>,
    pub(super) last: Reference,
    /// Both blocks as read for the plan. Nodes cannot change under the lock.
    pub(super) seen: [Seen; 2],
}

/// A block with its change counter at the time of reading.
pub(super) struct Seen {
    pub(super) block: Arc<MetaBlock>,
    changes: u32,
}

impl Seen {
    pub(super) fn look(block: Arc<MetaBlock>) -> Self {
        let changes = block.read().changes();
        Self { block, changes }
    }

    fn stands(&self, state: &BlockState) -> bool {
        state.changes() == self.changes
    }
}

impl Merge<'_> {
    /// True when neither block has changed since.
    pub(super) fn stands(&self) -> bool {
        let stands = |seen: &Seen| seen.stands(&seen.block.read());
        self.seen.iter().all(stands)
    }

    /// Runs the merge with the directory closed.
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

    /// The block that takes the place of the leaf that goes.
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

    /// Merges two leaves concurrently, unless one has changed since it was read. `moving` is the
    /// leaf that takes the freed place.
    pub(super) fn carry_out_beside(
        mut self,
        view: &mut Dir<'_>,
        handle: &Handle<'_>,
        moving: Option<&Arc<MetaBlock>>,
    ) -> Result<Shrunk> {
        {
            let [kept, gone] = &self.seen;
            let mut merged = handle.write(&kept.block);
            let mut freed = match moving {
                Some(_) => handle.write_nested(&gone.block),
                None => gone.block.live().write_unlogged_nested(),
            };
            let mut moved = moving.map(|block| block.live().write_unlogged_nested());
            if !kept.stands(&merged) || !gone.stands(&freed) {
                return Ok(Shrunk::NoMore);
            }
            let index = &view.inode.index;
            index.begin_move();
            merged.become_leaf(self.bytes.clone(), self.table.take());
            if let Some(moved) = &mut moved {
                freed.become_leaf(moved.image(), moved.take_table());
            }
            let nodes = self.lead_past(handle, moved.is_some());
            view.inode.dir_blocks().index().end_move(index, nodes);
        }
        drop_last(view, handle)
    }

    /// Removes the entry of the leaf that goes; if another leaf takes its place, redirects that
    /// leaf's entry. Answers the changed nodes.
    fn lead_past(&self, handle: &Handle<'_>, is_filled: bool) -> [(LogicalBlock, Image); 2] {
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
        .map(|(place, block)| (place, block.live().read_nested().image()))
    }
}

/// The block that takes a freed place.
pub(super) enum Moving {
    /// None: the freed place is the last one.
    Nothing,
    Leaf(Arc<MetaBlock>),
    /// A block that cannot move concurrently.
    Another,
}
