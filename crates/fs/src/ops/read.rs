//! Reads of data, and updates of the access time.

use super::regular;
use crate::ops::filesystem::Filesystem;
use crate::parts::file::{self, FileRange};
use crate::parts::times::{Atime, ChangeTimes};
use crate::state::inode::InodeRef;
use crate::types::error::Result;

impl Filesystem {
    /// Reads up to `buf.len()` bytes at byte `offset`; returns how many (less at the end).
    pub fn read(&self, inode: &InodeRef, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.run(|fs| {
            regular(inode)?;
            let read = file::read(fs, inode, offset, buf)?;
            if !buf.is_empty() {
                fs.touch_atime(inode, ChangeTimes::Here);
            }
            Ok(read)
        })
    }

    /// As [`Self::read`], without an update of the access time (`O_NOATIME`). The permission for
    /// that is checked at the open, not here.
    pub fn read_untouched(&self, inode: &InodeRef, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.run(|fs| {
            regular(inode)?;
            file::read(fs, inode, offset, buf)
        })
    }

    /// As [`Self::read_untouched`], for callers that transfer data without reading them. Passes the
    /// places of up to `len_bytes` bytes from byte `offset` on, less only at the end, to `take`;
    /// returns its result. The data stay in place until it returns; it must not wait for another
    /// operation on the file. Returns false, without a call of `take`, unless all of them are in a
    /// file of the host, in few pieces; use [`Self::read`] then.
    pub fn read_in_place(
        &self,
        inode: &InodeRef,
        offset: u64,
        len_bytes: usize,
        take: impl FnOnce(&[FileRange<'_>]) -> bool,
    ) -> Result<bool> {
        self.run(|fs| {
            regular(inode)?;
            file::with_data_ranges(fs, inode, offset, len_bytes, take)
        })
    }

    /// Records an access that a cache above serves, when it opens a file for reading: updates the
    /// access time by the mount's rules.
    pub fn record_access(&self, inode: &InodeRef, changes: ChangeTimes) -> Result<Atime> {
        self.run(|fs| Ok(fs.touch_atime(inode, changes)))
    }

    /// Whether every read updates the access time (`strictatime`): a cache above that serves reads
    /// would lose updates.
    pub fn notes_every_read(&self) -> bool {
        self.fs.notes_every_read()
    }
}
