//! Directories in three forms (inline, linear, indexed): maps from name to inode number.
//!
//! Layout: [`view`] is a directory during one operation; [`index`] descends the hash tree,
//! [`quick`] finds leaves without locks, in the caches of [`crate::cache::dcache`].
//!
//! [`scan`] finds names; [`slot`] finds space for one, [`insert`] puts it in, [`edit`] changes
//! existing entries; [`grow`] and [`divide`] split blocks, [`shrink`] frees them ([`neighbours`],
//! [`merge`]); [`rename`] changes two entries at once; [`read`] lists; [`inline`] is the form in an
//! inode.
//! Invariants: a name occurs at most once; in an indexed directory its hash determines the block.
//! Every step of growth leaves a sound directory, so "no space" in the middle needs no undo.
//! Locking: callers hold the directory's `index` lock (`Rank::DirIndex`) for the whole call, or
//! validate its version at the end ([`LockMode`]; optimistic lock). A change of an entry locks one
//! block, which makes "absent, then insert" atomic; with [`LockMode::Optimistic`] it validates the
//! version under that lock. Leaves are split and merged concurrently ([`divide`], [`merge`]). An
//! operation that needs more answers [`DirError::NeedExclusive`] and has changed nothing.
//! Not here: permissions, link counts, times, case folding, encrypted names.
//! References: kernel documentation, "directory".

mod cookie;
mod divide;
mod edit;
mod grow;
mod index;
mod inline;
mod insert;
mod lock_mode;
mod merge;
mod neighbours;
mod quick;
mod read;
mod reference;
mod rename;
mod scan;
mod shrink;
mod slot;
mod split;
#[cfg(test)]
mod tests;
mod view;

pub(crate) use divide::{Behind, Draft, Why, carry_out, draft, leaf_to_split};
pub(crate) use edit::{DirResult, Holder, remove, remove_at};
pub(crate) use insert::{Child, insert};
pub(crate) use lock_mode::LockMode;
pub(crate) use quick::{meaning, renew};
pub(crate) use read::read;
pub use read::{DirEntry, Visit};
pub(crate) use rename::{Exchange, Move, exchange, rename};
pub(crate) use slot::{Way, can_insert};

use crate::cache::dcache::HashedName;
use crate::state::engine::Fs;
use crate::state::inode::{Inode, InodeRef};
use crate::types::dir_config::file_type;
use crate::types::error::{Error, Result};
use uext4_format::{Corrupt, CorruptKind, FileType, InodeNr, LogicalBlock, Place, dirent};
use uext4_journal::Handle;
use uext4_sync::Arc;
use view::{Dir, Form, is_dot};

/// Reason why a change was not made.
#[derive(Debug)]
pub(crate) enum DirError {
    /// More than one leaf must change: retry with [`LockMode::Exclusive`]. Nothing was changed.
    NeedExclusive,
    /// The leaf has no space for the name: retry after [`carry_out`]. Nothing was changed.
    Full,
    /// The structure or the name changed meanwhile: retry. Nothing was changed.
    Moved,
    /// The operation failed.
    Fs(Error),
}

impl DirError {
    /// A leaf that was split during its search is an answer to repeat.
    fn of_search(self) -> Self {
        match self {
            DirError::Fs(Error::Stale) => DirError::Moved,
            other => other,
        }
    }
}

impl From<Error> for DirError {
    fn from(error: Error) -> Self {
        DirError::Fs(error)
    }
}

impl From<Corrupt> for DirError {
    fn from(corrupt: Corrupt) -> Self {
        DirError::Fs(corrupt.into())
    }
}

/// Looks up the inode of `name`. The inode's reference is taken before the entry's block is
/// unlocked, so a later unlink sees it.
///
/// # Errors
/// `Stale` when the name changed meanwhile.
pub(crate) fn lookup(fs: &Fs, dir: &Arc<Inode>, name: &HashedName<'_>) -> Result<Option<InodeRef>> {
    match look_twice(fs, dir, name, Then::Remember) {
        Err(DirError::Fs(error)) => Err(error),
        Err(_) => Err(Error::Stale),
        Ok(found) => Ok(found.map(|(inode, _)| inode)),
    }
}

/// An inode, and the holder of its entry.
type FoundEntry = (InodeRef, Option<Holder>);

/// As [`lookup`], with the block of the entry, if it is in one: for [`remove_at`].
///
/// # Errors
/// [`DirError::Moved`] when the name changed meanwhile.
pub(crate) fn lookup_holder(
    fs: &Fs,
    dir: &Arc<Inode>,
    name: &HashedName<'_>,
) -> DirResult<Option<FoundEntry>> {
    look_twice(fs, dir, name, Then::Remove).map_err(DirError::of_search)
}

