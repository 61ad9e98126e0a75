//! New inodes: files, directories, nodes, symbolic links, unnamed files.

use super::{Newcomer, check_alive, check_new_name, may_add, touch_dir};
use crate::access::Want;
use crate::dir::{self, DirError, Index, Way};
use crate::inode::{Inode, NewInode};
use crate::space::Reserve;
use crate::{Caller, Error, Filesystem, Fs, InodeRef, Result, credits, file};
use std::sync::Arc;
use uext4_format::{Feature, FileType};
use uext4_journal::Handle;

impl Filesystem {
    /// Makes a regular file.
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

    /// Makes a directory. It gets setgid from its parent only, and setuid never.
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

    /// Makes a device node, fifo, socket or regular file; `device` is (major, minor).
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

    /// Makes a symbolic link to `target`.
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

    /// Makes a regular file without a name in the file system of `parent` (`O_TMPFILE`). It is
    /// freed with its last user unless [`Self::link`] gives it a name.
    pub fn tmpfile(&self, parent: &InodeRef, mode: u16, caller: &Caller) -> Result<InodeRef> {
        self.change(|fs| {
            check_alive(parent)?;
            fs.may(parent, caller, Want::WRITE.and(Want::EXECUTE))?;
            let _claim = fs.expect_owner(parent, FileType::Regular, caller)?;
            fs.with_what_was_freed(|| {
                let handle = fs.start(credits::CREATE)?;
                let new = NewInode::new(FileType::Regular, mode);
                let inode = fs.new_inode(&handle, parent.arc(), &new, caller)?;
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
            let _claim = fs.expect_owner(parent, new.kind, caller)?;
            let change = |index| make_named(fs, parent.arc(), name, new, caller, index);
            // A directory is a link to its parent: that may not go before the name is there.
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

fn make_named(
    fs: &Fs,
    parent: &Arc<Inode>,
    name: &[u8],
    new: &NewInode<'_>,
    caller: &Caller,
    index: Index,
) -> std::result::Result<InodeRef, DirError> {
    check_alive(parent)?;
    let reserve = fs.reserve_of(caller);
    let way = dir::can_insert(fs, parent, name, index, reserve)?;
    let _claim = fs.expect_growth(parent, way.blocks(), caller)?;
    let needs_block = new.kind == FileType::Directory && !fs.features.has(Feature::INLINE_DATA);
    if needs_block && !fs.space.has_room(reserve) {
        return Err(Error::NoSpace.into());
    }
    let handle = fs.start(credits::CREATE + index.growth_credits())?;
    if new.kind == FileType::Directory {
        fs.add_dir_link(&handle, parent)?;
    }
    let made = make_linked(fs, &handle, parent, name, new, caller, &way);
    match &made {
        Ok(_) => touch_dir(&handle, parent, fs.now()),
        Err(_) if new.kind == FileType::Directory => fs.drop_dir_link(&handle, parent),
        Err(_) => {}
    }
    made
}

fn make_linked(
    fs: &Fs,
    handle: &Handle<'_>,
    parent: &Arc<Inode>,
    name: &[u8],
    new: &NewInode<'_>,
    caller: &Caller,
    way: &Way,
) -> std::result::Result<InodeRef, DirError> {
    let inode = fs.new_inode(handle, parent, new, caller)?;
    let filled = fill(fs, handle, parent, &inode, new, fs.reserve_of(caller));
    let named = filled
        .map_err(DirError::from)
        .and_then(|()| dir::insert(fs, handle, parent, name, inode.nr(), new.kind, way));
    match named {
        Ok(()) => Ok(inode),
        Err(error) => {
            fs.abandon_inode(handle, inode.arc())?;
            Err(error)
        }
    }
}

fn fill(
    fs: &Fs,
    handle: &Handle<'_>,
    parent: &Arc<Inode>,
    inode: &InodeRef,
    new: &NewInode<'_>,
    reserve: Reserve,
) -> Result<()> {
    match new.kind {
        FileType::Directory => dir::init(fs, handle, inode.arc(), parent.nr()),
        FileType::Symlink => file::write_link(fs, handle, inode.arc(), new.target, reserve),
        _ => Ok(()),
    }
}
