//! Node splits, and growth of the tree at the root, to free slots in a leaf.
//!
//! Each step takes one new block and leaves a valid tree. If space runs out in between, the tree is
//! valid with emptier nodes.

use super::super::tree_blocks::new_tree_block;
use super::walk::{self, Node, Step, Steps};
use crate::state::engine::Fs;
use crate::state::inode::InodeState;
use crate::types::error::{Error, Result};
use uext4_format::extent::{ExtentIndex, ExtentNode, MAX_DEPTH};
use uext4_format::{BlockNr, Corrupt, CorruptKind, DamageLocation, LogicalBlock};
use uext4_journal::Handle;
use uext4_num::u64_of;

/// Each level splits at most once, and the root grows once, before a leaf has free slots.
const STEPS_MAX: u16 = 2 * MAX_DEPTH + 2;

/// Free slots of a node.
pub(super) fn free_slots(node: &Node, state: &InodeState) -> usize {
    node.read(state, |node| {
        node.max().min(node.capacity()).saturating_sub(node.count())
    })
}

/// Blocks that [`make`] takes to give the leaf for `key` one free slot.
pub(in crate::parts::map) fn wanted(fs: &Fs, state: &InodeState, key: LogicalBlock) -> Result<u64> {
    let path = walk::path(fs, state, key)?;
    let up = path.iter().rev();
    let full = up.take_while(|step| free_slots(&step.node, state) == 0);
    // A full root moves into a block, which then has space or splits; other full nodes split.
    Ok(u64_of(full.count()))
}

/// Splits nodes until the leaf for `key` has `slots` free slots; returns the path to it.
pub(super) fn make(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &mut InodeState,
    key: LogicalBlock,
    slots: usize,
) -> Result<Steps> {
    for _ in 0..STEPS_MAX {
        let path = walk::path(fs, state, key)?;
        let (leaf, inner) = path.split_last().expect("a path has a leaf");
        if free_slots(&leaf.node, state) >= slots {
            return Ok(path);
        }
        match inner
            .iter()
            .rposition(|step| free_slots(&step.node, state) > 0)
        {
            None => grow(fs, handle, state)?,
            Some(parent) => split(fs, handle, state, &path, parent, key)?,
        }
    }
    let place = DamageLocation::Inode(state.nr());
    Err(Corrupt::new(place, "extent header", CorruptKind::NoSplit).into())
}

/// Moves the entries of the root into a new block below it.
pub(super) fn grow(fs: &Fs, handle: &Handle<'_>, state: &mut InodeState) -> Result<()> {
    let depth = ExtentNode::new(&state.disk.i_block[..]).depth();
    if depth >= MAX_DEPTH {
        return Err(Error::NoSpace);
    }
    let nr = new_tree_block(fs, handle, state, near(&Node::Root, state))?;
    let mut bytes = vec![0; fs.block_size()];
    let mut child = ExtentNode::init_block(&mut bytes[..], depth);
    let mut root = ExtentNode::new(&mut state.disk.i_block[..]);
    root.move_tail_to(0, &mut child)
        .expect("a block holds more than the root");
    let logical = child.key(0).unwrap_or_default();
    root.set_depth(depth + 1);
    root.insert_index(0, ExtentIndex { logical, child: nr })
        .expect("the root is empty");
    fs.blocks
        .create(handle, nr, walk::seal(state), bytes.into());
    Ok(())
}

/// Splits the child below the step `parent`, which has a free slot.
fn split(
    fs: &Fs,
    handle: &Handle<'_>,
    state: &mut InodeState,
    path: &[Step],
    parent: usize,
    key: LogicalBlock,
) -> Result<()> {
    let node = &path[parent + 1].node;
    let (count, depth, position) =
        node.read(state, |node| (node.count(), node.depth(), node.search(key)));
    if count < 2 {
        let place = DamageLocation::Inode(state.nr());
        return Err(Corrupt::new(place, "extent header", CorruptKind::NoSplit).into());
    }
    let nr = new_tree_block(fs, handle, state, near(node, state))?;
    let mut bytes = vec![0; fs.block_size()];
    let mut right = ExtentNode::init_block(&mut bytes[..], depth);
    let middle = split_point(count, position);
    node.edit(handle, state, |left| left.move_tail_to(middle, &mut right))
        .expect("an empty block holds what a block held");
    let logical = right.key(0).unwrap_or_default();
    fs.blocks
        .create(handle, nr, walk::seal(state), bytes.into());
    let step = &path[parent];
    step.node
        .edit(handle, state, |node| {
            node.insert_index(step.at + 1, ExtentIndex { logical, child: nr })
        })
        .expect("the parent has a free slot");
    Ok(())
}

/// Entries that stay in the left node. A file that grows at its end or at its start leaves full
/// nodes behind.
fn split_point(count: usize, position: Option<usize>) -> usize {
    match position {
        Some(position) if position + 1 >= count => count - 1,
        None => 1,
        Some(_) => count / 2,
    }
}

/// Goal for a new tree block: near the block or the entries of the node.
fn near(node: &Node, state: &InodeState) -> Option<BlockNr> {
    node.block().map(|block| block.nr()).or_else(|| {
        node.read(state, |node| match node.depth() {
            0 => node.extent(0).map(|extent| extent.start),
            _ => node.index(0).map(|index| index.child),
        })
    })
}
