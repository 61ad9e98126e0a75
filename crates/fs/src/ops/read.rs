//! Reading data, and the trace that it leaves in the access time.

use super::regular;
use crate::file::{self, Stretch};
use crate::inode::{Atime, ChangeTimes};
use crate::{Filesystem, InodeRef, Result};

impl Filesystem {
    /// Reads up to `buf.len()` bytes at byte `offset`; answers how many (less at the end).
    pub fn read(&self, inode: &InodeRef, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.run(|fs| {
            regular(inode)?;
            let read = file::read(fs, inode, offset, buf)?;
            if !buf.is_empty() {
                fs.touch_atime(inode, ChangeTimes::Here)?;
            }
            Ok(read)
        })
    }

    /// As [`Self::read`], without a trace in the access time (`O_NOATIME`). That the caller may
    /// ask for this is not checked: who opened the file did.
    pub fn read_untouched(&self, inode: &InodeRef, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.run(|fs| {
            regular(inode)?;
            file::read(fs, inode, offset, buf)
        })
    }

    /// As [`Self::read_untouched`], for who moves data on without looking at them: shows `take`
    /// where up to `len_bytes` bytes from byte `offset` on stand, less only at the end, and answers
    /// what it answers. They stay there until it returns; it must not wait for another operation
    /// on the file. False as well, and `take` is not asked, where not all of them stand in a file
    /// of the system, in few stretches: then [`Self::read`] knows more.
    pub fn read_in_place(
        &self,
        inode: &InodeRef,
        offset: u64,
        len_bytes: usize,
        take: impl FnOnce(&[Stretch<'_>]) -> bool,
    ) -> Result<bool> {
        self.run(|fs| {
            regular(inode)?;
            file::read_in_place(fs, inode, offset, len_bytes, take)
        })
    }

    /// Notes an access that a cache above answers itself, when it opens a file to read for one: the
    /// access time is set if the rules of the mount say so.
    pub fn note_access(&self, inode: &InodeRef, changes: ChangeTimes) -> Result<Atime> {
        self.run(|fs| fs.touch_atime(inode, changes))
    }

    /// True when every read sets the access time (`strictatime`): a cache above that answers reads
    /// itself would lose some.
    pub fn notes_every_read(&self) -> bool {
        self.fs.notes_every_read()
    }
}
