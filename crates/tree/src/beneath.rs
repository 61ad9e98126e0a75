//! Path resolution on the host, confined to directory handles.
//!
//! Mechanism: `openat2` with `RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS`. If the kernel or a filter of
//! system calls refuses `openat2`, one `openat` with `O_NOFOLLOW` per component.
//!
//! Invariant: resolution follows no symbolic link below the handle and does not leave it, even if
//! other processes rename files concurrently. A new file is verified through its own handle before
//! it gets an owner or a mode, because another process may have replaced it.
//!
//! References: `openat2(2)`, `path_resolution(7)`, `proc_pid_fd(5)`.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use std::ffi::{CStr, OsStr};
use std::os::fd::AsRawFd;
use std::path::{Component, Path, PathBuf};

type Result<T> = std::result::Result<T, Errno>;

/// Attempts of `openat2` while renames disturb it; then resolution goes by components.
const TRIES: u32 = 8;

/// Opens `path` beneath `dir`. A symbolic link at its end is opened with `O_PATH` only.
pub(crate) fn open_beneath(dir: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    for _ in 0..TRIES {
        match rustix::fs::openat2(dir, path, flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN) => {}
            Err(Errno::NOSYS | Errno::PERM | Errno::NAMETOOLONG) => break,
            answer => return answer,
        }
    }
    open_by_components(dir, path, flags)
}

/// As [`open_beneath`], for kernels without `openat2`.
fn open_by_components(dir: BorrowedFd<'_>, path: &Path, flags: OFlags) -> Result<OwnedFd> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push(name),
            Component::CurDir => {}
            _ => return Err(Errno::XDEV),
        }
    }
    let last = names.pop().unwrap_or(OsStr::new("."));
    let way = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut at = None;
    for name in names {
        let from = at.as_ref().map_or(dir, OwnedFd::as_fd);
        at = Some(rustix::fs::openat(from, name, way, Mode::empty())?);
    }
    let from = at.as_ref().map_or(dir, OwnedFd::as_fd);
    rustix::fs::openat(from, last, flags, Mode::empty())
}