/// Use of a found entry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    /// Cache the dentry: the name will be looked up again.
    Remember,
    Remove,
}

/// Looks up an inode in use. An inode that loses its last name concurrently becomes a tracked
/// orphan a little later. Its entry is gone by then, so a second look finds none, or another. An
/// unchanged entry that names a free inode is damage; so is one of an inline directory, which no
/// thread changes within one version.
fn look_twice(
    fs: &Fs,
    dir: &Arc<Inode>,
    name: &HashedName<'_>,
    then: Then,
) -> DirResult<Option<FoundEntry>> {
    let Some(first) = look_up(fs, dir, name, then)? else {
        return Ok(None);
    };
    if is_in_use(fs, &first)? {
        return Ok(Some(first));
    }
    let Some(second) = look_up(fs, dir, name, then)? else {
        return Ok(None);
    };
    if is_in_use(fs, &second)? {
        return Ok(Some(second));
    }
    let place = match (&first.1, &second.1) {
        (Some(before), Some(now)) if !now.is_unchanged(before) => return Err(DirError::Moved),
        (_, Some(now)) => Place::InodeBlock(dir.nr(), now.block.nr()),
        (_, None) => Place::Inode(dir.nr()),
    };
    Err(Corrupt::new(place, "directory entry", CorruptKind::InodeFree).into())
}

/// Whether the inode of a found entry is in use. That can be checked only with the block unlocked
/// (lock order).
fn is_in_use(fs: &Fs, (inode, holder): &FoundEntry) -> Result<bool> {
    if holder.as_ref().is_some_and(Holder::is_served) {
        return Ok(true);
    }
    match fs.check_served(inode) {
        Err(Error::Stale) => Ok(false),
        other => other.map(|()| true),
    }
}

/// One lookup. The inode's reference is taken; the inode may be a free one.
fn look_up(
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
                && let Some(held) = quick::holder(&view, name.key, leaf)?
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
                let holder = Holder {
                    block: block.clone(),
                    nr: at.inode,
                    seen: Some((at, state.changes())),
                };
                Ok(Some((held(at.inode)?, Some(holder))))
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
    Ok(found.map(|found| (found.inode, file_type(found.kind))))
}

/// Writes "." and ".." of a new directory. It has no block yet, and no other thread knows it.
pub(crate) fn init(fs: &Fs, handle: &Handle<'_>, dir: &Arc<Inode>, parent: InodeNr) -> Result<()> {
    let mut view = Dir::open(fs, dir)?;
    if view.form == Form::Inline {
        return inline::init(&mut view, handle, parent);
    }
    let kind = view.config().entry_type(FileType::Directory);
    let mut image = vec![0; fs.block_size()];
    dirent::init_first_block(&mut image, view.config().tail, dir.nr(), parent, kind);
    grow::append(&mut view, handle, image)?;
    Ok(())
}

/// The directory of "..".
pub(crate) fn parent_of(fs: &Fs, dir: &Arc<Inode>) -> Result<InodeNr> {
    let view = Dir::open(fs, dir)?;
    if view.form == Form::Inline {
        return Ok(inline::parent_of(&view));
    }
    let found = view.find_in(&*view.block_or_damage(LogicalBlock(0))?, &fs.hashed(b".."))?;
    Ok(found
        .ok_or_else(|| view.damage(CorruptKind::NoDotDot))?
        .inode)
}

/// Sets ".." to `parent`.
pub(crate) fn set_parent(
    fs: &Fs,
    handle: &Handle<'_>,
    dir: &Arc<Inode>,
    parent: InodeNr,
) -> Result<()> {
    let view = Dir::open(fs, dir)?;
    if view.form == Form::Inline {
        inline::set_parent(&view, handle, parent);
        return Ok(());
    }
    let block = view.block_or_damage(LogicalBlock(0))?;
    let mut state = handle.write(&block);
    let kind = view.config().entry_type(FileType::Directory);
    let changed = view
        .leaf(state.bytes_mut(), block.nr())
        .retarget(b"..", parent, kind)?;
    if changed {
        Ok(())
    } else {
        Err(view.damage(CorruptKind::NoDotDot).into())
    }
}

/// True when only "." and ".." are left. Stays true only while `index` is held exclusively.
pub(crate) fn is_empty(fs: &Fs, dir: &Arc<Inode>) -> Result<bool> {
    let view = Dir::open(fs, dir)?;
    if view.form == Form::Inline {
        return inline::is_empty(&view);
    }
    let used = view.search_all(|block| {
        let state = block.read();
        let empty = view.leaf(state.bytes(), block.nr()).is_empty()?;
        Ok((!empty).then_some(()))
    })?;
    Ok(used.is_none())
}
