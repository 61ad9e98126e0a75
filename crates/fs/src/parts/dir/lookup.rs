//! Looks up names, and takes references to their inodes.

use super::entry_location::{EntryLocation, FoundEntry};
use super::error::{DirError, DirResult};
use super::view::{Dir, Form, is_dot};
use super::{inline, quick};
use crate::cache::dcache::HashedName;
use crate::state::engine::Fs;
use crate::state::inode::{Inode, InodeRef};
use crate::types::error::{Error, Result};
use uext4_format::{Corrupt, CorruptKind, DamageLocation, FileType, InodeNr};
use uext4_sync::Arc;

/// Looks up the inode of `name`. The inode's reference is taken before the entry's block is
/// unlocked, so a later unlink sees it.
///
/// # Errors
/// `Stale` when the name changed meanwhile.
pub(crate) fn lookup(fs: &Fs, dir: &Arc<Inode>, name: &HashedName<'_>) -> Result<Option<InodeRef>> {
    match lookup_live(fs, dir, name, Then::Remember) {
        Err(DirError::Fs(error)) => Err(error),
        Err(_) => Err(Error::Stale),
        Ok(found) => Ok(found.map(|(inode, _)| inode)),
    }
}

/// As [`lookup`], with the block of the entry, if it is in one: for [`super::remove_at`].
///
/// # Errors
/// [`DirError::Moved`] when the name changed meanwhile.
pub(crate) fn lookup_entry(
    fs: &Fs,
    dir: &Arc<Inode>,
    name: &HashedName<'_>,
) -> DirResult<Option<FoundEntry>> {
    lookup_live(fs, dir, name, Then::Remove).map_err(DirError::of_search)
}

/// Use of a found entry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    /// Cache the dentry: the name will be looked up again.
    Remember,
    Remove,
}

/// Looks up an inode in use. An inode that loses its last name concurrently becomes a tracked
/// orphan a little later. Its entry is gone by then, so a second lookup finds none, or another. An
/// unchanged entry that names a free inode is damage; so is one of an inline directory, which no
/// thread changes within one version.
fn lookup_live(
    fs: &Fs,
    dir: &Arc<Inode>,
    name: &HashedName<'_>,
    then: Then,
) -> DirResult<Option<FoundEntry>> {
    let Some(first) = lookup_once(fs, dir, name, then)? else {
        return Ok(None);
    };
    if is_in_use(fs, &first)? {
        return Ok(Some(first));
    }
    let Some(second) = lookup_once(fs, dir, name, then)? else {
        return Ok(None);
    };
    if is_in_use(fs, &second)? {
        return Ok(Some(second));
    }
    let place = match (&first.1, &second.1) {
        (Some(before), Some(now)) if !now.is_unchanged(before) => return Err(DirError::Moved),
        (_, Some(now)) => DamageLocation::InodeBlock(dir.nr(), now.block.nr()),
        (_, None) => DamageLocation::Inode(dir.nr()),
    };
    Err(Corrupt::new(place, "directory entry", CorruptKind::InodeFree).into())
}

/// Whether the inode of a found entry is in use. That can be checked only with the block unlocked
/// (lock order).
fn is_in_use(fs: &Fs, (inode, location): &FoundEntry) -> Result<bool> {
    if location.as_ref().is_some_and(EntryLocation::is_served) {
        return Ok(true);
    }
    match fs.check_served(inode) {
        Err(Error::Stale) => Ok(false),
        other => other.map(|()| true),
    }
}

/// One lookup. The inode's reference is taken; the inode may be a free one.
fn lookup_once(
    fs: &Fs,
    dir: &Arc<Inode>,
    name: &HashedName<'_>,
    then: Then,
) -> Result<Option<FoundEntry>> {
    let version = dir.index.version();
    let view = Dir::open(fs, dir)?;
    let held = |nr| fs.load_inode(nr).map(InodeRef::new);
    let found = match view.form {
        Form::Inline => {
            inline::with_entry(&view, name.bytes, |found| Ok((held(found.inode)?, None)))?
        }
        _ => {
            dir.dir_blocks().prefetch_name(name.key);
            let leaf = quick::prefetch_leaf(&view, name);
            if then == Then::Remove
                && let Some(leaf) = leaf
                && let Some(held) = quick::cached_entry(&view, name.key, leaf)?
            {
                return Ok(Some(held));
            }
            view.search_from(leaf, name, |block| {
                let state = block.read();
                let Some(at) = view
                    .names_in(block, &state)?
                    .locate(name.bytes, name.print())
                else {
                    return Ok(None);
                };
                if then == Then::Remember && !is_dot(name.bytes) {
                    quick::remember_name(&view, name.key, at.inode, version);
                }
                let location = EntryLocation {
                    block: block.clone(),
                    nr: at.inode,
                    seen: Some((at, state.changes())),
                };
                Ok(Some((held(at.inode)?, Some(location))))
            })?
        }
    };
    Ok(found)
}

/// The entry of `name`: inode number, and type where entries have one.
pub(crate) fn find(
    fs: &Fs,
    dir: &Arc<Inode>,
    name: &HashedName<'_>,
) -> Result<Option<(InodeNr, Option<FileType>)>> {
    let view = Dir::open(fs, dir)?;
    let found = match view.form {
        Form::Inline => inline::with_entry(&view, name.bytes, Ok)?,
        _ => view.locate(name)?.map(|(_, found)| found),
    };
    Ok(found.map(|found| (found.inode, found.kind.file_type())))
}
