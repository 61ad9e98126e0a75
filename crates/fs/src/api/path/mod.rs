//! Files by path, as in `std::fs`.
//!
//! [`Filesystem::paths`] returns a view of the tree for programs. Paths are bytes, `&str` or
//! `&Path`. They and absolute symbolic links start at the root of the image. No file outside the
//! image is ever accessed.
//!
//! ```
//! # use std::sync::Arc;
//! # use uext4::{Filesystem, MountOptions, device::MemDevice, mkfs};
//! use std::io::{Read, Seek, SeekFrom};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let device = Arc::new(MemDevice::new(16 << 20));
//! # mkfs::format(&*device, &mkfs::MkfsOptions::new(mkfs::Preset::Ext4))?;
//! # let fs = Filesystem::mount(device, MountOptions::default())?;
//! let paths = fs.paths();
//! paths.create_dir_all("/srv/www")?;
//! paths.write("/srv/www/index.html", "<h1>Hello</h1>")?;
//! paths.symlink("/srv/www", "/www")?;
//!
//! let mut file = paths.open("/www/index.html")?;
//! file.seek(SeekFrom::Start(4))?;
//! let mut text = String::new();
//! file.read_to_string(&mut text)?;
//! assert_eq!(text, "Hello</h1>");
//!
//! let names: Vec<_> = paths.read_dir("/srv")?.map(|entry| entry.unwrap().name).collect();
//! assert_eq!(names, [b"www"]);
//! # Ok(())
//! # }
//! ```
//!
//! Every operation is checked against a [`Caller`]: the superuser, unless
//! [`Filesystem::paths_as`] names another. Errors are [`PathError`], which has the path and the
//! [`Error`]; `?` turns it into either of them or into `std::io::Error`.
//!
//! [`Paths`], [`File`], [`Directory`] and [`Walk`] hold a clone of the [`Filesystem`]: they keep it
//! mounted until [`Filesystem::unmount`], after which they return [`Error::Unmounted`], or until
//! all of them are dropped.
//!
//! Layout: `walk` resolves a path to inodes, `open` and `file` are open files, `change` holds all
//! changes of names, `tree` visits all files below a directory.
//! Not here: operations by inode ([`Filesystem`] itself).

mod change;
mod directory;
mod error;
mod file;
mod metadata;
mod open;
mod tree;
mod walk;
mod xattrs;

#[cfg(test)]
mod tests;

pub use directory::{Directory, Entry};
pub use error::{PathError, Result};
pub use file::File;
pub use metadata::Metadata;
pub use open::OpenOptions;
pub use tree::{Walk, WalkEntry};

use crate::ops::filesystem::Filesystem;
use crate::parts::access::Want;
use crate::parts::file::Seek;
use crate::state::inode::InodeRef;
use crate::types::attr::{Caller, SetAttr};
use crate::types::error::Error;
use error::At;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use uext4_num::u64_of;
use walk::{Last, Walker};

/// Bytes copied at once.
const COPY_BYTES: usize = 1 << 20;
/// Umask with which [`Filesystem::paths`] acts for the superuser.
const UMASK: u16 = 0o022;

/// A path in the image: bytes without zero.
pub trait AsBytes {
    /// The bytes of the path; any encoding.
    fn as_bytes(&self) -> &[u8];
}

macro_rules! as_bytes {
    ($($type:ty: $self:ident => $bytes:expr;)*) => {
        $(impl AsBytes for $type {
            fn as_bytes(&$self) -> &[u8] {
                $bytes
            }
        })*
    };
}

as_bytes! {
    [u8]: self => self;
    Vec<u8>: self => self;
    str: self => str::as_bytes(self);
    String: self => str::as_bytes(self);
    OsStr: self => OsStrExt::as_bytes(self);
    OsString: self => OsStrExt::as_bytes(self.as_os_str());
    Path: self => OsStrExt::as_bytes(self.as_os_str());
    PathBuf: self => OsStrExt::as_bytes(self.as_os_str());
}

impl<const N: usize> AsBytes for [u8; N] {
    fn as_bytes(&self) -> &[u8] {
        self
    }
}

impl<T: AsBytes + ?Sized> AsBytes for &T {
    fn as_bytes(&self) -> &[u8] {
        (**self).as_bytes()
    }
}

/// The tree of a mounted file system, by path, on behalf of one caller.
#[derive(Clone)]
pub struct Paths {
    fs: Filesystem,
    caller: Caller,
}

impl Filesystem {
    /// The tree by path, for the superuser with the umask 022.
    pub fn paths(&self) -> Paths {
        self.paths_as(Caller {
            umask: UMASK,
            ..Caller::root()
        })
    }

    /// The tree by path, for this caller.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use uext4::{Caller, Error, Filesystem, MountOptions, device::MemDevice, mkfs};
    /// # let device = Arc::new(MemDevice::new(16 << 20));
    /// # mkfs::format(&*device, &mkfs::MkfsOptions::new(mkfs::Preset::Ext4)).unwrap();
    /// # let fs = Filesystem::mount(device, MountOptions::default()).unwrap();
    /// let user = Caller { uid: 1000, gid: 1000, ..Caller::root() };
    /// let refused = fs.paths_as(user).write("/file", b"data").unwrap_err();
    /// assert!(matches!(refused.error(), Error::Access));
    /// assert_eq!(refused.to_string(), "/file: permission denied");
    /// ```
    pub fn paths_as(&self, caller: Caller) -> Paths {
        let fs = self.clone();
        Paths { fs, caller }
    }
}

