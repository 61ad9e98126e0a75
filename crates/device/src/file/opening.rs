//! Opens a file or device with exclusion of other writers.
//!
//! References: open(2) of `O_EXCL` on block devices, flock(2), `ABI/stable/sysfs-block` (`ro`).

use super::Access;
use super::shared_locks::{self, Answer};
use crate::{Error, users};
use rustix::fs::{CWD, FileType, FlockOperation, Mode, OFlags, major, minor};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

fn open_error(path: &Path) -> impl Fn(std::io::Error) -> Error {
    |error| match error.raw_os_error() {
        Some(code) if code == Errno::BUSY.raw_os_error() => Error::Busy {
            path: path.to_owned(),
            user: users::describe_path(path),
        },
        _ => Error::io("open", 0, 0, error),
    }
}

/// Claims a block device until the file is closed; `None` for other files.
pub(super) fn claim(path: &Path) -> Result<Option<File>, Error> {
    // A sandboxed server may open only its own files, and read attributes by descriptor only.
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let found = rustix::fs::openat(CWD, path, flags, Mode::empty());
    let found = found.map_err(|errno| open_error(path)(errno.into()))?;
    if kind_of(&found).map_err(open_error(path))? != FileType::BlockDevice {
        return Ok(None);
    }
    let mut options = OpenOptions::new();
    let exclusive = (OFlags::EXCL | OFlags::NONBLOCK).bits().cast_signed();
    let claimed = options.read(true).custom_flags(exclusive).open(path);
    claimed.map(Some).map_err(open_error(path))
}

/// Opens a regular file or a block device. Other kinds are refused, without waiting for the other
/// end of a pipe.
pub(super) fn open_file(path: &Path, access: Access) -> Result<File, Error> {
    let mut options = OpenOptions::new();
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    options.read(true).write(access == Access::ReadWrite);
    let opened = options.custom_flags(flags).open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) => return Err(refusal(path).unwrap_or_else(|| open_error(path)(error))),
    };
    check_kind(kind_of(&file).map_err(open_error(path))?)?;
    let flags = rustix::fs::fcntl_getfl(&file);
    flags
        .and_then(|flags| rustix::fs::fcntl_setfl(&file, flags - OFlags::NONBLOCK))
        .map_err(|errno| open_error(path)(errno.into()))?;
    if access == Access::ReadWrite {
        if is_write_protected(&file) {
            return Err(Error::WriteProtected);
        }
        lock_for_writing(&file, path)?;
    }
    Ok(file)
}

/// Why a path whose open fails can be no device: its kind, or nothing.
fn refusal(path: &Path) -> Option<Error> {
    let kind = FileType::from_raw_mode(rustix::fs::stat(path).ok()?.st_mode);
    check_kind(kind).err()
}

fn check_kind(kind: FileType) -> Result<(), Error> {
    let kind = match kind {
        FileType::RegularFile | FileType::BlockDevice => return Ok(()),
        FileType::Directory => return Err(Error::io("open", 0, 0, Errno::ISDIR)),
        FileType::Fifo => "a pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice => "a character device",
        _ => "another kind of file",
    };
    Err(Error::Kind { kind })
}

pub(super) fn kind_of(file: impl AsFd) -> std::io::Result<FileType> {
    let found = rustix::fs::fstat(file)?;
    Ok(FileType::from_raw_mode(found.st_mode))
}

/// True for a block device that Linux opens for writing but whose writes it refuses. False for
/// other files, and where `/sys` is not accessible.
fn is_write_protected(file: &File) -> bool {
    let Ok(found) = rustix::fs::fstat(file) else {
        return false;
    };
    let (major, minor) = (major(found.st_rdev), minor(found.st_rdev));
    FileType::from_raw_mode(found.st_mode) == FileType::BlockDevice
        && std::fs::read(format!("/sys/dev/block/{major}:{minor}/ro"))
            .is_ok_and(|said| said.starts_with(b"1"))
}

/// As `is_write_protected`, by path; false if it cannot be opened.
pub fn write_protected(path: &Path) -> bool {
    File::open(path).is_ok_and(|file| is_write_protected(&file))
}

/// Excludes other programs that respect locks from writing.
pub(super) fn lock_for_writing(file: &File, path: &Path) -> Result<(), Error> {
    let busy = || Error::Busy {
        path: path.to_owned(),
        user: users::describe_file(file, path),
    };
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => return Err(busy()),
        // Some network file systems have no locks: working unlocked is better than refusing.
        Err(Errno::NOLCK | Errno::NOTSUP) | Ok(()) => {}
        Err(errno) => return Err(Error::io("open", 0, 0, errno)),
    }
    match shared_locks::take(file) {
        Ok(Answer::Free) => Ok(()),
        refused => {
            let _without_locks = rustix::fs::flock(file, FlockOperation::Unlock);
            Err(refused.map_or_else(|error| Error::io("open", 0, 0, error), |_| busy()))
        }
    }
}

/// Gives the locks of [`lock_for_writing`] back.
pub(super) fn unlock(file: &File) {
    shared_locks::release(file);
    let _without_locks = rustix::fs::flock(file, FlockOperation::Unlock);
}
