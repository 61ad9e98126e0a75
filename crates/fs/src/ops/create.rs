//! Creation of inodes: files, directories, nodes, symbolic links, unnamed files.

use super::{NameChange, check_alive, check_new_name, may_add, touch_dir};
use crate::ops::filesystem::Filesystem;
use crate::parts::access::Want;
use crate::parts::dir::{self, DirError, DirResult, InsertPlan, LockMode};
use crate::parts::file;
use crate::parts::lifetime::InodeDraft;
use crate::state::inode::{InodeRef, NewInode};
use crate::state::name_log::NameChange as Change;
use crate::types::attr::Caller;
use crate::types::credits;
use crate::types::error::{Error, Result};
use uext4_format::{Feature, FileType};
use uext4_journal::{FullReason, Handle};

impl Filesystem {
    /// Creates a regular file in `parent` and returns its inode.
    pub fn create(
        &self,
        parent: &InodeRef,
        name: &[u8],
        mode: u16,
        caller: &Caller,
    ) -> Result<InodeRef> {
        let new = NewInode::new(FileType::Regular, mode);
        self.make(parent, name, &new, caller)
    }

    /// Creates a directory. It inherits setgid from its parent only, and never gets setuid.
    pub fn mkdir(
        &self,
        parent: &InodeRef,
        name: &[u8],
        mode: u16,
        caller: &Caller,
    ) -> Result<InodeRef> {
        let new = NewInode::new(FileType::Directory, mode & 0o1777);
        self.make(parent, name, &new, caller)
    }

    /// Creates a device node, fifo, socket or regular file; `device` is (major, minor).
    pub fn mknod(
        &self,
        parent: &InodeRef,
        name: &[u8],
        kind: FileType,
        mode: u16,
        device: (u32, u32),
        caller: &Caller,
    ) -> Result<InodeRef> {
        if matches!(kind, FileType::Directory | FileType::Symlink) {
            return Err(Error::NotPermitted);
        }
        let new = NewInode {
            device,
            ..NewInode::new(kind, mode)
        };
        self.make(parent, name, &new, caller)
    }

    /// Creates a symbolic link to `target`.
    pub fn symlink(
        &self,
        parent: &InodeRef,
        name: &[u8],
        target: &[u8],
        caller: &Caller,
    ) -> Result<InodeRef> {
        if target.is_empty() {
            return Err(Error::NotFound);
        }
        if target.len() >= self.fs.block_size().min(4096) {
            return Err(Error::NameTooLong);
        }
        let new = NewInode {
            target,
            ..NewInode::new(FileType::Symlink, 0o777)
        };
        self.make(parent, name, &new, caller)
    }

    /// Creates a regular file without a name in the file system of `parent` (`O_TMPFILE`). Its last
    /// user frees it unless [`Self::link`] gives it a name.
    pub fn tmpfile(&self, parent: &InodeRef, mode: u16, caller: &Caller) -> Result<InodeRef> {
        self.change(|fs| {
            check_alive(parent)?;
            fs.may(parent, caller, Want::WRITE.and(Want::EXECUTE))?;
            let draft = fs.draft_inode(parent, &NewInode::new(FileType::Regular, mode), caller)?;
            let _claim = fs.reserve_inode_quota(&draft, caller)?;
            fs.retry_after_reclaim(|| {
                let handle = fs.start(credits::CREATE)?;
                let inode = fs.new_inode(&handle, parent, &draft)?;
                handle.write(inode.arc()).disk.links = 0;
                inode.set_unnamed();
                fs.orphans.add(&fs.base, &handle, inode.arc())?;
                Ok(inode)
            })
        })
    }

    fn make(
        &self,
        parent: &InodeRef,
        name: &[u8],
        new: &NewInode<'_>,
        caller: &Caller,
    ) -> Result<InodeRef> {
        self.change(|fs| {
            check_new_name(name)?;
            check_alive(parent)?;
            let at = NameChange::new(fs, parent, name, caller);
            may_add(&at)?;
            let draft = fs.draft_inode(parent, new, caller)?;
            let _claim = fs.reserve_inode_quota(&draft, caller)?;
            let creation = Creation {
                draft: &draft,
                target: new.target,
                at: &at,
            };
            let change = |index| creation.make(index);
            // A new directory is a link to its parent, which must not be removed before the name is
            // there.
            let made = match new.kind {
                FileType::Directory => at.with_held_index(change)?,
                _ => at.with_index(change)?,
            };
            fs.sync_if_asked(parent)?;
            Ok(made)
        })
    }
}

/// An inode to be created with a name.
struct Creation<'a> {
    draft: &'a InodeDraft,
    /// Target of a symbolic link.
    target: &'a [u8],
    at: &'a NameChange<'a>,
}

impl Creation<'_> {
    fn make(&self, index: LockMode) -> DirResult<InodeRef> {
        let (fs, parent, caller) = (self.at.fs, self.at.dir, self.at.caller);
        check_alive(parent)?;
        let reserve = fs.reserve_of(caller);
        let way = dir::can_insert(fs, parent, &self.at.name, index, reserve)?;
        self.at.is_tight.set(way.is_tight());
        let _claim = fs.reserve_growth_quota(parent, way.blocks(), caller)?;
        let is_dir = self.draft.kind == FileType::Directory;
        let needs_block = is_dir && !fs.base.features.has(Feature::INLINE_DATA);
        if needs_block && !fs.space.has_room(reserve) {
            return Err(Error::NoSpace.into());
        }
        let handle = fs.start(credits::CREATE + index.growth_credits())?;
        if self.draft.kind == FileType::Regular {
            fs.promise_names(&handle, parent);
        }
        if is_dir {
            fs.add_dir_link(&handle, parent)?;
        }
        let made = self.make_linked(&handle, &way);
        match &made {
            Ok(_) => touch_dir(&handle, parent, fs.now()),
            Err(_) if is_dir => fs.drop_dir_link(&handle, parent),
            Err(_) => {}
        }
        made
    }

    fn make_linked(&self, handle: &Handle<'_>, way: &InsertPlan) -> DirResult<InodeRef> {
        let (fs, parent, kind) = (self.at.fs, self.at.dir, self.draft.kind);
        let inode = fs.new_inode(handle, parent, self.draft)?;
        let child = dir::Child {
            nr: inode.nr(),
            kind,
            change: Change::Create,
        };
        let filled = self.fill(handle, &inode).map_err(DirError::from);
        let inserted =
            filled.and_then(|()| dir::insert(fs, handle, parent, &self.at.name, &child, way));
        match inserted {
            Ok(()) => Ok(inode),
            Err(error) => {
                handle.require_full(FullReason::Orphan);
                fs.abandon_inode(handle, inode.arc())?;
                Err(error)
            }
        }
    }

    fn fill(&self, handle: &Handle<'_>, inode: &InodeRef) -> Result<()> {
        let (fs, parent) = (self.at.fs, self.at.dir);
        let reserve = fs.reserve_of(self.at.caller);
        match self.draft.kind {
            FileType::Directory => dir::init(fs, handle, inode.arc(), parent.nr()),
            FileType::Symlink => file::write_link(fs, handle, inode.arc(), self.target, reserve),
            _ => Ok(()),
        }
    }
}
