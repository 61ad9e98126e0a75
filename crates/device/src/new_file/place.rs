//! The place of a new file: a directory that stays open, a name, and the file that has it.
//!
//! Invariants: all calls are relative to the open directory, so another process that moves
//! directories or plants links cannot lead them elsewhere. In a directory where all may write and
//! only owners remove (sticky, as `/tmp`), a link or a file of another user is refused: it could
//! lead the superuser to overwrite any file, or make that user the owner of the new one.
//!
//! References: `proc_sys_fs(5)` (`protected_symlinks`), `open(2)` (`O_TMPFILE`).

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, Stat, Uid};
use rustix::io::Errno;

/// Most symbolic links at the end of a path.
const LINKS_MAX: u32 = 40;
/// Sticky, and all may write.
const SHARED: u32 = 0o1002;

/// See the module.
pub(super) struct Place {
    pub(super) directory: OwnedFd,
    pub(super) name: OsString,
    /// The regular file that has the name.
    pub(super) replaced: Option<Replaced>,
}

/// Owner and mode of a file that is replaced.
pub(super) struct Replaced {
    pub(super) mode: u32,
    uid: u32,
    gid: u32,
}

impl Place {
    /// The place of a path, with the links at its end followed.
    pub(super) fn of(path: &Path) -> io::Result<Place> {
        let mut path = path.to_path_buf();
        let mut from = None;
        for _ in 0..LINKS_MAX {
            let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
            let mut place = Place {
                directory: open_parent(from.as_ref(), &path)?,
                name: name.to_owned(),
                replaced: None,
            };
            let directory = &place.directory;
            let found = match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => return Ok(place),
                found => found?,
            };
            check_owner(&rustix::fs::fstat(directory)?, &found)?;
            match FileType::from_raw_mode(found.st_mode) {
                FileType::RegularFile => {
                    place.replaced = Some(Replaced::of(&found));
                    return Ok(place);
                }
                FileType::Symlink => {
                    let target = rustix::fs::readlinkat(directory, name, Vec::new())?;
                    path = PathBuf::from(OsString::from_vec(target.into_bytes()));
                    from = Some(place.directory);
                }
                _ => return Err(refused("it is neither a regular file nor a block device")),
            }
        }
        Err(Errno::LOOP.into())
    }

    /// A file without a name.
    pub(super) fn unnamed(&self, mode: Mode) -> Result<File, Errno> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        rustix::fs::openat(&self.directory, ".", flags, mode).map(File::from)
    }

    /// A new file of this name.
    pub(super) fn new_file(&self, name: &OsStr, mode: Mode) -> Result<File, Errno> {
        let flags =
            OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::RDWR | OFlags::CLOEXEC;
        rustix::fs::openat(&self.directory, name, flags, mode).map(File::from)
    }

    /// Gives the file of this name the final one.
    pub(super) fn rename(&self, from: &OsStr) -> io::Result<()> {
        let directory = &self.directory;
        Ok(rustix::fs::renameat(
            directory, from, directory, &self.name,
        )?)
    }

    pub(super) fn remove(&self, name: &OsStr) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(
            &self.directory,
            name,
            AtFlags::empty(),
        )?)
    }

    /// Makes the name durable, where that is possible.
    pub(super) fn sync(&self) -> io::Result<()> {
        match rustix::fs::fsync(&self.directory) {
            // A directory that may not be read, and file systems that do not sync directories.
            Err(Errno::BADF | Errno::INVAL | Errno::NOTSUP) => Ok(()),
            synced => Ok(synced?),
        }
    }
}

impl Replaced {
    fn of(found: &Stat) -> Replaced {
        Replaced {
            mode: found.st_mode & 0o777,
            uid: found.st_uid,
            gid: found.st_gid,
        }
    }

    /// Gives a file this owner, as far as the process may, and this mode.
    pub(super) fn pass_on(&self, file: &File) -> io::Result<()> {
        let own = rustix::fs::fstat(file)?;
        let mut mode = self.mode;
        if (own.st_uid, own.st_gid) != (self.uid, self.gid) {
            let owner = (Some(Uid::from_raw(self.uid)), Some(Gid::from_raw(self.gid)));
            match rustix::fs::fchown(file, owner.0, owner.1) {
                // The rights of the old group are not those of another one.
                Err(Errno::PERM | Errno::INVAL) if own.st_gid != self.gid => mode &= !0o070,
                Err(Errno::PERM | Errno::INVAL) => {}
                set => set?,
            }
        }
        Ok(rustix::fs::fchmod(file, Mode::from_raw_mode(mode))?)
    }
}

fn open_parent(from: Option<&OwnedFd>, path: &Path) -> io::Result<OwnedFd> {
    let parent = path.parent().filter(|path| !path.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    let from = from.map_or(CWD, OwnedFd::as_fd);
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    match rustix::fs::openat(from, parent, flags, Mode::empty()) {
        Err(Errno::ACCESS) => {
            let flags = flags | OFlags::PATH;
            Ok(rustix::fs::openat(from, parent, flags, Mode::empty())?)
        }
        opened => Ok(opened?),
    }
}

fn check_owner(directory: &Stat, found: &Stat) -> io::Result<()> {
    let own = rustix::process::geteuid().as_raw();
    let is_shared = directory.st_mode & SHARED == SHARED;
    if is_shared && found.st_uid != own && found.st_uid != directory.st_uid {
        return Err(refused(
            "another user owns it, in a directory where all may write; remove it first",
        ));
    }
    Ok(())
}

fn refused(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}
