//! Names of a directory, and opening it again.

use std::cell::RefCell;
use std::ffi::{CStr, OsStr};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;

use super::beneath::open_beneath;

thread_local! {
    /// The directory from which this thread has opened a file last: most files follow one of the
    /// same directory.
    static OPENED: RefCell<Option<(Arc<Directory>, OwnedFd)>> = const { RefCell::new(None) };
}

/// A name of a [`Directory`].
#[derive(Clone, Copy)]
pub(super) struct Named {
    /// Its start in the names of the directory.
    pub(super) start: usize,
    /// Whether the directory calls it a regular file.
    pub(super) is_file: bool,
}

/// Names of a directory, sorted, kept once for all of its files.
pub(super) struct Directory {
    pub(super) root: Arc<OwnedFd>,
    /// Path below the root.
    pub(super) path: PathBuf,
    /// Each name and a zero.
    names: Box<[u8]>,
}

impl Directory {
    /// Reads the names of an open directory, in the order of their bytes.
    pub(super) fn read(
        root: Arc<OwnedFd>,
        path: PathBuf,
        fd: &OwnedFd,
    ) -> Result<(Directory, Vec<Named>), Errno> {
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(fd)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes_with_nul();
            if name != b".\0" && name != b"..\0" {
                names.push((name.to_vec(), entry.file_type() == FileType::RegularFile));
            }
        }
        names.sort_unstable();
        let mut bytes = Vec::with_capacity(names.iter().map(|(name, _)| name.len()).sum());
        let mut named = Vec::with_capacity(names.len());
        for (name, is_file) in names {
            let start = bytes.len();
            named.push(Named { start, is_file });
            bytes.extend(name);
        }
        let directory = Directory {
            root,
            path,
            names: bytes.into(),
        };
        Ok((directory, named))
    }

    /// The name that starts there.
    pub(super) fn name(&self, start: usize) -> &CStr {
        CStr::from_bytes_until_nul(&self.names[start..]).unwrap_or_default()
    }

    /// Opens the file of the name that starts there.
    pub(super) fn open(self: &Arc<Self>, start: usize, flags: OFlags) -> Result<OwnedFd, Errno> {
        let name = self.name(start);
        OPENED.with_borrow_mut(|opened| {
            if let Some((other, fd)) = opened
                && Arc::ptr_eq(other, self)
            {
                return rustix::fs::openat(fd, name, flags, Mode::empty());
            }
            let fd = open_beneath(&self.root, &self.path, OFlags::PATH | OFlags::DIRECTORY)?;
            let file = rustix::fs::openat(&fd, name, flags, Mode::empty());
            *opened = Some((self.clone(), fd));
            file
        })
    }
}

/// The name as a part of a path.
pub(super) fn part(name: &CStr) -> &OsStr {
    OsStr::from_bytes(name.to_bytes())
}