/// Makes a directory and opens it.
///
/// `EEXIST` also if another process replaced it with a non-empty directory.
pub(crate) fn make_directory(dir: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd> {
    rustix::fs::mkdirat(dir, name, Mode::RWXU)?;
    let made = open_beneath(dir, Path::new(name), OFlags::DIRECTORY)?;
    if has_only(&made, &[])? {
        Ok(made)
    } else {
        Err(Errno::EXIST)
    }
}

/// Whether a directory has no names but that of a new file system, and belongs to this user.
pub(crate) fn is_empty_and_own(dir: &OwnedFd) -> Result<bool> {
    let is_own = rustix::fs::fstat(dir)?.st_uid == rustix::process::geteuid().as_raw();
    Ok(is_own && has_only(dir, &[c"lost+found"])?)
}

fn has_only(dir: &OwnedFd, names: &[&CStr]) -> Result<bool> {
    let mut entries = rustix::fs::Dir::read_from(dir)?;
    let found = entries.find(|entry| match entry {
        Ok(entry) => {
            let name = entry.file_name();
            name != c"." && name != c".." && !names.contains(&name)
        }
        Err(_) => true,
    });
    found.map_or(Ok(true), |entry| entry.map(|_| false))
}

/// Opens a symbolic link, device node, pipe or socket that was just created.
///
/// `EEXIST` if another process replaced it.
pub(crate) fn open_made(
    dir: BorrowedFd<'_>,
    name: &OsStr,
    kind: FileType,
    device: u64,
) -> Result<OwnedFd> {
    let made = open_beneath(dir, Path::new(name), OFlags::PATH)?;
    let stat = rustix::fs::fstat(&made)?;
    let is_ours = FileType::from_raw_mode(stat.st_mode) == kind
        && stat.st_rdev == device
        && stat.st_nlink == 1;
    if is_ours { Ok(made) } else { Err(Errno::EXIST) }
}

/// A path to the file of the handle, for calls that take no `O_PATH` handles. The magic link leads
/// to the inode, independent of its current name.
pub(crate) fn magic_path(fd: BorrowedFd<'_>) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}

/// Identity of an inode: device and inode number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity(u64, u64);

impl Identity {
    pub(crate) fn of(fd: BorrowedFd<'_>) -> Result<Self> {
        let stat: Stat = rustix::fs::fstat(fd)?;
        Ok(Self(stat.st_dev, stat.st_ino))
    }
}

/// Links the file at `path` beneath `root` as `name` in `dir`.
///
/// `ESTALE` if another process replaced the file at `path`.
pub(crate) fn link_beneath(
    root: BorrowedFd<'_>,
    path: &Path,
    identity: Identity,
    dir: BorrowedFd<'_>,
    name: &OsStr,
) -> Result<()> {
    let file = open_beneath(root, path, OFlags::PATH)?;
    if Identity::of(file.as_fd())? != identity {
        return Err(Errno::STALE);
    }
    let by_handle = magic_path(file.as_fd());
    rustix::fs::linkat(CWD, &by_handle, dir, name, AtFlags::SYMLINK_FOLLOW)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `openat2` and resolution by components must agree.
    fn both(dir: &OwnedFd, path: &str, flags: OFlags) -> Result<()> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let one = open_beneath(dir.as_fd(), Path::new(path), flags).map(drop);
        let other = open_by_components(dir.as_fd(), Path::new(path), flags).map(drop);
        assert_eq!(one.is_ok(), other.is_ok(), "{path}: {one:?} {other:?}");
        one
    }

    #[test]
    fn no_path_leaves_the_handle() {
        let dir = tempfile::tempdir().unwrap();
        let inside = dir.path().join("in");
        std::fs::create_dir_all(inside.join("a/b")).unwrap();
        std::fs::write(dir.path().join("secret"), "").unwrap();
        std::fs::write(inside.join("a/b/file"), "").unwrap();
        std::os::unix::fs::symlink("..", inside.join("a/up")).unwrap();
        std::os::unix::fs::symlink("b/file", inside.join("a/link")).unwrap();
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(&inside, flags, Mode::empty()).unwrap();
        both(&root, "a/b/file", OFlags::RDONLY).unwrap();
        both(&root, ".", OFlags::DIRECTORY).unwrap();
        both(&root, "a/link", OFlags::PATH).unwrap();
        for outside in [
            "../secret",
            "a/../../secret",
            "a/up/../secret",
            "/etc",
            "a/link",
        ] {
            both(&root, outside, OFlags::RDONLY).expect_err(outside);
        }
    }

    #[test]
    fn what_is_put_in_place_of_what_was_made_is_noticed() {
        let dir = tempfile::tempdir().unwrap();
        let root = rustix::fs::open(dir.path(), OFlags::DIRECTORY, Mode::empty()).unwrap();
        let root = root.as_fd();
        std::fs::write(dir.path().join("file"), "").unwrap();
        let made = open_made(root, OsStr::new("file"), FileType::Fifo, 0);
        assert_eq!(made.map(drop), Err(Errno::EXIST));
        let file = open_beneath(root, Path::new("file"), OFlags::PATH).unwrap();
        let identity = Identity::of(file.as_fd()).unwrap();
        link_beneath(root, Path::new("file"), identity, root, OsStr::new("link")).unwrap();
        std::fs::rename(dir.path().join("file"), dir.path().join("kept")).unwrap();
        std::fs::write(dir.path().join("file"), "other").unwrap();
        let linked = link_beneath(root, Path::new("file"), identity, root, OsStr::new("more"));
        assert_eq!(linked, Err(Errno::STALE));
        let made = make_directory(root, OsStr::new("new")).unwrap();
        assert_eq!(has_only(&made, &[]), Ok(true));
        assert_eq!(
            has_only(&root.try_clone_to_owned().unwrap(), &[]),
            Ok(false)
        );
    }
}
