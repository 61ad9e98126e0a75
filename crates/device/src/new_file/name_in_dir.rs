//! The place of a new file: a directory that stays open, a name, and the file that has it.
//!
//! Invariants: all calls are relative to the open directory, so another process that moves
//! directories or plants links cannot lead them elsewhere. In a directory where others may write
//! and only owners remove (sticky, as `/tmp`), a link or a file of another user is refused: it
//! could lead the superuser to overwrite any file or device, or make that user the owner of the
//! new one. The kernel does the same for opens, where `fs.protected_symlinks` and
//! `fs.protected_regular` are on.
//!
//! References: `proc_sys_fs(5)`, `open(2)` (`O_TMPFILE`).

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, RenameFlags, Stat, Uid};
use rustix::io::Errno;

use crate::BlockDevice;

/// Most symbolic links at the end of a path.
const LINKS_MAX: u32 = 40;
/// Only owners remove names.
const STICKY: u32 = 0o1000;
/// Group or others may write.
const OTHERS_WRITE: u32 = 0o022;

/// An open directory, and a name in it.
pub(super) struct NameInDir {
    pub(super) directory: OwnedFd,
    pub(super) name: OsString,
    /// The regular file that has the name.
    pub(super) replaced: Option<Replaced>,
}

/// A file that is replaced.
pub(super) struct Replaced {
    pub(super) mode: u32,
    uid: u32,
    gid: u32,
    /// Device and inode number.
    identity: (u64, u64),
}

/// What a path is resolved for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    /// The name that a new file gets.
    Name,
    /// The file that is there. A link in `/proc/PID/fd` leads to an open file, and its text may be
    /// no path.
    File,
}

impl NameInDir {
    /// The place of a path, with the links at its end followed.
    pub(super) fn of(path: &Path) -> io::Result<NameInDir> {
        match NameInDir::resolve(path, Wanted::Name)? {
            (place, None) => Ok(place),
            (mut place, Some(found)) => match FileType::from_raw_mode(found.st_mode) {
                FileType::RegularFile => {
                    place.replaced = Some(Replaced::of(&found));
                    Ok(place)
                }
                _ => Err(refused("it is neither a regular file nor a block device")),
            },
        }
    }

