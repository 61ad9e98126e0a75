//! Listing a directory.

use super::error::{At, Result};
use crate::ops::filesystem::Filesystem;
use crate::parts::dir::Visit;
use crate::state::inode::InodeRef;
use crate::types::attr::FileType;
use std::collections::VecDeque;
use uext4_format::InodeNr;

/// Entries read per batch: bounds how long the directory is locked.
const BATCH: usize = 256;

/// One name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Name in bytes, without a terminator.
    pub name: Vec<u8>,
    /// Inode that the name refers to.
    pub inode: InodeNr,
    /// Type of that inode; `None` in file systems without the feature `filetype`.
    pub kind: Option<FileType>,
}

/// The entries of a directory, without `.` and `..`, in the order of the directory.
///
/// The directory may change during the listing: each unchanged entry is listed once.
pub struct Directory {
    fs: Filesystem,
    /// Path of the directory, which errors name.
    path: Vec<u8>,
    inode: InodeRef,
    /// Cookie of the next batch; `None` after the end.
    cookie: Option<u64>,
    batch: VecDeque<Entry>,
}

impl Directory {
    pub(super) fn new(fs: &Filesystem, inode: InodeRef, path: &[u8]) -> Self {
        Self {
            fs: fs.clone(),
            path: path.to_vec(),
            inode,
            cookie: Some(0),
            batch: VecDeque::new(),
        }
    }

    fn fill(&mut self) -> crate::types::error::Result<()> {
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

impl Directory {
    /// The next entry; the caller knows the path.
    pub(super) fn next_entry(&mut self) -> Option<crate::types::error::Result<Entry>> {
        if let Err(error) = self.fill() {
            self.cookie = None;
            return Some(Err(error));
        }
        self.batch.pop_front().map(Ok)
    }
}

impl Iterator for Directory {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_entry().map(|entry| entry.at(&self.path))
    }
}
