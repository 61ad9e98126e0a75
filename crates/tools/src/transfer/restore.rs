//! Restores owner, mode, extended attributes and times of exported files.
//!
//! Permissions follow GNU tar. [`Permissions::Same`], root's default, keeps all permission bits.
//! [`Permissions::Ordinary`], the default of other users, drops setuid, setgid and sticky and
//! applies the umask.

use crate::show;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{AtFlags, Gid, Mode, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use uext4::{Attr, Caller, Error, FileType, Filesystem, InodeRef, Timestamp};

use super::handles::magic_path;

type Result<T> = std::result::Result<T, Errno>;

/// Treatment of permission bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Permissions {
    /// All of them, access control lists and capabilities.
    Same,
    /// Permission bits after the umask, without setuid, setgid, sticky, access control lists and
    /// capabilities.
    Ordinary,
}

/// Extended attributes that grant permissions in addition to the mode.
const GRANTING: [&[u8]; 3] = [
    b"system.posix_acl_access",
    b"system.posix_acl_default",
    b"security.capability",
];

/// Sets attributes of exported files.
pub(super) struct Restore {
    permissions: Permissions,
    umask: Mode,
    /// True if the process can set owners and privileged attributes and create device nodes.
    privileged: bool,
    /// Count of owners and attributes that were lost to the policy, or for lack of privilege or
    /// support.
    pub(super) reduced: u64,
}

impl Restore {
    pub(super) fn new(permissions: Permissions) -> Self {
        // The umask can only be read by setting it.
        let umask = rustix::process::umask(Mode::empty());
        rustix::process::umask(umask);
        Self {
            permissions,
            umask,
            privileged: is_privileged(),
            reduced: 0,
        }
    }

    /// The permission bits that a file of the image gets on the host.
    fn mode(&self, attr: &Attr) -> Mode {
        let mode = Mode::from_raw_mode(attr.mode.into());
        match self.permissions {
            Permissions::Same => mode,
            Permissions::Ordinary => mode
                .intersection(Mode::RWXU | Mode::RWXG | Mode::RWXO)
                .difference(self.umask),
        }
    }

    /// Sets attributes of an open file or directory.
    pub(super) fn open(
        &mut self,
        fd: BorrowedFd<'_>,
        fs: &Filesystem,
        inode: &InodeRef,
        attr: &Attr,
    ) -> Result<()> {
        let (uid, gid) = owner(attr);
        self.unless_refused(rustix::fs::fchown(fd, uid, gid))?;
        rustix::fs::fchmod(fd, self.mode(attr))?;
        // After the owner, because a change of owner removes capabilities.
        self.xattrs(fs, inode, |key, value| {
            rustix::fs::fsetxattr(fd, key, value, XattrFlags::empty())
        })?;
        rustix::fs::futimens(fd, &times(attr))
    }

    /// Sets attributes of a symbolic link, device node, pipe or socket through an `O_PATH` handle,
    /// because opening a device or pipe has side effects.
    pub(super) fn by_handle(
        &mut self,
        fd: BorrowedFd<'_>,
        fs: &Filesystem,
        inode: &InodeRef,
        attr: &Attr,
    ) -> Result<()> {
        let path = magic_path(fd.as_fd());
        let (uid, gid) = owner(attr);
        self.unless_refused(rustix::fs::chownat(fd, "", uid, gid, AtFlags::EMPTY_PATH))?;
        if attr.kind != FileType::Symlink {
            rustix::fs::chmod(&path, self.mode(attr))?;
        }
        self.xattrs(fs, inode, |key, value| {
            rustix::fs::setxattr(&path, key, value, XattrFlags::empty())
        })?;
        rustix::fs::utimensat(rustix::fs::CWD, &path, &times(attr), AtFlags::empty())
    }

    fn xattrs(
        &mut self,
        fs: &Filesystem,
        inode: &InodeRef,
        put: impl Fn(&OsStr, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let caller = Caller::root();
        for name in fs.list_xattrs(inode, &caller).map_err(errno)? {
            if self.permissions == Permissions::Ordinary && GRANTING.contains(&name.as_slice()) {
                self.reduced += 1;
                continue;
            }
            let value = fs.get_xattr(inode, &name, &caller).map_err(errno)?;
            match put(OsStr::from_bytes(&name), &value) {
                // The host's file system does not support the attribute.
                Err(Errno::NOTSUP) => self.reduced += 1,
                other => self.unless_refused(other)?,
            }
        }
        Ok(())
    }

    /// True if a node could not be created for lack of privilege; prints a note.
    pub(super) fn lacks_privilege(&self, error: Errno, attr: &Attr, at: &str) -> bool {
        if error != Errno::PERM || self.privileged {
            return false;
        }
        let kind = show::kind(attr.kind);
        crate::failure::note(format_args!("{at}: only the superuser can make a {kind}"));
        true
    }

    fn unless_refused(&mut self, answer: Result<()>) -> Result<()> {
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

/// True if the process has all rights of root: user 0, in a user namespace that maps all users.
fn is_privileged() -> bool {
    let all = |map: String| map.split_whitespace().eq(["0", "0", "4294967295"]);
    let maps_all = std::fs::read_to_string("/proc/self/uid_map").map_or(true, all);
    rustix::process::geteuid().is_root() && maps_all
}

fn errno(error: Error) -> Errno {
    Errno::from_raw_os_error(error.errno())
}

fn owner(attr: &Attr) -> (Option<Uid>, Option<Gid>) {
    (Some(Uid::from_raw(attr.uid)), Some(Gid::from_raw(attr.gid)))
}

fn times(attr: &Attr) -> Timestamps {
    let spec = |time: Timestamp| Timespec {
        tv_sec: time.seconds,
        tv_nsec: time.nanoseconds.into(),
    };
    Timestamps {
        last_access: spec(attr.atime),
        last_modification: spec(attr.mtime),
    }
}
