//! An open file.

use super::Metadata;
use super::error::{At, Result};
use crate::ops::WriteContext;
use crate::ops::filesystem::Filesystem;
use crate::parts::file::Seek as SeekTo;
use crate::parts::file::Written;
use crate::parts::file::{FallocateMode, Position};
use crate::state::delayed::ErrorCursor;
use crate::state::inode::InodeRef;
use crate::types::attr::{Caller, SetAttr};
use crate::types::error::Error;
use std::io;
use uext4_num::u64_of;

/// Rights of an open file.
#[derive(Debug)]
pub(super) struct Rights {
    pub(super) read: bool,
    pub(super) write: bool,
    pub(super) append: bool,
    /// That of the opener, whose space is used.
    pub(super) context: WriteContext,
}

/// An open regular file of a mounted [`Filesystem`], with a position of its own.
///
/// Written data are durable after [`File::sync_all`] or after the unmount. The object has no buffer
/// of its own.
///
/// ```
/// # use std::sync::Arc;
/// # use uext4::{Filesystem, MountOptions, device::MemDevice, mkfs};
/// # let device = Arc::new(MemDevice::new(16 << 20));
/// # mkfs::format(&*device, &mkfs::MkfsOptions::new(mkfs::Preset::Ext4)).unwrap();
/// # let fs = Filesystem::mount(device, MountOptions::default()).unwrap();
/// let file = fs.paths().create("/log").unwrap();
/// let writer = std::thread::spawn(move || file.write_at(0, b"from a thread").unwrap());
/// assert_eq!(writer.join().unwrap(), 13);
/// ```
pub struct File {
    fs: Filesystem,
    /// Path of the file, which errors name.
    path: Vec<u8>,
    inode: InodeRef,
    rights: Rights,
    position: u64,
    errors: ErrorCursor,
}

impl Drop for File {
    fn drop(&mut self) {
        if self.rights.write {
            // `sync_all` reports errors; a drop cannot.
            let _told_by_sync = self.fs.close(&self.inode);
        }
    }
}

impl File {
    pub(super) fn new(fs: &Filesystem, path: &[u8], inode: InodeRef, rights: Rights) -> Self {
        let errors = fs.error_cursor(&inode);
        Self {
            fs: fs.clone(),
            path: path.to_vec(),
            inode,
            rights,
            position: 0,
            errors,
        }
    }

    /// The inode, for the operations of [`Filesystem`].
    pub fn inode(&self) -> &InodeRef {
        &self.inode
    }

    /// Reads up to `buf.len()` bytes at byte `offset`; returns the number read, 0 at the end.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        if !self.rights.read {
            return Err(Error::Invalid("the file was not opened for reading")).at(&self.path);
        }
        self.fs.read(&self.inode, offset, buf).at(&self.path)
    }

    /// Writes `data` at byte `offset` (at the end in append mode); returns the number of bytes.
    pub fn write_at(&self, offset: u64, data: &[u8]) -> Result<usize> {
        Ok(self.put(offset, data)?.len_bytes)
    }

    /// Writes all of `data` at byte `offset`; at the end in append mode.
    pub fn write_all_at(&self, mut offset: u64, mut data: &[u8]) -> Result<()> {
        while !data.is_empty() {
            let written = self.write_at(offset, data)?;
            if written == 0 {
                return Err(Error::NoSpace).at(&self.path);
            }
            offset += u64_of(written);
            data = data.split_at(written).1;
        }
        Ok(())
    }

    /// Writes at `offset`, or at the end in append mode.
    fn put(&self, offset: u64, data: &[u8]) -> Result<Written> {
        self.check_write()?;
        let position = if self.rights.append {
            Position::End
        } else {
            Position::Offset(offset)
        };
        let context = &self.rights.context;
        self.fs
            .write(&self.inode, position, data, context)
            .at(&self.path)
    }

    /// Sets the size: truncates the file, or extends it with a hole.
    pub fn set_len(&self, size_bytes: u64) -> Result<()> {
        self.check_write()?;
        self.fs.truncate(&self.inode, size_bytes).at(&self.path)
    }

    /// Allocates, punches or zeroes a byte range.
    pub fn allocate(&self, mode: FallocateMode, offset: u64, len: u64) -> Result<()> {
        self.check_write()?;
        let bytes = offset..offset.saturating_add(len);
        let context = &self.rights.context;
        self.fs
            .fallocate(&self.inode, mode, bytes, context)
            .at(&self.path)
    }

    /// The next byte of data or hole at or after `offset` ([`Error::NoOffset`] past the end).
    pub fn seek_to(&self, offset: u64, what: SeekTo) -> Result<u64> {
        self.fs.seek(&self.inode, offset, what).at(&self.path)
    }

    /// Makes data and attributes durable.
    ///
    /// # Errors
    /// Also errors of writeback since the file was opened, once.
    pub fn sync_all(&self) -> Result<()> {
        self.fs.fsync_open(&self.inode, &self.errors).at(&self.path)
    }

    /// Makes data durable, with the attributes needed to read them.
    ///
    /// # Errors
    /// As [`Self::sync_all`].
    pub fn sync_data(&self) -> Result<()> {
        let (inode, errors) = (&self.inode, &self.errors);
        self.fs.fdatasync_open(inode, errors).at(&self.path)
    }

    /// Attributes of the file at present.
    pub fn metadata(&self) -> Metadata {
        Metadata::new(self.fs.attr(&self.inode))
    }

    /// Changes attributes; permission is checked for `caller`, whatever the file was opened for.
    pub fn set_attr(&self, set: &SetAttr, caller: &Caller) -> Result<()> {
        let set = self.fs.set_attr(&self.inode, set, caller);
        set.map(drop).at(&self.path)
    }

    fn check_write(&self) -> Result<()> {
        if self.rights.write {
            Ok(())
        } else {
            Err(Error::Invalid("the file was not opened for writing")).at(&self.path)
        }
    }
}

impl io::Read for File {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.read_at(self.position, buf)?;
        self.position += u64_of(read);
        Ok(read)
    }
}

impl io::Write for File {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let written = self.put(self.position, data)?;
        self.position = written.offset + u64_of(written.len_bytes);
        Ok(written.len_bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl io::Seek for File {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        let target = match to {
            io::SeekFrom::Start(offset) => Some(offset),
            io::SeekFrom::End(offset) => self.metadata().len().checked_add_signed(offset),
            io::SeekFrom::Current(offset) => self.position.checked_add_signed(offset),
        };
        let before = Error::Invalid("a position before the start of the file");
        self.position = target.ok_or(before).at(&self.path)?;
        Ok(self.position)
    }
}
