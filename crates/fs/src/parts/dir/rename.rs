//! Atomic change of two entries (rename, exchange).
//!
//! Locking: with shared `index` locks both blocks are locked, ascending by number, before either
//! entry is read, so every thread sees both changes or none. With exclusive locks the two changes
//! are sequential.

use super::edit::{self, entry_block, retarget};
use super::error::{DirError, DirResult};
use super::insert::{insert_entry, inserted, one_leaf};
use super::lock_mode::LockMode;
use super::lookup::find;
use super::name_changes::{Child, NewName, record_removal};
use super::view::{Dir, Form};
use crate::cache::dcache::HashedName;
use crate::cache::meta::{BlockState, MetaBlock};
use crate::state::engine::Fs;
use crate::state::inode::Inode;
use crate::state::name_log::NameChange;
use crate::types::error::Error;
use uext4_format::dirent::DirEntryType;
use uext4_format::{FileType, InodeNr};
use uext4_journal::{Handle, LogGuard};
use uext4_sync::Arc;

/// A rename of an entry, in one directory or between two.
pub(crate) struct Move<'a> {
    pub(crate) from_dir: &'a Arc<Inode>,
    pub(crate) from_name: &'a HashedName<'a>,
    pub(crate) to_dir: &'a Arc<Inode>,
    pub(crate) to_name: &'a HashedName<'a>,
    /// Inode of the old name, later of the new one.
    pub(crate) child: InodeNr,
    pub(crate) kind: FileType,
    /// Present inode of the new name.
    pub(crate) victim: Option<InodeNr>,
    /// Later inode of the old name, a character device; `None` removes the name.
    pub(crate) whiteout: Option<InodeNr>,
}

impl Move<'_> {
    fn renamed(&self) -> Child {
        Child {
            nr: self.child,
            kind: self.kind,
            change: NameChange::Link,
        }
    }
}

/// An exchange of two names: directory, name, inode and type of each.
pub(crate) struct Exchange<'a> {
    pub(crate) one: Named<'a>,
    pub(crate) two: Named<'a>,
}

type Named<'a> = (&'a Arc<Inode>, &'a HashedName<'a>, InodeNr, FileType);

/// Moves a name.
///
/// # Errors
/// `NotFound` when an entry no longer has the inode given in `step`, `Exists` when there is an
/// entry but no victim, `NoSpace`, and what a [`DirError`] lacks. Nothing is changed then.
pub(crate) fn rename(
    fs: &Fs,
    handle: &Handle<'_>,
    step: &Move<'_>,
    index: LockMode,
) -> DirResult<()> {
    match index {
        LockMode::Exclusive => rename_exclusive(fs, handle, step),
        _ => rename_shared(fs, handle, step),
    }
}

fn rename_exclusive(fs: &Fs, handle: &Handle<'_>, step: &Move<'_>) -> DirResult<()> {
    expect(fs, step.from_dir, step.from_name, step.child)?;
    let moved = (step.child, step.kind);
    match step.victim {
        Some(victim) => {
            let place = (step.to_name, victim);
            edit::replace(fs, handle, step.to_dir, place, moved, LockMode::Exclusive)?;
        }
        None => {
            let mut to = Dir::open(fs, step.to_dir)?;
            let child = step.renamed();
            let new = NewName::new(fs, step.to_name, &child);
            insert_entry(&mut to, handle, &new)?;
        }
    }
    let (dir, name, index) = (step.from_dir, step.from_name, LockMode::Exclusive);
    match step.whiteout {
        Some(whiteout) => {
            let whiteout = (whiteout, FileType::CharDevice);
            edit::replace(fs, handle, dir, (name, step.child), whiteout, index)
        }
        None => edit::remove(fs, handle, dir, name, step.child, index),
    }
}

/// Returns `NotFound` unless the inode of `name` is `child`.
fn expect(fs: &Fs, dir: &Arc<Inode>, name: &HashedName<'_>, child: InodeNr) -> DirResult<()> {
    match find(fs, dir, name)? {
        Some((found, _)) if found == child => Ok(()),
        _ => Err(Error::NotFound.into()),
    }
}

fn rename_shared(fs: &Fs, handle: &Handle<'_>, step: &Move<'_>) -> DirResult<()> {
    let (from, to) = (open(fs, step.from_dir)?, open(fs, step.to_dir)?);
    let source = entry_block(&from, step.from_name, step.child)?;
    let target = match step.victim {
        Some(victim) => entry_block(&to, step.to_name, victim)?,
        None => one_leaf(&to, step.to_name)?,
    };
    let mut pair = Pair::lock(handle, &source, &target);
    check_entry(&from, pair.source(), step.from_name, step.child)?;
    set_target(&to, handle, pair.target(), step)?;
    leave_source(&from, handle, pair.source(), step)
}

