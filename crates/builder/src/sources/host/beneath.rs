//! Opening a path below a directory, through no symbolic link.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// Attempts of `openat2` while renames disturb it.
const TRIES: u32 = 8;

/// Opens a path beneath a directory, through no symbolic link.
pub(super) fn open_beneath(root: &OwnedFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let path = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    };
    for _ in 0..TRIES {
        match rustix::fs::openat2(root, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN) => {}
            Err(Errno::NOSYS | Errno::PERM | Errno::NAMETOOLONG) => break,
            result => return result,
        }
    }
    let walk_flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let (above, last) = (path.parent(), path.file_name());
    let mut at = None;
    for name in above.into_iter().flat_map(Path::components) {
        let from = at.as_ref().map_or(root.as_fd(), OwnedFd::as_fd);
        at = Some(rustix::fs::openat(
            from,
            name.as_os_str(),
            walk_flags,
            Mode::empty(),
        )?);
    }
    let from = at.as_ref().map_or(root.as_fd(), OwnedFd::as_fd);
    let last = last.unwrap_or(OsStr::new("."));
    rustix::fs::openat(from, last, flags, Mode::empty())
}
