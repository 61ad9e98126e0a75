//! Taking blocks back from a directory that loses names.
//!
//! A leaf with little left is merged with a neighbour below the same node, a node with its
//! neighbour, and a root above a single node takes over that node's entries. The block that becomes
//! free is filled with the last block of the directory, whose only reference is changed, and the
//! directory ends one block earlier. So it never has a hole, which neither e2fsck nor other
//! implementations would accept. The kernel never shrinks a directory; it reads this one like any.
//!
//! Invariants: the `index` lock is held exclusively, and closed from the moment that the blocks of
//! a merge are known to be as they were looked at until the last block has its new place. All that
//! can be refused is found out before the first change; a step is one transaction, and leaves a
//! sound directory. Merged blocks are at most half full, so that the next names do not split them
//! again. Positions of a listing in hash order do not change; behind the end of a linear directory
//! there is nothing to list.
//! Locking: one object at a time.

use super::grow::{entry_of, overwrite, packed};
use super::index::{Path, Probe, Step, Target, probe};
use super::reference::{Reference, last_reference};
use super::view::{Dir, Form};
use crate::meta::MetaBlock;
use crate::{Fs, Inode, Result, map};
use std::sync::Arc;
use uext4_format::LogicalBlock;
use uext4_format::dirent::{DirEntries, KnownLeafMut};
use uext4_format::htree::{DxEntry, DxNode, RootInfo};
use uext4_journal::{Handle, Image};

/// Whether a step found something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shrunk {
    /// A block less: there may be more to do.
    ByABlock,
    /// Nothing to do.
    NoMore,
}

/// One step, near where `name` stands or stood.
pub(crate) fn shrink(
    fs: &Fs,
    handle: &Handle<'_>,
    dir: &Arc<Inode>,
    name: &[u8],
) -> Result<Shrunk> {
    let mut view = Dir::open(fs, dir)?;
    match view.form {
        Form::Inline => Ok(Shrunk::NoMore),
        Form::Linear => {
            dir.index.close();
            drop_empty_end(&mut view, handle)
        }
        Form::Indexed => match probe(&view, Target::Name(name))? {
            Probe::Path(path) => shrink_index(&mut view, handle, &path),
            Probe::Broken(_) => Ok(Shrunk::NoMore),
        },
    }
}

/// The last block of a linear directory goes when it is empty.
fn drop_empty_end(view: &mut Dir<'_>, handle: &Handle<'_>) -> Result<Shrunk> {
    let Some(last) = view.blocks.checked_sub(1).filter(|last| *last > 0) else {
        return Ok(Shrunk::NoMore);
    };
    let Some(block) = view.block(LogicalBlock(last))? else {
        return Ok(Shrunk::NoMore);
    };
    let image = block.image();
    let leaf = view.leaf(&image[..], block.nr());
    let used = leaf.entries().next().transpose()?.is_some();
    if used {
        Ok(Shrunk::NoMore)
    } else {
        drop_last(view, handle)
    }
}

fn shrink_index(view: &mut Dir<'_>, handle: &Handle<'_>, path: &Path) -> Result<Shrunk> {
    if let Some(merge) = leaves_to_merge(view, path)? {
        view.inode.index.close();
        let merge = match merge.seen.iter().all(Seen::stands) {
            true => Some(merge),
            false => leaves_to_merge(view, path)?,
        };
        return merge.map_or(Ok(Shrunk::NoMore), |merge| merge.carry_out(view, handle));
    }
    for level in (1..path.len()).rev() {
        if let Some(merge) = nodes_to_merge(view, path, level)? {
            view.inode.index.close();
            return merge.carry_out(view, handle);
        }
    }
    lower_root(view, handle, path)
}

/// Two blocks that become one.
struct Merge<'a> {
    /// The node that leads to both, and the entry of the one that goes.
    parent: &'a Step,
    gone_at: usize,
    /// The block that stays, and its bytes then.
    kept: Arc<MetaBlock>,
    bytes: Vec<u8>,
    gone: LogicalBlock,
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

    fn stands(&self) -> bool {
        self.block.read().changes() == self.changes
    }
}

impl Merge<'_> {
    fn carry_out(self, view: &mut Dir<'_>, handle: &Handle<'_>) -> Result<Shrunk> {
        overwrite(handle, &self.kept, &self.bytes);
        {
            let mut state = handle.write(&self.parent.block);
            self.parent
                .kind
                .node(state.bytes_mut())
                .remove(self.gone_at);
        }
        let last = self.last.after_removal(self.parent, self.gone_at);
        fill_with_last(view, handle, self.gone, &last)
    }
}

/// The pairs of neighbours that entry `at` of a node is in.
fn neighbours(step: &Step) -> Vec<(DxEntry, usize, DxEntry)> {
    let state = step.block.read();
    let node = step.kind.node(state.bytes());
    let pair = |left: usize| Some((node.entry(left)?, left + 1, node.entry(left + 1)?));
    let before = step.at.checked_sub(1).and_then(pair);
    before.into_iter().chain(pair(step.at)).collect()
}

