//! Splitting one leaf while others change entries in the rest of the directory.
//!
//! The halves are drafted with nothing held, and carried out if the leaf is still as it was then:
//! splits of one directory follow each other, and what they hold it for is short.
//!
//! Invariants: to carry a draft out the `index` lock is held exclusively and not closed. The upper
//! half stands in its new block before anything leads there, and in the old one until that is
//! unlocked: who waits for the old leaf finds then that the version is past, and looks again. The
//! move begins before the new block can be found, for who knows a shorter directory.
//! Locking: the leaf, and nested in it the node, which is changed under the exclusive `index` lock
//! only. The block is allocated before the leaf is locked: that takes the inode's state.

use super::grow::{append_known, entry_of, pack_items};
use super::index::{Path, Probe, Target, probe};
use super::last::drop_last;
use super::split::{bytes_of, cut, separator, sorted};
use super::view::{Dir, Form, NewLeaf};
use crate::meta::{BlockState, MetaBlock};
use crate::{Fs, Inode, Result};
use std::sync::Arc;
use uext4_format::NoRoom;
use uext4_format::dirent::space_needed;
use uext4_format::htree::DxEntry;
use uext4_journal::Handle;

/// What becomes of a leaf.
pub(crate) struct Draft {
    block: Arc<MetaBlock>,
    /// `BlockState::changes` when it was drafted.
    changes: u32,
    /// The leaf.
    lower: NewLeaf,
    /// The leaf behind it, and the hash where that begins; none if the room was in pieces.
    upper: Option<(NewLeaf, u32)>,
}

impl Draft {
    /// Blocks that the directory grows by.
    pub(crate) fn blocks(&self) -> u32 {
        self.upper.is_some().into()
    }
}

/// How the leaf that has no room for `name` gets some; `None` where more than that leaf is
/// concerned. Without the `index` lock the answer counts if the version stays.
pub(crate) fn draft(fs: &Fs, dir: &Arc<Inode>, name: &[u8]) -> Result<Option<Draft>> {
    let view = Dir::open(fs, dir)?;
    if view.form != Form::Indexed {
        return Ok(None);
    }
    let Some(path) = path_to(&view, name)? else {
        return Ok(None);
    };
    let block = view.block_or_damage(path.leaf)?;
    let (image, changes) = {
        let state = block.read();
        (state.image(), state.changes())
    };
    let leaf = view.leaf(&image[..], block.nr());
    let entries = leaf.entries().map(|entry| entry.map(entry_of));
    let items = sorted(&path.hasher, entries)?;
    let area = leaf.area_bytes();
    let at = match bytes_of(&items) + space_needed(name.len()) <= area / 4 * 3 {
        true => items.len(),
        false if view.blocks >= view.config().max_blocks() => return Ok(None),
        false => match cut(&items, area) {
            Some(at) => at,
            None => return Ok(None),
        },
    };
    let upper = match items.get(at..) {
        Some(above) if !above.is_empty() => {
            let leaf = view.new_leaf(pack_items(&view, above)?)?;
            Some((leaf, separator(&items, at)))
        }
        _ => None,
    };
    Ok(Some(Draft {
        lower: view.new_leaf(pack_items(&view, &items[..at])?)?,
        block,
        changes,
        upper,
    }))
}

/// The way to the leaf of `name`, if that can be split without changing more than its node.
fn path_to(view: &Dir<'_>, name: &[u8]) -> Result<Option<Path>> {
    Ok(match probe(view, Target::Name(name))? {
        Probe::Path(path) if !path.continues() && !path.parent().is_full() => Some(path),
        _ => None,
    })
}

/// Makes the leaf of `name` what was drafted, unless it has changed since. The `index` lock is held
/// exclusively and not closed.
///
/// # Errors
/// `NoSpace`; nothing is changed then.
pub(crate) fn carry_out(
    fs: &Fs,
    handle: &Handle<'_>,
    dir: &Arc<Inode>,
    name: &[u8],
    draft: Draft,
) -> Result<()> {
    let mut view = Dir::open(fs, dir)?;
    let Some(path) = path_to(&view, name)? else {
        return Ok(());
    };
    if !Arc::ptr_eq(&view.block_or_damage(path.leaf)?, &draft.block) {
        return Ok(());
    }
    let stands = |state: &BlockState| state.changes() == draft.changes;
    if !stands(&draft.block.read()) {
        return Ok(());
    }
    let Some((upper, hash)) = draft.upper else {
        let mut state = handle.write(&draft.block);
        if stands(&state) {
            state.become_leaf(draft.lower.bytes, Some(draft.lower.table));
        }
        return Ok(());
    };
    let block = append_known(&mut view, handle, upper)?;
    let mut leaf = handle.write(&draft.block);
    if !stands(&leaf) {
        // Somebody changed the leaf since. Nothing leads to the new block yet.
        drop(leaf);
        drop_last(&mut view, handle)?;
        return Ok(());
    }
    publish(
        &view,
        handle,
        &path,
        &mut leaf,
        draft.lower,
        DxEntry { hash, block },
    )
}

/// Lets the node lead to the upper half, and leaves the lower one in the leaf.
fn publish(
    view: &Dir<'_>,
    handle: &Handle<'_>,
    path: &Path,
    leaf: &mut BlockState,
    lower: NewLeaf,
    above: DxEntry,
) -> Result<()> {
    let (index, step) = (&view.inode.index, path.parent());
    index.begin_move();
    let bytes = {
        let mut state = handle.write_nested(&step.block);
        let mut node = step.kind.node(state.bytes_mut());
        let added = node.insert(step.at + 1, above);
        added.map_err(|NoRoom| view.damage("no room in a node that had some"))?;
        state.image()
    };
    leaf.become_leaf(lower.bytes, Some(lower.table));
    let copy = view.inode.dir_blocks().index();
    copy.end_move(index, [(step.place, bytes)]);
    Ok(())
}
