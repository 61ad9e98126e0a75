//! Removal of names.

use super::{NameChange, check_alive, check_name, lock_all, touch_dir};
use crate::ops::filesystem::Filesystem;
use crate::parts::access::Want;
use crate::parts::dir::{self, DirError, DirResult, LockMode};
use crate::parts::file;
use crate::parts::lifetime::has_blocks;
use crate::state::engine::Fs;
use crate::state::inode::{Inode, InodeRef};
use crate::types::attr::Caller;
use crate::types::credits;
use crate::types::error::{Error, Result};
use uext4_format::{FileType, Timestamp};
use uext4_journal::Handle;
use uext4_sync::Arc;

impl Filesystem {
    /// Removes a name that is not a directory's. The inode stays for its users.
    pub fn unlink(&self, parent: &InodeRef, name: &[u8], caller: &Caller) -> Result<()> {
        self.unlink_watched(parent, name, caller, &mut |_| ())
    }

    /// As [`Self::unlink`]. `victim` gets the inode before it loses the name, again at a retry. A
    /// clone of it keeps an inode without a name ([`Inode::is_nameless`]), also if this fails
    /// later.
    pub fn unlink_watched(
        &self,
        parent: &InodeRef,
        name: &[u8],
        caller: &Caller,
        victim: &mut dyn FnMut(&InodeRef),
    ) -> Result<()> {
        self.change(|fs| {
            check_name(name)?;
            check_alive(parent)?;
            fs.may(parent, caller, Want::EXECUTE)?;
            let at = NameChange::new(fs, parent, name, caller);
            at.with_index(|index| unlink_named(&at, index, victim))?;
            fs.sync_if_asked(parent)
        })
    }

    /// Removes the directory `name` of `parent`, which must be empty.
    pub fn rmdir(&self, parent: &InodeRef, name: &[u8], caller: &Caller) -> Result<()> {
        self.rmdir_watched(parent, name, caller, &mut |_| ())
    }

    /// As [`Self::rmdir`], with a `victim` as for [`Self::unlink_watched`].
    pub fn rmdir_watched(
        &self,
        parent: &InodeRef,
        name: &[u8],
        caller: &Caller,
        victim: &mut dyn FnMut(&InodeRef),
    ) -> Result<()> {
        self.change(|fs| {
            check_name(name)?;
            match name {
                b"." => return Err(Error::Invalid("'.' cannot be removed")),
                b".." => return Err(Error::NotEmpty),
                _ => {}
            }
            check_alive(parent)?;
            fs.may(parent, caller, Want::EXECUTE)?;
            let at = NameChange::new(fs, parent, name, caller);
            at.with_locks(|index| rmdir_named(&at, index, victim))?;
            fs.sync_if_asked(parent)
        })
    }
}

fn unlink_named(
    at: &NameChange<'_>,
    index: LockMode,
    victim: &mut dyn FnMut(&InodeRef),
) -> DirResult<()> {
    let (fs, parent, name) = (at.fs, at.dir, &at.name);
    let found = index.checked(parent, dir::lookup_entry(fs, parent, name))?;
    let (target, holder) = found.ok_or(Error::NotFound)?;
    fs.may_delete(parent, &target, at.caller)?;
    if target.is_dir() {
        return Err(Error::IsDirectory.into());
    }
    victim(&target);
    let handle = fs.start(credits::REMOVE)?;
    fs.promise_names(&handle, parent);
    let removed = match &holder {
        Some(holder) => dir::remove_at(fs, &handle, parent, name, holder, index),
        None => dir::remove(fs, &handle, parent, name, target.nr(), index),
    };
    removed.map_err(changed_name)?;
    let now = fs.now();
    touch_dir(&handle, parent, now);
    Ok(fs.drop_link(&handle, target.arc(), now)?)
}

/// The error of a removal of a name that was there: a rename replaced it, or another unlink removed
/// it.
fn changed_name(error: DirError) -> DirError {
    match error {
        DirError::Fs(Error::NotFound) => DirError::Moved,
        other => other,
    }
}

/// The parent only loses an entry; the target is locked exclusively, so that no name is added to
/// it.
fn rmdir_named(
    at: &NameChange<'_>,
    index: LockMode,
    victim: &mut dyn FnMut(&InodeRef),
) -> DirResult<()> {
    let (fs, parent) = (at.fs, at.dir);
    let target = at.lookup_once()?.ok_or(Error::NotFound)?;
    fs.may_delete(parent, &target, at.caller)?;
    if !target.is_dir() {
        return Err(Error::NotDirectory.into());
    }
    let _held = lock_all(vec![(parent, index), (&target, LockMode::Exclusive)]);
    if !dir::is_empty(fs, target.arc())? {
        return Err(Error::NotEmpty.into());
    }
    victim(&target);
    let handle = fs.start(credits::REMOVE)?;
    let removed = dir::remove(fs, &handle, parent, &at.name, target.nr(), index);
    removed.map_err(changed_name)?;
    let now = fs.now();
    touch_dir(&handle, parent, now);
    fs.drop_dir_link(&handle, parent);
    Ok(fs.drop_last_link(&handle, target.arc(), now)?)
}

impl Fs {
    /// Drops one link, whose name was removed through the handle. An inode without a name becomes
    /// an orphan, or is freed at once if it maps no blocks and only the caller holds it.
    pub(crate) fn drop_link(
        &self,
        handle: &Handle<'_>,
        inode: &Arc<Inode>,
        now: Timestamp,
    ) -> Result<()> {
        let last = {
            let mut state = handle.write(inode);
            state.disk.set_ctime(now);
            state.disk.links = state.disk.links.saturating_sub(1);
            let last = state.disk.links == 0;
            if last {
                self.record_last_name(handle, &mut state);
            }
            last
        };
        if last {
            self.orphan_or_free(handle, inode)
        } else {
            Ok(())
        }
    }

    /// Drops a directory's name and its own `.`.
    pub(crate) fn drop_last_link(
        &self,
        handle: &Handle<'_>,
        inode: &Arc<Inode>,
        now: Timestamp,
    ) -> Result<()> {
        {
            let mut state = handle.write(inode);
            state.disk.set_ctime(now);
            state.disk.links = 0;
            if state.disk.file_type() == Some(FileType::Directory) {
                state.disk.size = 0;
            }
        }
        self.orphan_or_free(handle, inode)
    }

    /// Claims the right to free an inode that only the caller uses and that maps no blocks.
    /// Discards its delayed data.
    fn claim_empty(&self, inode: &Arc<Inode>) -> bool {
        // A handle is open, so this does not wait for a writeback in progress.
        let Some(mut buffer) = inode.io.try_write() else {
            return false;
        };
        let claimed = !has_blocks(self, inode) && inode.claim_free(1);
        if claimed {
            file::discard_delayed(self, inode, &mut buffer);
        }
        claimed
    }

    fn orphan_or_free(&self, handle: &Handle<'_>, inode: &Arc<Inode>) -> Result<()> {
        inode.set_links(0);
        if self.claim_empty(inode) {
            return self.finish_evict(handle, inode);
        }
        self.orphans.add(&self.base, handle, inode)
    }
}
