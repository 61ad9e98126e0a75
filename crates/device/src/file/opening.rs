//! Opening a file or device so that nobody else writes it meanwhile.
//!
//! References: open(2) of `O_EXCL` on block devices, flock(2), `ABI/stable/sysfs-block` (`ro`).

use super::Access;
use crate::Error;
use rustix::fs::{FlockOperation, OFlags, major, minor};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

fn open_error(path: &Path) -> impl Fn(std::io::Error) -> Error {
    |error| match error.raw_os_error() {
        Some(code) if code == Errno::BUSY.raw_os_error() => Error::Busy {
            path: path.to_owned(),
        },
        _ => Error::io("open", 0, 0, error),
    }
}

/// Claims a block device; it is given up when the file is closed. Nothing of other files.
pub(super) fn claim(path: &Path) -> Result<Option<File>, Error> {
    let kind = std::fs::metadata(path).map_err(open_error(path))?;
    if !kind.file_type().is_block_device() {
        return Ok(None);
    }
    let mut options = OpenOptions::new();
    let exclusive = OFlags::EXCL.bits().cast_signed();
    let claimed = options.read(true).custom_flags(exclusive).open(path);
    claimed.map(Some).map_err(open_error(path))
}

/// Opens a file that is no directory.
pub(super) fn open_file(path: &Path, access: Access) -> Result<File, Error> {
    let kind = std::fs::metadata(path).map_err(open_error(path))?;
    if kind.is_dir() {
        return Err(open_error(path)(Errno::ISDIR.into()));
    }
    let mut options = OpenOptions::new();
    options.read(true).write(access == Access::ReadWrite);
    let file = options.open(path).map_err(open_error(path))?;
    if access == Access::ReadWrite {
        if is_write_protected(&file) {
            return Err(Error::WriteProtected);
        }
        lock_for_writing(&file, path)?;
    }
    Ok(file)
}

/// True of a block device that Linux opens for writing and refuses every write to. Nobody says so
/// of other files, and where `/sys` is out of reach.
fn is_write_protected(file: &File) -> bool {
    let Ok(kind) = file.metadata() else {
        return false;
    };
    let (major, minor) = (major(kind.rdev()), minor(kind.rdev()));
    kind.file_type().is_block_device()
        && std::fs::read(format!("/sys/dev/block/{major}:{minor}/ro"))
            .is_ok_and(|said| said.starts_with(b"1"))
}

/// Keeps other programs that heed locks from writing.
pub(super) fn lock_for_writing(file: &File, path: &Path) -> Result<(), Error> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Err(Error::Busy {
            path: path.to_owned(),
        }),
        // Some network file systems have no locks; better to work there than to refuse.
        Err(Errno::NOLCK | Errno::NOTSUP) | Ok(()) => Ok(()),
        Err(errno) => Err(Error::io("open", 0, 0, errno)),
    }
}
