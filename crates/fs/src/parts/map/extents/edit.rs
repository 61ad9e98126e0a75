//! Changes of one leaf, and their effects above: keys of parents, nodes that became empty.

use super::super::tree_blocks::free_tree_block;
use super::plan::Change;
use super::room;
use super::walk::{self, Node, Step};
use crate::state::engine::Fs;
use crate::state::inode::InodeState;
use crate::types::error::Result;
use uext4_format::LogicalBlock;
use uext4_format::extent::{ExtentNode, ROOT_CAPACITY};
use uext4_journal::Handle;

/// Plans a change of the leaf for `key` and applies it. If the leaf lacks slots, splits it and
/// plans again.
pub(super) fn change_leaf(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &mut InodeState,
    key: LogicalBlock,
    mut plan: impl FnMut(&ExtentNode<&[u8]>) -> Result<Change>,
) -> Result<()> {
    let mut path = walk::path(fs, state, key)?;
    let mut change = leaf(&path).read(state, |node| plan(&node))?;
    if room::free_slots(leaf(&path), state) < change.extra() {
        path = room::make(fs, handle, state, key, change.extra())?;
        change = leaf(&path).read(state, |node| plan(&node))?;
    }
    if change.is_nothing() {
        return Ok(());
    }
    apply(fs, handle, state, &path, change)
}

fn leaf(path: &[Step]) -> &Node {
    &path.last().expect("a path has a leaf").node
}

fn apply(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &mut InodeState,
    path: &[Step],
    change: Change,
) -> Result<()> {
    let first = change.at.start == 0;
    let empty = leaf(path).edit(handle, state, |node| {
        // In place first: most changes extend or shorten one extent.
        let kept = change.at.len().min(change.with.len());
        for (offset, extent) in change.with.iter().take(kept).enumerate() {
            node.set_extent(change.at.start + offset, *extent);
        }
        node.remove(change.at.start + kept..change.at.end);
        for (offset, extent) in change.with.iter().enumerate().skip(kept) {
            let inserted = node.insert_extent(change.at.start + offset, *extent);
            debug_assert!(inserted.is_ok(), "room was made");
        }
        node.is_empty()
    });
    let level = path.len() - 1;
    if empty && level > 0 {
        return drop_empty(fs, handle, state, path, level);
    }
    if first {
        fix_keys(handle, state, path, level);
    }
    Ok(())
}

/// Copies the first key of the node at `level` to its parents.
pub(super) fn fix_keys(handle: &Handle<'_>, state: &mut InodeState, path: &[Step], level: usize) {
    let Some(key) = path[level].node.read(state, |node| node.key(0)) else {
        return;
    };
    for step in path[..level].iter().rev() {
        if step.node.read(state, |node| node.key(step.at)) != Some(key) {
            step.node
                .edit(handle, state, |node| node.set_key(step.at, key));
        }
        if step.at != 0 {
            return;
        }
    }
}

/// Frees the empty node at `level`, and each parent that becomes empty with it.
fn drop_empty(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &mut InodeState,
    path: &[Step],
    level: usize,
) -> Result<()> {
    let mut level = level;
    while level > 0 {
        if let Node::Block(block) = &path[level].node {
            let seal = walk::seal(state);
            free_tree_block(fs, handle, state, block.nr(), seal)?;
        }
        level -= 1;
        let parent = &path[level];
        let empty = parent.node.edit(handle, state, |node| {
            node.remove(parent.at..parent.at + 1);
            node.is_empty()
        });
        if !empty {
            if parent.at == 0 {
                fix_keys(handle, state, path, level);
            }
            return Ok(());
        }
    }
    // An empty map: an inner node must have entries, so the root becomes a leaf.
    Node::Root.edit(handle, state, |node| node.set_depth(0));
    Ok(())
}

/// Moves the only child of the root back into the inode while it fits there.
pub(in crate::parts::map) fn shrink(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &mut InodeState,
) -> Result<()> {
    loop {
        let root = ExtentNode::new(&state.disk.i_block[..]);
        if root.depth() == 0 || root.count() != 1 {
            return Ok(());
        }
        let path = walk::path(fs, state, LogicalBlock(0))?;
        let child = &path[1].node;
        if child.read(state, |node| node.count()) > usize::from(ROOT_CAPACITY) {
            return Ok(());
        }
        let generation = root.generation();
        let bytes = child.read(state, |node| copy_to_root(&node, generation));
        state.disk.i_block = bytes;
        if let Node::Block(block) = child {
            let seal = walk::seal(state);
            free_tree_block(fs, handle, state, block.nr(), seal)?;
        }
    }
}

fn copy_to_root(node: &ExtentNode<&[u8]>, generation: u32) -> [u8; 60] {
    let mut bytes = [0; 60];
    let mut root = ExtentNode::init_root(&mut bytes[..], node.depth());
    root.set_generation(generation);
    for at in 0..node.count() {
        let copied = match node.depth() {
            0 => node.extent(at).map(|extent| root.insert_extent(at, extent)),
            _ => node.index(at).map(|index| root.insert_index(at, index)),
        };
        debug_assert!(matches!(copied, Some(Ok(()))), "the child fits the root");
    }
    bytes
}
