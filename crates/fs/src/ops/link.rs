//! Hard links.

use super::{
    LINK_MAX, NameChange, check_alive, check_new_name, check_project, exists_or, may_add, touch_dir,
};
use crate::ops::filesystem::Filesystem;
use crate::parts::dir::{self, DirResult, LockMode};
use crate::state::engine::Fs;
use crate::state::inode::{Inode, InodeRef};
use crate::state::name_log::NameChange as Change;
use crate::types::attr::Caller;
use crate::types::credits;
use crate::types::error::{Error, Result};
use uext4_format::{FileType, InodeFlags, Timestamp};
use uext4_journal::{FullReason, Handle};
use uext4_sync::Arc;

impl Filesystem {
    /// Gives `inode` another name. An unnamed file of [`Self::tmpfile`] gets its first.
    pub fn link(
        &self,
        inode: &InodeRef,
        parent: &InodeRef,
        name: &[u8],
        caller: &Caller,
    ) -> Result<()> {
        self.change(|fs| {
            check_new_name(name)?;
            check_alive(parent)?;
            let at = NameChange::new(fs, parent, name, caller);
            may_add(&at)?;
            check_linkable(inode)
                .and_then(|()| check_project(parent, inode))
                .map_err(|refused| exists_or(&at, refused))?;
            at.with_index(|index| link_named(&at, inode.arc(), index))?;
            fs.sync_if_asked(parent)
        })
    }
}

fn check_linkable(inode: &Inode) -> Result<()> {
    let state = inode.read();
    let flags = &state.disk.flags;
    let directory = state.disk.file_type() == Some(FileType::Directory);
    if directory || flags.contains(InodeFlags::IMMUTABLE) || flags.contains(InodeFlags::APPEND) {
        return Err(Error::NotPermitted);
    }
    if state.disk.links >= LINK_MAX {
        Err(Error::TooManyLinks)
    } else {
        Ok(())
    }
}

fn link_named(at: &NameChange<'_>, inode: &Arc<Inode>, index: LockMode) -> DirResult<()> {
    let (fs, parent, name) = (at.fs, at.dir, &at.name);
    check_alive(parent)?;
    let way = dir::can_insert(fs, parent, name, index, fs.reserve_of(at.caller))?;
    let _claim = fs.reserve_growth_quota(parent, way.blocks(), at.caller)?;
    let handle = fs.start(credits::CREATE + index.growth_credits())?;
    let now = fs.now();
    if inode.is_dir() || inode.is_orphan() || inode.is_unnamed() {
        handle.require_full(FullReason::Orphan);
    }
    fs.promise_names(&handle, parent);
    add_link(&handle, inode, now)?;
    let child = dir::Child {
        nr: inode.nr(),
        kind: inode.kind(),
        change: Change::Link,
    };
    if let Err(error) = dir::insert(fs, &handle, parent, name, &child, &way) {
        take_link_back(fs, &handle, inode)?;
        return Err(error);
    }
    if inode.is_orphan() {
        fs.orphans.remove_unless_needed(&fs.base, &handle, inode)?;
    }
    touch_dir(&handle, parent, now);
    Ok(())
}

/// Raises the link count. An inode that lost its last name to an unlink gets no new one; a file
/// that never had a name does.
fn add_link(handle: &Handle<'_>, inode: &Arc<Inode>, now: Timestamp) -> Result<()> {
    let mut state = handle.write(inode);
    if state.disk.links == 0 && !inode.is_unnamed() {
        return Err(Error::NotFound);
    }
    if state.disk.links >= LINK_MAX {
        return Err(Error::TooManyLinks);
    }
    state.disk.links += 1;
    state.disk.set_ctime(now);
    inode.set_links(state.disk.links);
    Ok(())
}

/// Lowers the link count again, after a failed insertion of the name. Other links and unlinks of
/// the inode may have run in between, so its state follows from the remaining count.
fn take_link_back(fs: &Fs, handle: &Handle<'_>, inode: &Arc<Inode>) -> Result<()> {
    {
        let mut state = handle.write(inode);
        state.disk.links -= 1;
        match state.disk.links {
            0 => inode.set_unnamed(),
            left => inode.set_links(left),
        }
        if state.disk.links > 0 {
            return Ok(());
        }
    }
    handle.require_full(FullReason::Orphan);
    fs.orphans.add(&fs.base, handle, inode)
}
