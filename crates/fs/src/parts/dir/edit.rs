//! Changes of single existing entries, under the lock of one block.

use super::entry_location::EntryLocation;
use super::error::{DirError, DirResult};
use super::inline;
use super::lock_mode::LockMode;
use super::name_changes::{record_removal, record_retarget};
use super::view::{Dir, Form, names_mut};
use crate::cache::dcache::HashedName;
use crate::cache::meta::{BlockState, MetaBlock};
use crate::state::engine::Fs;
use crate::state::inode::Inode;
use crate::types::error::Error;
use uext4_format::dirent::DirEntryType;
use uext4_format::{FileType, InodeNr};
use uext4_journal::Handle;
use uext4_sync::Arc;

/// Removes the entry `name` of `child`.
///
/// # Errors
/// `NotFound` when the entry is gone or has another inode; [`DirError::Moved`].
pub(crate) fn remove(
    fs: &Fs,
    handle: &Handle<'_>,
    dir: &Arc<Inode>,
    name: &HashedName<'_>,
    child: InodeNr,
    index: LockMode,
) -> DirResult<()> {
    let view = Dir::open(fs, dir)?;
    match (view.form, index) {
        (Form::Inline, LockMode::Exclusive) => {
            inline::remove(&view, handle, name.bytes, child)?;
            record_removal(fs, handle, dir, (name, child));
            return Ok(());
        }
        (Form::Inline, _) => return Err(DirError::NeedExclusive),
        _ => {}
    }
    let location = EntryLocation {
        block: entry_block(&view, name, child)?,
        nr: child,
        seen: None,
    };
    remove_at(fs, handle, dir, name, &location, index)
}

/// As [`remove`], for the entry found by [`super::lookup_entry`].
///
/// # Errors
/// `NotFound` when the entry is gone or has another inode; [`DirError::Moved`].
pub(crate) fn remove_at(
    fs: &Fs,
    handle: &Handle<'_>,
    dir: &Arc<Inode>,
    name: &HashedName<'_>,
    location: &EntryLocation,
    index: LockMode,
) -> DirResult<()> {
    let block = &location.block;
    let mut state = handle.write_checked(block, |_| index.check(dir))?;
    let changes = state.changes();
    dir.dir_blocks().forget(name.key);
    let mut leaf = names_mut(fs, dir, &mut state)?;
    let at = match location.seen {
        Some((at, then)) if then == changes => Some(at),
        _ => leaf.known().locate(name.bytes, name.print()),
    };
    match at {
        Some(at) if at.inode == location.nr => leaf.remove_at(at),
        _ => return Err(Error::NotFound.into()),
    }
    fs.sparse_leaves
        .queue_if_sparse(&leaf, changes, dir, name.bytes);
    dir.dir_blocks().update_hints(block, &state);
    record_removal(fs, handle, dir, (name, location.nr));
    Ok(())
}

/// The block with the entry of `name` for `child`; a hint, to be checked under the block's lock.
pub(super) fn entry_block(
    view: &Dir<'_>,
    name: &HashedName<'_>,
    child: InodeNr,
) -> DirResult<Arc<MetaBlock>> {
    let located = view.locate(name).map_err(DirError::from);
    match located.map_err(DirError::of_search)? {
        Some((block, found)) if found.inode == child => Ok(block),
        _ => Err(Error::NotFound.into()),
    }
}

/// Changes the inode of `name` from `old` to `new`.
///
/// # Errors
/// `NotFound` when the entry is gone or has another inode than `old`; for an inline directory
/// [`DirError::NeedExclusive`] unless `index` is held exclusively.
pub(crate) fn replace(
    fs: &Fs,
    handle: &Handle<'_>,
    dir: &Arc<Inode>,
    (name, old): (&HashedName<'_>, InodeNr),
    (new, kind): (InodeNr, FileType),
    index: LockMode,
) -> DirResult<()> {
    let view = Dir::open(fs, dir)?;
    let kind = fs.dirs.entry_type(kind);
    match (view.form, index) {
        (Form::Inline, LockMode::Exclusive) => {
            inline::replace(&view, handle, (name.bytes, old), (new, kind))?;
            record_retarget(fs, handle, dir, (name, old), new);
            return Ok(());
        }
        (Form::Inline, _) => return Err(DirError::NeedExclusive),
        _ => {}
    }
    let block = entry_block(&view, name, old)?;
    let mut state = handle.write(&block);
    retarget(&view, handle, &mut state, (name, old), (new, kind))
}

/// Changes an entry of a locked block, if its inode is still `old`.
pub(super) fn retarget(
    view: &Dir<'_>,
    handle: &Handle<'_>,
    state: &mut BlockState,
    (name, old): (&HashedName<'_>, InodeNr),
    (new, kind): (InodeNr, DirEntryType),
) -> DirResult<()> {
    view.inode.dir_blocks().forget(name.key);
    let mut leaf = view.names_mut(state)?;
    match leaf.known().locate(name.bytes, name.print()) {
        Some(at) if at.inode == old => leaf.retarget_at(at, new, kind),
        _ => return Err(Error::NotFound.into()),
    };
    record_retarget(view.fs, handle, view.inode, (name, old), new);
    Ok(())
}