    /// The place of a path, and what has the name there; no link.
    fn resolve(path: &Path, wanted: Wanted) -> io::Result<(NameInDir, Option<Stat>)> {
        let mut path = path.to_path_buf();
        let mut from = None;
        for _ in 0..LINKS_MAX {
            let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
            let place = NameInDir {
                directory: open_parent(from.as_ref(), &path)?,
                name: name.to_owned(),
                replaced: None,
            };
            let directory = &place.directory;
            let found = match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => return Ok((place, None)),
                found => found?,
            };
            check_owner(&rustix::fs::fstat(directory)?, &found)?;
            match FileType::from_raw_mode(found.st_mode) {
                FileType::Symlink if wanted == Wanted::File && is_proc(directory)? => {
                    let found = rustix::fs::statat(directory, name, AtFlags::empty())?;
                    return Ok((place, Some(found)));
                }
                FileType::Symlink => {
                    let target = rustix::fs::readlinkat(directory, name, Vec::new())?;
                    path = PathBuf::from(OsString::from_vec(target.into_bytes()));
                    from = Some(place.directory);
                }
                _ => return Ok((place, Some(found))),
            }
        }
        Err(Errno::LOOP.into())
    }

    /// The file of this name to write, which is made if it is missing.
    fn open_or_make(&self, found: Option<&Stat>) -> io::Result<File> {
        if found.is_none() {
            return Ok(self.new_file(&self.name, Mode::from_raw_mode(0o666))?);
        }
        self.open(OFlags::RDWR)
    }

    /// The file that has the name.
    fn open(&self, access: OFlags) -> io::Result<File> {
        let follow = if is_proc(&self.directory)? {
            OFlags::empty()
        } else {
            OFlags::NOFOLLOW
        };
        let flags = access | follow | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.directory, &self.name, flags, Mode::empty())?;
        // Another one may have the name by now.
        check_owner(
            &rustix::fs::fstat(&self.directory)?,
            &rustix::fs::fstat(&file)?,
        )?;
        Ok(file.into())
    }

    /// A file without a name (`O_TMPFILE`), open for reading and writing.
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

    /// Gives the file of this name the final one, which no other file has.
    ///
    /// # Errors
    /// `AlreadyExists`; those of the system.
    pub(super) fn rename_to_free(&self, from: &OsStr) -> io::Result<()> {
        let (directory, to) = (&self.directory, &self.name);
        let how = RenameFlags::NOREPLACE;
        match rustix::fs::renameat_with(directory, from, directory, to, how) {
            // File systems that cannot do that have links, as NFS.
            Err(Errno::INVAL | Errno::NOSYS) => {
                match rustix::fs::linkat(directory, from, directory, to, AtFlags::empty()) {
                    // There are no links either; what gets the name in this moment is replaced.
                    Err(Errno::PERM | Errno::NOSYS | Errno::OPNOTSUPP | Errno::MLINK) => {
                        self.refuse_other()?;
                        self.rename(from)
                    }
                    linked => {
                        linked?;
                        self.remove(from)
                    }
                }
            }
            renamed => Ok(renamed?),
        }
    }

    /// Refuses to replace a file that has another owner than a new one gets.
    pub(super) fn refuse_foreign(&self, own: u32) -> io::Result<()> {
        match &self.replaced {
            Some(there) if there.uid != own => {
                Err(refused("another user owns it; remove it first"))
            }
            _ => Ok(()),
        }
    }

    /// Refuses if another file than the one that is replaced has the name by now.
    pub(super) fn refuse_other(&self) -> io::Result<()> {
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        let now = match rustix::fs::statat(&self.directory, &self.name, flags) {
            Err(Errno::NOENT) => return Ok(()),
            found => found?,
        };
        let there = self.replaced.as_ref().map(|there| there.identity);
        if there == Some((now.st_dev, now.st_ino)) {
            return Ok(());
        }
        let why = "another file got its name meanwhile, and is not replaced";
        Err(io::Error::new(io::ErrorKind::AlreadyExists, why))
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
            identity: (found.st_dev, found.st_ino),
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

/// Refuses a path whose last name another user put into a directory where several users write.
///
/// # Errors
/// Such a name; those of the system. A path that does not exist is none of them.
pub fn refuse_planted(path: &Path) -> io::Result<()> {
    match NameInDir::resolve(path, Wanted::Name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        resolved => resolved.map(drop),
    }
}

/// Refuses an open device that is not the file `there`, which the path led to before the open; also
/// one that the path leads to no more, or only by a name that another user planted. Another user
/// may change names between a check of a path and its open.
///
/// # Errors
/// Such a device; those of the system.
pub fn refuse_swapped(path: &Path, there: &Metadata, opened: &dyn BlockDevice) -> io::Result<()> {
    let backing = opened.backing(0, 0).ok_or(io::ErrorKind::InvalidInput)?;
    let opened = rustix::fs::fstat(backing.file)?;
    let (_, now) = NameInDir::resolve(path, Wanted::File)?;
    let is_opened = |device: u64, inode: u64| (device, inode) == (opened.st_dev, opened.st_ino);
    let is_now = now.is_some_and(|now| is_opened(now.st_dev, now.st_ino));
    if is_now && is_opened(there.dev(), there.ino()) {
        return Ok(());
    }
    Err(refused("another file has its name by now; try again"))
}

/// Opens what has the name at a path to write, such as a pipe or a device. What another user
/// planted is refused.
///
/// # Errors
/// Such a name; those of the system.
pub fn open_to_write(path: &Path) -> io::Result<File> {
    // A pipe blocks until it has a reader, so its owner is looked at before, too.
    let (place, found) = NameInDir::resolve(path, Wanted::File)?;
    found.ok_or(io::ErrorKind::NotFound)?;
    place.open(OFlags::WRONLY)
}

/// Opens the file at a path to write, or makes it. What another user planted is refused.
pub(crate) fn open_or_make(path: &Path) -> io::Result<File> {
    for _ in 0..LINKS_MAX {
        let (place, found) = NameInDir::resolve(path, Wanted::File)?;
        match place.open_or_make(found.as_ref()) {
            // Another program has made or removed it meanwhile.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::AlreadyExists | io::ErrorKind::NotFound
                ) => {}
            opened => return opened,
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
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

/// Whether the links of a directory lead to open files, not to paths.
fn is_proc(directory: &OwnedFd) -> io::Result<bool> {
    Ok(rustix::fs::fstatfs(directory)?.f_type == rustix::fs::PROC_SUPER_MAGIC)
}

fn check_owner(directory: &Stat, found: &Stat) -> io::Result<()> {
    let own = rustix::process::geteuid().as_raw();
    let mode = directory.st_mode;
    let is_shared = mode & STICKY != 0 && mode & OTHERS_WRITE != 0;
    if is_shared && found.st_uid != own && found.st_uid != directory.st_uid {
        return Err(refused(
            "another user owns it, in a directory where others may write; remove it first",
        ));
    }
    Ok(())
}

fn refused(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}
