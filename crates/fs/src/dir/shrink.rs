//! Shrinking of a directory that loses names.
//!
//! A sparse leaf is merged with a neighbour below the same node, a node with its neighbour, and a
//! root above a single node takes over that node's entries. The last block of the directory moves
//! to the freed place, its only reference is changed, and the directory ends one block earlier. So
//! it never has a hole, which e2fsck and other implementations reject. The kernel never shrinks a
//! directory, but reads a shrunk one.
//!
//! Invariants: the `index` lock is held exclusively; it is closed for all steps but the concurrent
//! merge of leaves. All reasons to refuse are checked before the first change; a step is one
//! transaction and leaves a sound directory. Merged blocks are at most half full, so that the next
//! names do not split them again. Positions in hash order do not change; a linear directory loses
//! only an empty end.
//! Locking: one object at a time, except for merged leaves ([`merge`](super::merge)).

use super::grow::overwrite;
use super::index::{Path, Probe, Target, probe};
pub(crate) use super::last::Shrunk;
use super::last::{drop_last, fill_with_last};
use super::merge::Moving;
use super::neighbours::{leaves_to_merge, nodes_to_merge};
use super::reference::last_reference;
use super::view::{Dir, Form};
use crate::dcache::HashedName;
use crate::{Fs, Inode, Result};
use uext4_format::htree::{DxNode, RootInfo};
use uext4_format::{CorruptKind, LogicalBlock};
use uext4_journal::Handle;
use uext4_sync::Arc;

/// Runs one step near the present or former place of `name`.
pub(crate) fn shrink(
    fs: &Fs,
    handle: &Handle<'_>,
    dir: &Arc<Inode>,
    name: &HashedName<'_>,
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

/// Frees the last block of a linear directory if it is empty.
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

/// Moves the entries of the only node below the root into the root.
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
            moved.map_err(|_| view.damage(CorruptKind::RootTakesNot))?;
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
