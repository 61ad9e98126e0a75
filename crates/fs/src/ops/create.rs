//! Creation of inodes: files, directories, nodes, symbolic links, unnamed files.

use super::{Newcomer, check_alive, check_new_name, may_add, touch_dir};
use crate::access::Want;
use crate::dir::{self, DirError, Index, Way};
use crate::inode::{Inode, NewInode};
use crate::lifetime::InodeDraft;
use crate::{Caller, Error, Filesystem, Fs, InodeRef, Result, credits, file};
use uext4_format::{Feature, FileType};
use uext4_journal::Handle;
use uext4_sync::Arc;

impl Filesystem {
    /// Creates a regular file.
    pub fn create(
        &self,
        parent: &InodeRef,
        name: &[u8],
        mode: u16,
        caller: &Caller,
    ) -> Result<InodeRef> {
        self.make(
            parent,
            name,
            &NewInode::new(FileType::Regular, mode),
            caller,
        )
    }

    /// Creates a directory. It inherits setgid from its parent only, and never gets setuid.
    pub fn mkdir(
        &self,
        parent: &InodeRef,
        name: &[u8],
        mode: u16,
        caller: &Caller,
    ) -> Result<InodeRef> {
        self.make(
            parent,
            name,
            &NewInode::new(FileType::Directory, mode & 0o1777),
            caller,
        )
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
        self.make(
            parent,
            name,
            &NewInode {
                device,
                ..NewInode::new(kind, mode)
            },
            caller,
        )
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
            let _claim = fs.expect_owner(&draft, caller)?;
            fs.with_what_was_freed(|| {
                let handle = fs.start(credits::CREATE)?;
                let inode = fs.new_inode(&handle, parent, &draft)?;
                handle.write(inode.arc()).disk.links = 0;
                inode.set_unnamed();
                fs.orphans.add(fs, &handle, inode.arc())?;
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
            may_add(fs, parent.arc(), name, caller)?;
            let draft = fs.draft_inode(parent, new, caller)?;
            let _claim = fs.expect_owner(&draft, caller)?;
            let newborn = Newborn {
                draft: &draft,
                target: new.target,
                name,
                caller,
            };
            let change = |index| newborn.make(fs, parent.arc(), index);
            // A new directory is a link to its parent, which must not be removed before the name is
            // there.
            let newcomer = Newcomer {
                fs,
                dir: parent.arc(),
                name,
                caller,
            };
            let made = match new.kind {
                FileType::Directory => newcomer.with_held_index(change)?,
                _ => newcomer.with_index(change)?,
            };
            fs.sync_if_asked(parent)?;
            Ok(made)
        })
    }
}

/// An inode to be created with a name.
struct Newborn<'a> {
    draft: &'a InodeDraft,
    /// Target of a symbolic link.
    target: &'a [u8],
    name: &'a [u8],
    caller: &'a Caller,
}

impl Newborn<'_> {
    fn make(
        &self,
        fs: &Fs,
        parent: &Arc<Inode>,
        index: Index,
    ) -> std::result::Result<InodeRef, DirError> {
        check_alive(parent)?;
        let reserve = fs.reserve_of(self.caller);
        let way = dir::can_insert(fs, parent, self.name, index, reserve)?;
        let _claim = fs.expect_growth(parent, way.blocks(), self.caller)?;
        let is_dir = self.draft.kind == FileType::Directory;
        let needs_block = is_dir && !fs.features.has(Feature::INLINE_DATA);
        if needs_block && !fs.space.has_room(reserve) {
            return Err(Error::NoSpace.into());
        }
        let handle = fs.start(credits::CREATE + index.growth_credits())?;
        if is_dir {
            fs.add_dir_link(&handle, parent)?;
        }
        let made = self.make_linked(fs, &handle, parent, &way);
        match &made {
            Ok(_) => touch_dir(&handle, parent, fs.now()),
            Err(_) if is_dir => fs.drop_dir_link(&handle, parent),
            Err(_) => {}
        }
        made
    }

    fn make_linked(
        &self,
        fs: &Fs,
        handle: &Handle<'_>,
        parent: &Arc<Inode>,
        way: &Way,
    ) -> std::result::Result<InodeRef, DirError> {
        let (name, kind) = (self.name, self.draft.kind);
        let inode = fs.new_inode(handle, parent, self.draft)?;
        let filled = self.fill(fs, handle, parent, &inode);
        let named = filled
            .map_err(DirError::from)
            .and_then(|()| dir::insert(fs, handle, parent, name, inode.nr(), kind, way));
        match named {
            Ok(()) => Ok(inode),
            Err(error) => {
                fs.abandon_inode(handle, inode.arc())?;
                Err(error)
            }
        }
    }

    fn fill(
        &self,
        fs: &Fs,
        handle: &Handle<'_>,
        parent: &Arc<Inode>,
        inode: &InodeRef,
    ) -> Result<()> {
        let reserve = fs.reserve_of(self.caller);
        match self.draft.kind {
            FileType::Directory => dir::init(fs, handle, inode.arc(), parent.nr()),
            FileType::Symlink => file::write_link(fs, handle, inode.arc(), self.target, reserve),
            _ => Ok(()),
        }
    }
}
