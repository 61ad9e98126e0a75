//! Restores owner, mode, extended attributes and times of exported files.
//!
//! Permissions follow GNU tar. [`Permissions::Same`], that of root, keeps all permission bits.
//! [`Permissions::Ordinary`], that of other users, drops setuid, setgid and sticky and applies the
//! umask.

use crate::beneath::magic_path;
use crate::error::{InImage, OnHost};
use crate::export::Original;
use crate::{Error, Result};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{AtFlags, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use uext4::format::acl::{Acl, Tag};
use uext4::{Attr, Caller, FileType, Timestamp};

type HostResult<T> = std::result::Result<T, Errno>;

/// Treatment of permission bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permissions {
    /// All of them, access control lists and capabilities.
    Same,
    /// Permission bits without those of `umask`, setuid, setgid and sticky; no access control lists
    /// and capabilities.
    Ordinary {
        /// The bits that new files of this process do not get.
        umask: u16,
    },
}

/// Bits of set-user-id and set-group-id.
const SET_IDS: u16 = 0o6000;
const ACCESS: &[u8] = b"system.posix_acl_access";

/// Extended attributes that grant permissions in addition to the mode.
const GRANTING: [&[u8]; 3] = [ACCESS, b"system.posix_acl_default", b"security.capability"];

/// Sets attributes of exported files.
pub(crate) struct Restore {
    pub(crate) permissions: Permissions,
    /// True if the process can set owners and privileged attributes and create device nodes.
    privileged: bool,
    /// Count of owners and attributes that were lost to the policy, or for lack of privilege or
    /// support.
    pub(crate) reduced: u64,
}

impl Restore {
    pub(crate) fn new(permissions: Permissions) -> Self {
        Self {
            permissions,
            privileged: is_privileged(),
            reduced: 0,
        }
    }

    /// The permission bits that a file of the image gets on the host. In a user namespace a program
    /// of an owner that the host refused does not get the rights of the superuser there.
    fn mode(&self, from: &Original, owner: Owner) -> Mode {
        let kept = match self.permissions {
            Permissions::Same => 0o7777,
            Permissions::Ordinary { umask } => 0o777 & !umask,
        };
        // An access control list sets its mask itself, if the host takes it.
        Mode::from_raw_mode((without_acl(from) & kept & owner.keeps()).into())
    }

    /// Sets attributes of an open file or directory, which is at `host`.
    pub(crate) fn open(&mut self, fd: BorrowedFd<'_>, from: &Original, host: &Path) -> Result<()> {
        let (uid, gid) = owner(&from.attr);
        let set = rustix::fs::fchown(fd, uid, gid);
        let owner = self
            .set_owner(set, fd, &from.attr)
            .on_host(|| host.into())?;
        rustix::fs::fchmod(fd, self.mode(from, owner)).on_host(|| host.into())?;
        // After the owner, because a change of owner removes capabilities.
        self.xattrs(from, host, |key, value| {
            rustix::fs::fsetxattr(fd, key, value, XattrFlags::empty())
        })?;
        rustix::fs::futimens(fd, &times(&from.attr)).on_host(|| host.into())
    }

    /// Sets attributes of a symbolic link, device node, pipe or socket through an `O_PATH` handle,
    /// because opening a device or pipe has side effects.
    pub(crate) fn by_handle(
        &mut self,
        fd: BorrowedFd<'_>,
        from: &Original,
        host: &Path,
    ) -> Result<()> {
        let path = magic_path(fd.as_fd());
        let (uid, gid) = owner(&from.attr);
        let set = rustix::fs::chownat(fd, "", uid, gid, AtFlags::EMPTY_PATH);
        let owner = self
            .set_owner(set, fd, &from.attr)
            .on_host(|| host.into())?;
        if from.attr.kind != FileType::Symlink {
            rustix::fs::chmod(&path, self.mode(from, owner)).on_host(|| host.into())?;
        }
        self.xattrs(from, host, |key, value| {
            rustix::fs::setxattr(&path, key, value, XattrFlags::empty())
        })?;
        let times = times(&from.attr);
        rustix::fs::utimensat(rustix::fs::CWD, &path, &times, AtFlags::empty())
            .on_host(|| host.into())
    }

