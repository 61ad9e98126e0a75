//! Concurrent split of one leaf, while other threads change entries of other leaves.
//!
//! The halves are drafted without locks and installed if the leaf is unchanged since. So the
//! exclusive section is short.
//!
//! Invariants: the `index` lock is held exclusively and not closed while a draft is installed. The
//! upper half is in its new block before any entry leads there, and also in the old leaf until that
//! is unlocked: a thread that waits for the old leaf then fails the version check and retries. The
//! move begins before the new block can be found by a thread that saw a shorter directory.
//! Locking: the leaf, and nested in it the node, which changes under the exclusive `index` lock
//! only. The block is allocated before the leaf is locked, since that takes the inode's state.

use super::grow::{append_known, entry_of, pack_items};
use super::index::{Path, Probe, Target, probe};
use super::shrink::drop_last;
use super::split::{bytes_of, cut, separator, sorted};
use super::view::{Dir, Form, NewLeaf};
use crate::dcache::HashedName;
use crate::meta::{BlockState, MetaBlock};
use crate::{Fs, Inode, Result};
use uext4_format::dirent::space_needed;
use uext4_format::htree::DxEntry;
use uext4_format::{CorruptKind, Full};
use uext4_journal::Handle;
use uext4_sync::Arc;

/// Prepared contents of a leaf and its upper half.
pub(crate) struct Draft {
    block: Arc<MetaBlock>,
    /// `BlockState::changes` of the drafted leaf.
    changes: u32,
    /// The leaf's new contents.
    lower: NewLeaf,
    /// The new leaf after it and its first hash; none if packing the leaf was enough.
    upper: Option<(NewLeaf, u32)>,
}

impl Draft {
    /// Blocks that the directory grows by.
    pub(crate) fn blocks(&self) -> u32 {
        self.upper.is_some().into()
    }
}

/// Drafts space for `name` in its full leaf; `None` if more than that leaf must change. Without the
/// `index` lock the draft is valid only if the version is unchanged.
pub(crate) fn draft(fs: &Fs, dir: &Arc<Inode>, name: &HashedName<'_>) -> Result<Option<Draft>> {
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
    let at = match bytes_of(&items) + space_needed(name.bytes.len()) <= area / 4 * 3 {
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

/// The path to the leaf of `name`, if a split changes no more than the leaf and its node.
fn path_to(view: &Dir<'_>, name: &HashedName<'_>) -> Result<Option<Path>> {
    Ok(match probe(view, Target::Name(name))? {
        Probe::Path(path) if !path.continues() && !path.parent().is_full() => Some(path),
        _ => None,
    })
}

/// Installs the draft for the leaf of `name`, unless the leaf has changed. The `index` lock is held
/// exclusively and not closed.
///
/// # Errors
/// `NoSpace`; nothing is changed then.
pub(crate) fn carry_out(
    fs: &Fs,
    handle: &Handle<'_>,
    dir: &Arc<Inode>,
    name: &HashedName<'_>,
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
            state.replace(draft.lower.bytes, Some(draft.lower.table));
        }
        return Ok(());
    };
    let block = append_known(&mut view, handle, upper)?;
    let mut leaf = handle.write(&draft.block);
    if !stands(&leaf) {
        // Another thread changed the leaf. No entry leads to the new block yet.
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

/// Adds the upper half to the node, and leaves the lower half in the leaf.
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
        added.map_err(|Full| view.damage(CorruptKind::NodeFull))?;
        state.image()
    };
    leaf.replace(lower.bytes, Some(lower.table));
    let copy = view.inode.dir_blocks().index();
    copy.end_move(index, [(step.place, bytes)]);
    Ok(())
}
