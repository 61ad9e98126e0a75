//! Taking blocks back from a directory that loses names.
//!
//! A leaf with little left is merged with a neighbour below the same node, a node with its
//! neighbour, and a root above a single node takes over that node's entries. The block that becomes
//! free is filled with the last block of the directory, whose only reference is changed, and the
//! directory ends one block earlier. So it never has a hole, which neither e2fsck nor other
//! implementations would accept. The kernel never shrinks a directory; it reads this one like any.
//!
//! Invariants: the `index` lock is held exclusively; it is closed while nodes are merged and the
//! root is lowered. All that can be refused is found out before the first change; a step is one
//! transaction, and leaves a sound directory. Merged blocks are at most half full, so that the next
//! names do not split them again. Positions of a listing in hash order do not change; behind the
//! end of a linear directory there is nothing to list.
//! Locking: one object at a time, but for leaves that are merged ([`merge`](super::merge)).

use super::grow::overwrite;
use super::index::{Path, Probe, Target, probe};
pub(crate) use super::last::Shrunk;
use super::last::{drop_last, fill_with_last};
use super::merge::Moving;
use super::neighbours::{leaves_to_merge, nodes_to_merge};
use super::reference::last_reference;
use super::view::{Dir, Form};
use crate::{Fs, Inode, Result};
use std::sync::Arc;
use uext4_format::LogicalBlock;
use uext4_format::htree::{DxNode, RootInfo};
use uext4_journal::Handle;

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
        return match merge.moving(view)? {
            Moving::Nothing => merge.carry_out_beside(view, handle, None),
            Moving::Leaf(leaf) => merge.carry_out_beside(view, handle, Some(&leaf)),
            Moving::Another => {
                view.inode.index.close();
                match merge.stands() {
                    true => merge.carry_out(view, handle),
                    false => Ok(Shrunk::NoMore),
                }
            }
        };
    }
    for level in (1..path.len()).rev() {
        if let Some(merge) = nodes_to_merge(view, path, level)? {
            view.inode.index.close();
            return merge.carry_out(view, handle);
        }
    }
    lower_root(view, handle, path)
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
    let last = last
        .after_merge(node, (&root.block, root.place), 0)
        .in_root(root);
    view.inode.index.close();
    overwrite(handle, &root.block, &bytes);
    fill_with_last(view, handle, below.block, &last)
}