    fn xattrs(
        &mut self,
        from: &Original,
        host: &Path,
        put: impl Fn(&OsStr, &[u8]) -> HostResult<()>,
    ) -> Result<()> {
        let caller = Caller::root();
        let in_image = || from.path.clone();
        let names = from.fs.list_xattrs(&from.inode, &caller);
        for name in names.in_image(in_image)? {
            let is_ordinary = matches!(self.permissions, Permissions::Ordinary { .. });
            if is_ordinary && GRANTING.contains(&name.as_slice()) {
                self.reduced += 1;
                continue;
            }
            let value = from.fs.get_xattr(&from.inode, &name, &caller);
            let value = value.in_image(in_image)?;
            match put(OsStr::from_bytes(&name), &value) {
                // The host's file system does not support the attribute.
                Err(Errno::NOTSUP) => self.reduced += 1,
                other => {
                    let set = self.unless_refused(other);
                    set.map_err(|error| Error::HostAttribute {
                        path: host.into(),
                        name: name.escape_ascii().to_string(),
                        error: error.into(),
                    })?;
                }
            }
        }
        Ok(())
    }

    /// Whether a node could not be created for lack of privilege.
    pub(crate) fn lacks_privilege(&self, error: Errno) -> bool {
        error == Errno::PERM && !self.privileged
    }

    fn set_owner(
        &mut self,
        answer: HostResult<()>,
        file: BorrowedFd<'_>,
        from: &Attr,
    ) -> HostResult<Owner> {
        let done = answer.is_ok();
        self.unless_refused(answer)?;
        // All permissions that an ordinary user asks for are those of own files.
        if !rustix::process::geteuid().is_root() {
            return Ok(Owner::Same);
        }
        if !done {
            return Ok(Owner::Refused);
        }
        if from.mode & SET_IDS == 0 {
            return Ok(Owner::Same);
        }
        // A file system with one owner for all may report success and keep its owner.
        let found = rustix::fs::fstat(file)?;
        if (found.st_uid, found.st_gid) == (from.uid, from.gid) {
            Ok(Owner::Same)
        } else {
            Ok(Owner::Refused)
        }
    }

    fn unless_refused(&mut self, answer: HostResult<()>) -> HostResult<()> {
        match answer {
            // EINVAL: an owner that the user namespace does not map.
            Err(Errno::PERM | Errno::INVAL) if !self.privileged => {
                self.reduced += 1;
                Ok(())
            }
            other => other,
        }
    }
}

/// Whether the host took owner and group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Same,
    Refused,
}

impl Owner {
    /// The permission bits that a file keeps: set-user-id and set-group-id are those of the owner.
    fn keeps(self) -> u16 {
        match self {
            Self::Same => 0o7777,
            Self::Refused => 0o7777 & !SET_IDS,
        }
    }
}

/// The permission bits of a file without its access control list. With one, the bits of the group
/// are the mask, which may be more than the group has.
fn without_acl(from: &Original) -> u16 {
    let mode = from.attr.mode;
    let list = from.fs.get_xattr(&from.inode, ACCESS, &Caller::root());
    let list = list.ok().and_then(|value| Acl::from_xattr(&value).ok());
    let Some(list) = list.flatten() else {
        return mode;
    };
    let group = list
        .entries()
        .iter()
        .find(|entry| entry.tag == Tag::GroupObj);
    match group {
        Some(group) => mode & !0o070 | (mode & group.perm << 3),
        None => mode,
    }
}

/// True if the process has all rights of root: user 0, in a user namespace that maps all users.
fn is_privileged() -> bool {
    let maps_all = std::fs::read_to_string("/proc/self/uid_map").map_or(true, |map| {
        map.split_whitespace().eq(["0", "0", "4294967295"])
    });
    rustix::process::geteuid().is_root() && maps_all
}

fn owner(attr: &Attr) -> (Option<Uid>, Option<Gid>) {
    (Some(Uid::from_raw(attr.uid)), Some(Gid::from_raw(attr.gid)))
}

fn times(attr: &Attr) -> Timestamps {
    Timestamps {
        last_access: spec(attr.atime),
        last_modification: spec(attr.mtime),
    }
}

fn spec(time: Timestamp) -> Timespec {
    Timespec {
        tv_sec: time.seconds,
        tv_nsec: time.nanoseconds.into(),
    }
}
