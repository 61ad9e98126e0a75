//! Listing a directory.

use super::holder::Holder;
use crate::{Error, FileType, Filesystem, InodeRef, Result, Visit};
use std::collections::VecDeque;
use uext4_format::InodeNr;

/// Entries read per batch: bounds how long the directory is locked.
const BATCH: usize = 256;

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name.
    pub name: Vec<u8>,
    /// Its inode.
    pub inode: InodeNr,
    /// Type of that inode; `None` in file systems without the feature `filetype`.
    pub kind: Option<FileType>,
}

/// The entries of a directory, without `.` and `..`, in the order of the directory.
///
/// The directory may change during the listing: each unchanged entry is listed once.
pub struct Directory<'fs> {
    fs: Holder<'fs>,
    inode: InodeRef,
    /// Cookie of the next batch; `None` after the end.
    cookie: Option<u64>,
    batch: VecDeque<Entry>,
}

impl<'fs> Directory<'fs> {
    pub(super) fn new(fs: &'fs Filesystem, inode: InodeRef) -> Self {
        Self {
            fs: Holder::Borrowed(fs),
            inode,
            cookie: Some(0),
            batch: VecDeque::new(),
        }
    }

    /// The entries of an open directory.
    ///
    /// # Errors
    /// [`Error::NotDirectory`].
    pub fn of(fs: &'fs Filesystem, dir: &InodeRef) -> Result<Self> {
        if dir.is_dir() {
            Ok(Self::new(fs, dir.clone()))
        } else {
            Err(Error::NotDirectory)
        }
    }

    /// The same listing, with a clone of the file system instead of a reference.
    pub fn into_owned(self) -> Directory<'static> {
        Directory {
            fs: self.fs.to_owned(),
            inode: self.inode,
            cookie: self.cookie,
            batch: self.batch,
        }
    }

    fn fill(&mut self) -> Result<()> {
        while let (true, Some(start)) = (self.batch.is_empty(), self.cookie) {
            let mut next = None;
            let batch = &mut self.batch;
            self.fs.read_dir(&self.inode, start, &mut |entry| {
                if entry.name != b"." && entry.name != b".." {
                    let name = entry.name.to_vec();
                    batch.push_back(Entry {
                        name,
                        inode: entry.inode,
                        kind: entry.kind,
                    });
                }
                if batch.len() < BATCH {
                    return Visit::Continue;
                }
                next = Some(entry.next_cookie);
                Visit::Stop
            })?;
            self.cookie = next;
        }
        Ok(())
    }
}

impl Iterator for Directory<'_> {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Err(error) = self.fill() {
            self.cookie = None;
            return Some(Err(error));
        }
        self.batch.pop_front().map(Ok)
    }
}