fn leaves_to_merge<'a>(view: &Dir<'_>, path: &'a Path) -> Result<Option<Merge<'a>>> {
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
        let kept = view.block_or_damage(left.block)?;
        let seen = [kept.clone(), view.block_or_damage(right.block)?].map(Seen::look);
        let Some(bytes) = merged(&kept, right)? else {
            continue;
        };
        let Some(last) = last_reference(view, path)? else {
            return Ok(None);
        };
        return Ok(Some(Merge {
            parent,
            gone_at,
            kept,
            bytes,
            gone: right.block,
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

fn nodes_to_merge<'a>(view: &Dir<'_>, path: &'a Path, level: usize) -> Result<Option<Merge<'a>>> {
    let merged = |left: &MetaBlock, right: DxEntry| merged_nodes(view, left, right);
    let Some(merge) = merge_below(view, path, path.step(level - 1), merged)? else {
        return Ok(None);
    };
    // The reference may stand in the node that goes: then it has moved to the one that stays.
    let gone = view.block_or_damage(merge.gone)?;
    let left_count = DxNode::node(merge.kept.read().bytes()).count();
    let last = merge.last.after_merge(&gone, &merge.kept, left_count);
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

/// A root with one node below takes over that node's entries.
fn lower_root(view: &mut Dir<'_>, handle: &Handle<'_>, path: &Path) -> Result<Shrunk> {
    let root = path.step(0);
    let mut bytes = root.block.image().to_vec();
    let mut entries = DxNode::root(&mut bytes[..]);
    let (1, Some(below)) = (entries.count(), entries.entry(0)) else {
        return Ok(Shrunk::NoMore);
    };
    if path.len() < 2 {
        return Ok(Shrunk::NoMore);
    }
    let node = &path.step(1).block;
    let image = node.image();
    let from = DxNode::node(&image[..]);
    if from.count() > entries.limit() / 2 {
        return Ok(Shrunk::NoMore);
    }
    for (at, entry) in from.entries().enumerate() {
        if at == 0 {
            entries.set_block(0, entry.block);
        } else {
            let moved = entries.insert(at, entry);
            moved.map_err(|_| view.damage("a root does not take what fits"))?;
        }
    }
    let info = RootInfo::parse(&bytes, view.config().levels, view.place(root.block.nr()))?;
    RootInfo::set_indirect_levels(&mut bytes, info.indirect_levels - 1);
    let Some(last) = last_reference(view, path)? else {
        return Ok(Shrunk::NoMore);
    };
    let last = last.after_merge(node, &root.block, 0).in_root(root);
    view.inode.index.close();
    overwrite(handle, &root.block, &bytes);
    fill_with_last(view, handle, below.block, &last)
}

/// Moves the last block of the directory to `free`, to which no entry leads any more.
fn fill_with_last(
    view: &mut Dir<'_>,
    handle: &Handle<'_>,
    free: LogicalBlock,
    reference: &Reference,
) -> Result<Shrunk> {
    let last = LogicalBlock(view.blocks - 1);
    if free != last {
        let bytes: Image = view.block_or_damage(last)?.image();
        let place = view.block_or_damage(free)?;
        overwrite(handle, &place, &bytes);
        // The node that is changed may be the one that has just moved.
        let moved = reference.block.nr() == view.block_or_damage(last)?.nr();
        let holder = if moved { &place } else { &reference.block };
        let mut state = handle.write(holder);
        reference
            .kind
            .node(state.bytes_mut())
            .set_block(reference.at, free);
    }
    // Nothing leads to the last block any more, and who is in it still is out again before anybody
    // changes its entries at their new place. All else that moved was overwritten.
    view.block_or_damage(last)?.drain();
    view.inode.index.open();
    drop_last(view, handle)
}

/// Ends the directory one block earlier.
pub(super) fn drop_last(view: &mut Dir<'_>, handle: &Handle<'_>) -> Result<Shrunk> {
    let last = u64::from(view.blocks - 1);
    let mut state = handle.write(view.inode);
    map::remove(view.fs, handle, &mut state, last..last + 1)?;
    state.disk.size = last * view.fs.block_size() as u64;
    view.blocks -= 1;
    Ok(Shrunk::ByABlock)
}

/// True when so little is left in a leaf, which was changed `changes` times, that a look at its
/// neighbours may pay: so now and then only.
pub(super) fn is_sparse(leaf: &KnownLeafMut<'_>, changes: u32) -> bool {
    const LOOK_EVERY: u32 = 16;
    leaf.is_blank()
        || changes.is_multiple_of(LOOK_EVERY) && leaf.used_bytes() <= leaf.area_bytes() / 4
}