fn open<'a>(fs: &'a Fs, dir: &'a Arc<Inode>) -> DirResult<Dir<'a>> {
    let view = Dir::open(fs, dir)?;
    if view.form == Form::Inline {
        Err(DirError::NeedExclusive)
    } else {
        Ok(view)
    }
}

fn check_entry(
    dir: &Dir<'_>,
    state: &BlockState,
    name: &HashedName<'_>,
    child: InodeNr,
) -> DirResult<()> {
    match dir.names(state)?.locate(name.bytes, name.print()) {
        Some(entry) if entry.inode == child => Ok(()),
        _ => Err(Error::NotFound.into()),
    }
}

fn set_target(
    dir: &Dir<'_>,
    handle: &Handle<'_>,
    state: &mut BlockState,
    step: &Move<'_>,
) -> DirResult<()> {
    let (name, child) = (step.to_name, step.child);
    if let Some(victim) = step.victim {
        let kind = dir.config().entry_type(step.kind);
        return retarget(dir, handle, state, (name, victim), (child, kind));
    }
    let child = step.renamed();
    let new = NewName::new(dir.fs, name, &child);
    inserted(dir.names_mut(state)?.insert(&new.entry, name.print()))?;
    new.record(dir.fs, handle, dir.inode);
    Ok(())
}

fn leave_source(
    dir: &Dir<'_>,
    handle: &Handle<'_>,
    state: &mut BlockState,
    step: &Move<'_>,
) -> DirResult<()> {
    let name = step.from_name;
    if let Some(whiteout) = step.whiteout {
        let kind = dir.config().entry_type(FileType::CharDevice);
        return retarget(dir, handle, state, (name, step.child), (whiteout, kind));
    }
    dir.inode.dir_blocks().forget(name.key);
    let mut leaf = dir.names_mut(state)?;
    if let Some(at) = leaf.known().locate(name.bytes, name.print()) {
        leaf.remove_at(at);
        record_removal(dir.fs, handle, dir.inode, (name, step.child));
    }
    Ok(())
}

/// Exchanges the inodes of two names.
///
/// # Errors
/// As [`rename`].
pub(crate) fn exchange(
    fs: &Fs,
    handle: &Handle<'_>,
    step: &Exchange<'_>,
    index: LockMode,
) -> DirResult<()> {
    let (one, two) = (&step.one, &step.two);
    if index == LockMode::Exclusive {
        expect(fs, one.0, one.1, one.2)?;
        expect(fs, two.0, two.1, two.2)?;
        edit::replace(fs, handle, one.0, (one.1, one.2), (two.2, two.3), index)?;
        return edit::replace(fs, handle, two.0, (two.1, two.2), (one.2, one.3), index);
    }
    let (first, second) = (open(fs, one.0)?, open(fs, two.0)?);
    let (source, target) = (
        entry_block(&first, one.1, one.2)?,
        entry_block(&second, two.1, two.2)?,
    );
    let mut pair = Pair::lock(handle, &source, &target);
    check_entry(&second, pair.target(), two.1, two.2)?;
    let kind = |kind| -> DirEntryType { fs.dirs.entry_type(kind) };
    let (was_one, was_two) = ((one.1, one.2), (two.1, two.2));
    retarget(&first, handle, pair.source(), was_one, (two.2, kind(two.3)))?;
    retarget(
        &second,
        handle,
        pair.target(),
        was_two,
        (one.2, kind(one.3)),
    )
}

/// Two locked blocks, which may be the same one.
struct Pair<'a> {
    source: LogGuard<'a, BlockState>,
    target: Option<LogGuard<'a, BlockState>>,
}

impl<'a> Pair<'a> {
    fn lock(
        handle: &'a Handle<'_>,
        source: &'a Arc<MetaBlock>,
        target: &'a Arc<MetaBlock>,
    ) -> Self {
        if source.nr() == target.nr() {
            return Self {
                source: handle.write(source),
                target: None,
            };
        }
        let lock = |block: &'a Arc<MetaBlock>| handle.write_ordered(block, block.nr().0);
        // The fields are evaluated in the order that they are written in.
        if source.nr() < target.nr() {
            Self {
                source: lock(source),
                target: Some(lock(target)),
            }
        } else {
            Self {
                target: Some(lock(target)),
                source: lock(source),
            }
        }
    }

    fn source(&mut self) -> &mut BlockState {
        &mut self.source
    }

    fn target(&mut self) -> &mut BlockState {
        match &mut self.target {
            Some(target) => target,
            None => &mut self.source,
        }
    }
}
