//! Reads host files for import, below directory handles.
//!
//! Invariant: type, owner, mode and data of regular files and directories come from one handle, so
//! that a concurrent rename cannot combine the owner of one file with the data of another. Without
//! [`Links::Follow`] no symbolic link is followed.

use super::beneath::{magic_path, open_beneath};
use rustix::buffer::{SpareCapacity, spare_capacity};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use uext4::Timestamp;
use uext4_num::{clamp_u32, low_u16, nonnegative};

type Result<T> = std::result::Result<T, Errno>;

/// Buffer size for a list of names or a value of extended attributes, in bytes: the kernel's
/// maximum.
const XATTR_BYTES: usize = 64 << 10;

/// Treatment of symbolic links on the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Links {
    /// Import the link itself.
    Keep,
    /// Import the file that the link leads to.
    Follow,
}

/// Type, owner, mode and times of a host file, from one `stat`.
pub(crate) struct State(Stat);

/// A file of the host that is imported.
pub(crate) struct Source {
    pub(crate) state: State,
    /// Handle of a regular file or directory; opening other types has side effects.
    pub(crate) fd: Option<OwnedFd>,
}

impl Source {
    /// Looks `name` up in `dir`.
    pub(crate) fn open(dir: BorrowedFd<'_>, name: &OsStr, links: Links) -> Result<Self> {
        let at_flags = match links {
            Links::Keep => AtFlags::SYMLINK_NOFOLLOW,
            Links::Follow => AtFlags::empty(),
        };
        let state = State(rustix::fs::statat(dir, name, at_flags)?);
        let flags = match state.kind() {
            FileType::Directory => OFlags::DIRECTORY,
            // If a pipe or terminal replaced the file, the open neither blocks nor acquires a
            // controlling terminal.
            FileType::RegularFile => OFlags::NONBLOCK | OFlags::NOCTTY,
            _ => return Ok(Self { state, fd: None }),
        };
        let fd = match links {
            Links::Keep => open_beneath(dir, Path::new(name), flags)?,
            Links::Follow => rustix::fs::openat(dir, name, flags | OFlags::CLOEXEC, Mode::empty())?,
        };
        let opened = State::of(&fd)?;
        if opened.kind() != state.kind() {
            return Err(Errno::STALE);
        }
        Ok(Self {
            state: opened,
            fd: Some(fd),
        })
    }

    /// Extended attributes that ext4 can store; none if the host's file system has none. `name` in
    /// `dir` locates files without a handle.
    pub(crate) fn xattrs(&self, dir: BorrowedFd<'_>, name: &OsStr) -> Result<Xattrs> {
        match &self.fd {
            Some(fd) => xattrs_of(fd.as_fd()),
            None => {
                let path = magic_path(dir).join(name);
                xattrs(
                    |list| rustix::fs::llistxattr(&path, list),
                    |key, value| rustix::fs::lgetxattr(&path, key, value),
                )
            }
        }
    }
}

impl State {
    /// The state of an open file.
    pub(crate) fn of(fd: &OwnedFd) -> Result<Self> {
        Ok(Self(rustix::fs::fstat(fd)?))
    }

    pub(crate) fn kind(&self) -> FileType {
        FileType::from_raw_mode(self.0.st_mode)
    }

    /// Device and inode number: equal for all names of one file.
    pub(crate) fn identity(&self) -> (u64, u64) {
        (self.0.st_dev, self.0.st_ino)
    }

    pub(crate) fn size(&self) -> u64 {
        nonnegative(self.0.st_size)
    }

    pub(crate) fn has_more_names(&self) -> bool {
        self.0.st_nlink > 1
    }

    /// Permission bits with setuid, setgid and sticky.
    pub(crate) fn mode(&self) -> u16 {
        low_u16(self.0.st_mode & 0o7777)
    }

    /// User id and group id.
    pub(crate) fn owner(&self) -> (u32, u32) {
        (self.0.st_uid, self.0.st_gid)
    }

    /// Major and minor number of a device node.
    pub(crate) fn device(&self) -> (u32, u32) {
        let device = self.0.st_rdev;
        (rustix::fs::major(device), rustix::fs::minor(device))
    }

    /// Times of the last access and modification.
    pub(crate) fn times(&self) -> (Timestamp, Timestamp) {
        let stat = &self.0;
        (
            Timestamp::new(stat.st_atime, clamp_u32(stat.st_atime_nsec)),
            Timestamp::new(stat.st_mtime, clamp_u32(stat.st_mtime_nsec)),
        )
    }
}

/// Names and values of extended attributes.
pub(crate) type Xattrs = Vec<(OsString, Vec<u8>)>;

/// Extended attributes of an open file or directory.
pub(crate) fn xattrs_of(fd: BorrowedFd<'_>) -> Result<Xattrs> {
    xattrs(
        |list| rustix::fs::flistxattr(fd, list),
        |key, value| rustix::fs::fgetxattr(fd, key, value),
    )
}

fn xattrs(
    list: impl FnOnce(SpareCapacity<'_, u8>) -> Result<usize>,
    get: impl Fn(&OsStr, SpareCapacity<'_, u8>) -> Result<usize>,
) -> Result<Xattrs> {
    let mut names = Vec::with_capacity(XATTR_BYTES);
    match list(spare_capacity(&mut names)) {
        Err(Errno::NOTSUP) => return Ok(Vec::new()),
        other => other?,
    };
    let mut found = Vec::new();
    for name in names.split(|byte| *byte == 0).filter(|name| is_kept(name)) {
        let mut value = Vec::with_capacity(XATTR_BYTES);
        match get(OsStr::from_bytes(name), spare_capacity(&mut value)) {
            Err(Errno::NODATA) => continue,
            other => other?,
        };
        found.push((OsString::from_vec(name.to_vec()), value));
    }
    Ok(found)
}

fn is_kept(name: &[u8]) -> bool {
    let spaces: [&[u8]; 4] = [b"user.", b"trusted.", b"security.", b"system.posix_acl_"];
    spaces.iter().any(|space| name.starts_with(space))
}

/// Names in an open directory in descending order. The caller pops them from the end, so that the
/// same tree produces the same image.
pub(crate) fn names(dir: &OwnedFd) -> Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(dir.as_fd())? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(OsString::from_vec(name));
        }
    }
    names.sort_by(|a, b| b.cmp(a));
    Ok(names)
}

/// Total size in bytes of the files below a path, for the progress bar. Unreadable entries are left
/// out.
pub(crate) fn total_bytes(path: &Path, links: Links) -> u64 {
    let found = match links {
        Links::Keep => std::fs::symlink_metadata(path),
        Links::Follow => std::fs::metadata(path),
    };
    let mut waiting = Vec::new();
    let mut total = 0;
    let mut count = |path: PathBuf, found: std::io::Result<std::fs::Metadata>| match found {
        Ok(meta) if meta.is_dir() => Some(path),
        Ok(meta) if meta.is_file() => {
            total += meta.len();
            None
        }
        _ => None,
    };
    waiting.extend(count(path.to_path_buf(), found));
    while let Some(dir) = waiting.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            waiting.extend(count(entry.path(), entry.metadata()));
        }
    }
    total
}
