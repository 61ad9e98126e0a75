//! Insertion of an entry, under the lock of one block where possible.

use super::error::{DirError, DirResult};
use super::index::{Probe, Target, probe};
use super::lock_mode::LockMode;
use super::name_changes::{Child, NewName};
use super::slot::{FreeSlot, InsertPlan, SlotSearch, can_insert, may_drop_index};
use super::view::{Dir, Form, is_split_off, names_mut};
use super::{grow, inline, quick};
use crate::cache::dcache::HashedName;
use crate::cache::meta::{BlockState, MetaBlock};
use crate::state::engine::Fs;
use crate::state::inode::Inode;
use crate::state::space::Reserve;
use crate::types::error::Error;
use uext4_format::dirent::Insertion;
use uext4_format::{InodeFlags, LogicalBlock};
use uext4_journal::Handle;
use uext4_sync::Arc;

/// Inserts the entry `name` of `child` by the plan of [`super::can_insert`].
///
/// # Errors
/// `Exists`, `NoSpace`; with [`InsertPlan::Into`] also the other cases of [`DirError`], and
/// `NotFound` for a directory that lost its name.
pub(crate) fn insert(
    fs: &Fs,
    handle: &Handle<'_>,
    dir: &Arc<Inode>,
    name: &HashedName<'_>,
    child: &Child,
    plan: &InsertPlan,
) -> DirResult<()> {
    let new = NewName::new(fs, name, child);
    match plan {
        InsertPlan::Into(slot) => match insert_into(fs, handle, dir, &new, slot) {
            // Another inode would cost more than a second search. It must not wait for a thread
            // that closed the index, which may wait for this thread's handle to end.
            Err(DirError::Moved) => insert_now(fs, handle, dir, &new),
            other => other,
        },
        InsertPlan::Search { .. } => insert_entry(&mut Dir::open(fs, dir)?, handle, &new),
    }
}

/// Searches the block again after the structure changed since the start of the handle.
fn insert_now(fs: &Fs, handle: &Handle<'_>, dir: &Arc<Inode>, new: &NewName<'_>) -> DirResult<()> {
    let version = dir.index.version().ok_or(DirError::Moved)?;
    if dir.facts().links == 0 {
        return Err(Error::NotFound.into());
    }
    // The space was found before this handle, and the block does not grow: nothing is reserved.
    match can_insert(
        fs,
        dir,
        new.name,
        LockMode::Optimistic(version),
        Reserve::Keep,
    )? {
        InsertPlan::Into(slot) => insert_into(fs, handle, dir, new, &slot),
        InsertPlan::Search { .. } => Err(DirError::NeedExclusive),
    }
}

/// Uses the gap, or searches the block again if another thread changed it.
fn insert_into(
    fs: &Fs,
    handle: &Handle<'_>,
    dir: &Inode,
    new: &NewName<'_>,
    slot: &FreeSlot,
) -> DirResult<()> {
    let block = &slot.block;
    let is_same = |state: &BlockState| state.changes() == slot.changes;
    let major = new.name.known_major();
    let mut state = handle.write_checked(block, |state| {
        slot.index.check(dir)?;
        if is_same(state) || !is_split_off(dir, block.logical(), major) {
            Ok(())
        } else {
            Err(DirError::Moved)
        }
    })?;
    let unchanged = is_same(&state);
    let mut leaf = names_mut(fs, dir, &mut state)?;
    if unchanged {
        leaf.insert_at(slot.gap, &new.entry, new.name.print());
    } else {
        dir.dir_blocks().mark_contended();
        inserted(leaf.insert(&new.entry, new.name.print()))?;
    }
    let blocks = dir.dir_blocks();
    blocks.put_name(new.name.key, new.entry.inode, &fs.names);
    new.record(fs, handle, dir);
    Ok(())
}

pub(super) fn inserted(insertion: Insertion) -> DirResult<()> {
    match insertion {
        Insertion::Done(_) => Ok(()),
        Insertion::Exists(..) => Err(Error::Exists.into()),
        Insertion::Full => Err(DirError::Full),
    }
}

/// Inserts the entry where it belongs. The structure is locked exclusively.
pub(super) fn insert_entry(
    view: &mut Dir<'_>,
    handle: &Handle<'_>,
    new: &NewName<'_>,
) -> DirResult<()> {
    match view.form {
        Form::Inline => {
            if !inline::insert(view, handle, &new.entry)? {
                inline::convert(view, handle)?;
                insert_linear(view, handle, new)?;
            }
        }
        Form::Linear => insert_linear(view, handle, new)?,
        Form::Indexed => insert_indexed(view, handle, new)?,
    }
    new.record(view.fs, handle, view.inode);
    Ok(())
}

/// The only block that may hold `name`, if there is exactly one.
pub(super) fn one_leaf(view: &Dir<'_>, name: &HashedName<'_>) -> DirResult<Arc<MetaBlock>> {
    let leaf = match view.form {
        Form::Inline => None,
        Form::Linear => (view.blocks == 1).then_some(LogicalBlock(0)),
        Form::Indexed if let Some(leaf) = quick::leaf_of(view, name) => return Ok(leaf),
        Form::Indexed => match probe(view, Target::Name(name))? {
            Probe::Path(path) => (!path.continues()).then_some(path.leaf),
            Probe::Broken(_) => None,
        },
    };
    Ok(view.block_or_damage(leaf.ok_or(DirError::NeedExclusive)?)?)
}

/// Inserts the entry into the only block that may hold the name.
fn insert_in(
    view: &Dir<'_>,
    handle: &Handle<'_>,
    block: &Arc<MetaBlock>,
    new: &NewName<'_>,
) -> DirResult<()> {
    let mut state = handle.write(block);
    let mut leaf = view.names_mut(&mut state)?;
    inserted(leaf.insert(&new.entry, new.name.print()))
}

fn insert_linear(view: &mut Dir<'_>, handle: &Handle<'_>, new: &NewName<'_>) -> DirResult<()> {
    // A directory gets its index when its first block is full, never later.
    let may_index = view.form == Form::Linear && view.config().index && view.blocks == 1;
    view.form = Form::Linear;
    let mut search = SlotSearch::new(view, new.name, LockMode::Exclusive);
    view.search_all(|block| search.search_block(view, block))?;
    match search.free_slot()? {
        Some(slot) => insert_in(view, handle, &slot.block, new),
        None if may_index => {
            grow::make_index(view, handle)?;
            insert_indexed(view, handle, new)
        }
        None => Ok(grow::append_leaf(view, handle, &new.entry)?),
    }
}

fn insert_indexed(view: &mut Dir<'_>, handle: &Handle<'_>, new: &NewName<'_>) -> DirResult<()> {
    let path = match probe(view, Target::Name(new.name))? {
        Probe::Path(path) => path,
        Probe::Broken(corrupt) => {
            may_drop_index(view, corrupt, LockMode::Exclusive)?;
            handle
                .write(view.inode)
                .disk
                .flags
                .remove(InodeFlags::INDEX);
            return insert_linear(view, handle, new);
        }
    };
    let mut search = SlotSearch::new(view, new.name, LockMode::Exclusive);
    view.search_chain(path, |block| search.search_block(view, block))?;
    match search.free_slot()? {
        Some(slot) => insert_in(view, handle, &slot.block, new),
        None => Ok(grow::insert_with_split(view, handle, new)?),
    }
}
