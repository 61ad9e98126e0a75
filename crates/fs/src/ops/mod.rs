//! VFS-level operations by inode: one file per family, read top-down.
//!
//! Every operation checks arguments and permission, takes DirIndex or InodeIo, starts a handle,
//! changes live objects, ends the handle, and frees inodes without users.
//!
//! Locking: as `sync::Rank` says. Two directories are locked in ascending inode number.

mod attr;
mod create;
mod durability;
pub(crate) mod filesystem;
mod index;
mod layout;
mod link;
mod lookup;
mod privileges;
mod quota;
mod read;
mod rename;
mod setattr;
mod space;
mod unlink;
mod write;
mod xattrs;

pub use privileges::KillPrivileges;
pub use rename::RenameFlags;
pub use write::{DataSource, WriteContext, Writers};

pub(crate) use index::settled;
use index::{Hold, NameChange, lock_all, retry_lookup};

use crate::parts::access::Want;
use crate::parts::{dir, file};
use crate::state::engine::Fs;
use crate::state::inode::Inode;
use crate::types::error::{Error, Result};
use uext4_format::dirent::NAME_MAX;
use uext4_format::{FileType, InodeFlags, Timestamp};
use uext4_journal::{Handle, Object};
use uext4_sync::Arc;

/// Largest link count; with `dir_nlink` an indexed directory goes to 1, "many", beyond it.
pub(crate) const LINK_MAX: u16 = 65000;

/// Refuses names that no directory entry may have.
pub(crate) fn check_name(name: &[u8]) -> Result<()> {
    if name.len() > NAME_MAX {
        return Err(Error::NameTooLong);
    }
    if name.is_empty() {
        return Err(Error::NotFound);
    }
    if name.contains(&b'/') || name.contains(&0) {
        return Err(Error::Invalid("a name holds neither '/' nor a zero byte"));
    }
    Ok(())
}

/// Refuses `.` and `..` besides what [`check_name`] refuses.
pub(crate) fn check_new_name(name: &[u8]) -> Result<()> {
    check_name(name)?;
    if name == b"." || name == b".." {
        Err(Error::Exists)
    } else {
        Ok(())
    }
}

/// Refuses directories that have no name any more.
pub(crate) fn check_alive(dir: &Inode) -> Result<()> {
    let facts = dir.facts();
    if facts.file_type() != Some(FileType::Directory) {
        return Err(Error::NotDirectory);
    }
    if facts.links == 0 {
        Err(Error::NotFound)
    } else {
        Ok(())
    }
}

fn regular(inode: &Inode) -> Result<()> {
    file::check_regular(&inode.read())
}

/// Whether the caller may add the name. An existing name takes precedence over a missing
/// permission.
fn may_add(at: &NameChange<'_>) -> Result<()> {
    let Err(refused) = at.fs.may(at.dir, at.caller, Want::WRITE.and(Want::EXECUTE)) else {
        return Ok(());
    };
    at.fs.may(at.dir, at.caller, Want::EXECUTE)?;
    Err(exists_or(at, refused))
}

/// `refused`, or `Exists` if the name exists.
fn exists_or(at: &NameChange<'_>, refused: Error) -> Error {
    let _shared = at.dir.index.read();
    match dir::find(at.fs, at.dir, &at.name) {
        Ok(Some(_)) => Error::Exists,
        Ok(None) => refused,
        Err(error) => error,
    }
}

/// A directory with an inheritable project accepts only inodes of that project.
pub(crate) fn check_project(dir: &Inode, inode: &Inode) -> Result<()> {
    let project = dir.facts().project_of_children();
    match project {
        Some(project) if project != inode.read().disk.projid => Err(Error::CrossDevice),
        _ => Ok(()),
    }
}

/// Updates the times after a change of entries, once per clock tick and commit.
pub(crate) fn touch_dir(handle: &Handle<'_>, dir: &Arc<Inode>, now: Timestamp) {
    if dir.live().stamp() == Some(handle.stamp()) && dir.facts().changed_at(now) {
        return;
    }
    let mut state = handle.write(dir);
    state.disk.set_mtime(now);
    state.disk.set_ctime(now);
}

impl Fs {
    /// Counts a new subdirectory: its `..` is a link to `dir`.
    pub(crate) fn add_dir_link(&self, handle: &Handle<'_>, dir: &Arc<Inode>) -> Result<()> {
        let mut state = handle.write(dir);
        let links = state.disk.links;
        if links == 1 {
            return Ok(());
        }
        if links >= LINK_MAX {
            // Linux counts further only if the directory is indexed.
            let indexed = self.dirs.index && state.disk.flags.contains(InodeFlags::INDEX);
            if !indexed || !self.base.features.has(uext4_format::Feature::DIR_NLINK) {
                return Err(Error::TooManyLinks);
            }
            state.disk.links = 1;
            return Ok(());
        }
        state.disk.links = links + 1;
        Ok(())
    }

    /// Uncounts a subdirectory; a count of 1 ("many") stays.
    pub(crate) fn drop_dir_link(&self, handle: &Handle<'_>, dir: &Arc<Inode>) {
        let mut state = handle.write(dir);
        if state.disk.links > 2 {
            state.disk.links -= 1;
        }
    }
}