impl Paths {
    /// The caller of all operations.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    fn walker(&self) -> Walker<'_> {
        Walker {
            fs: &self.fs,
            caller: &self.caller,
        }
    }

    /// Opens a file for reading.
    pub fn open(&self, path: impl AsBytes) -> Result<File> {
        OpenOptions::new().read(true).open(self, path)
    }

    /// Opens a file for writing; creates it, or truncates it.
    pub fn create(&self, path: impl AsBytes) -> Result<File> {
        OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .open(self, path)
    }

    /// All bytes of a file.
    pub fn read(&self, path: impl AsBytes) -> Result<Vec<u8>> {
        let file = self.open(path)?;
        let mut bytes = Vec::new();
        let mut buffer = vec![0; COPY_BYTES];
        loop {
            let read = file.read_at(u64_of(bytes.len()), &mut buffer)?;
            if read == 0 {
                return Ok(bytes);
            }
            bytes.extend_from_slice(buffer.split_at(read).0);
        }
    }

    /// Creates a file with these bytes, or replaces its content.
    pub fn write(&self, path: impl AsBytes, data: impl AsRef<[u8]>) -> Result<()> {
        self.create(path)?.write_all_at(0, data.as_ref())
    }

    /// Copies content (holes stay holes) and permission bits of a file; returns its size in bytes.
    pub fn copy(&self, from: impl AsBytes, to: impl AsBytes) -> Result<u64> {
        let source = self.open(&from)?;
        // Emptied only if it is another file.
        let mut options = OpenOptions::new();
        let target = options.write(true).create(true).open(self, &to)?;
        if source.inode().nr() == target.inode().nr() {
            let itself = Error::Invalid("a file cannot be copied to itself");
            return Err(PathError::with_target(
                from.as_bytes(),
                to.as_bytes(),
                itself,
            ));
        }
        target.set_len(0)?;
        let size = source.metadata().len();
        copy_data(&source, &target)?;
        target.set_len(size)?;
        let mode = Some(source.metadata().mode());
        let set = SetAttr {
            mode,
            ..SetAttr::default()
        };
        target.set_attr(&set, &self.caller)?;
        Ok(size)
    }

    /// Attributes of the file at `path`; symbolic links are followed.
    pub fn metadata(&self, path: impl AsBytes) -> Result<Metadata> {
        Ok(Metadata::new(self.fs.attr(&self.inode(path)?)))
    }

    /// Attributes of the file at `path`; a symbolic link at the end is not followed.
    pub fn symlink_metadata(&self, path: impl AsBytes) -> Result<Metadata> {
        Ok(Metadata::new(self.fs.attr(&self.symlink_inode(path)?)))
    }

    /// The inode at `path`, for the operations of [`Filesystem`]; symbolic links are followed.
    pub fn inode(&self, path: impl AsBytes) -> Result<InodeRef> {
        self.walker().existing(path.as_bytes(), Last::Follow)
    }

    /// The inode at `path`; a symbolic link at the end is not followed.
    pub fn symlink_inode(&self, path: impl AsBytes) -> Result<InodeRef> {
        self.walker().existing(path.as_bytes(), Last::Keep)
    }

    /// Whether `path` exists; symbolic links are followed.
    pub fn exists(&self, path: impl AsBytes) -> Result<bool> {
        match self.inode(path) {
            Ok(_) => Ok(true),
            Err(failed) => match failed.error() {
                Error::NotFound | Error::NotDirectory => Ok(false),
                _ => Err(failed),
            },
        }
    }

    /// The path without symbolic links, `.` and `..`; all of it must exist.
    pub fn canonicalize(&self, path: impl AsBytes) -> Result<Vec<u8>> {
        let path = path.as_bytes();
        let found = self.walker().walk(path, Last::Follow)?;
        match found.missing {
            Some(_) => Err(PathError::at_component(path, found.path(), Error::NotFound)),
            None => Ok(found.path()),
        }
    }

    /// The entries of a directory, except "." and "..".
    pub fn read_dir(&self, path: impl AsBytes) -> Result<Directory> {
        let path = path.as_bytes();
        self.list(self.inode(path)?, path)
    }

    /// Target of a symbolic link.
    pub fn read_link(&self, path: impl AsBytes) -> Result<Vec<u8>> {
        let path = path.as_bytes();
        self.fs.read_link(&self.symlink_inode(path)?).at(path)
    }

    fn list(&self, dir: InodeRef, path: &[u8]) -> Result<Directory> {
        if !dir.is_dir() {
            return Err(Error::NotDirectory).at(path);
        }
        self.fs.access(&dir, &self.caller, Want::READ).at(path)?;
        Ok(Directory::new(&self.fs, dir, path))
    }
}

fn copy_data(source: &File, target: &File) -> Result<()> {
    let mut buffer = vec![0; COPY_BYTES];
    let mut end = 0;
    loop {
        let start = match source.seek_to(end, Seek::Data) {
            Err(failed) if matches!(failed.error(), Error::NoOffset) => return Ok(()),
            other => other?,
        };
        end = source.seek_to(start, Seek::Hole)?;
        let mut at = start;
        while at < end {
            let want = usize::try_from(end - at)
                .unwrap_or(COPY_BYTES)
                .min(COPY_BYTES);
            let read = source.read_at(at, buffer.split_at_mut(want).0)?;
            if read == 0 {
                return Ok(());
            }
            target.write_all_at(at, buffer.split_at(read).0)?;
            at += u64_of(read);
        }
    }
}
