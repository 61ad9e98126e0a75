//! Opens a file or device with exclusion of other writers.
//!
//! References: open(2) of `O_EXCL` on block devices, flock(2), `ABI/stable/sysfs-block` (`ro`).

use super::Access;
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
    let exclusive = OFlags::EXCL.bits().cast_signed();
    let claimed = options.read(true).custom_flags(exclusive).open(path);
    claimed.map(Some).map_err(open_error(path))
}

/// Opens a file that is not a directory.
pub(super) fn open_file(path: &Path, access: Access) -> Result<File, Error> {
    let mut options = OpenOptions::new();
    options.read(true).write(access == Access::ReadWrite);
    let file = options.open(path).map_err(open_error(path))?;
    if kind_of(&file).map_err(open_error(path))? == FileType::Directory {
        return Err(open_error(path)(Errno::ISDIR.into()));
    }
    if access == Access::ReadWrite {
        if is_write_protected(&file) {
            return Err(Error::WriteProtected);
        }
        lock_for_writing(&file, path)?;
    }
    Ok(file)
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
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Err(Error::Busy {
            path: path.to_owned(),
            user: users::describe_file(file, path),
        }),
        // Some network file systems have no locks: working unlocked is better than refusing.
        Err(Errno::NOLCK | Errno::NOTSUP) | Ok(()) => Ok(()),
        Err(errno) => Err(Error::io("open", 0, 0, errno)),
    }
}
