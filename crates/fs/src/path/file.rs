//! An open file.

use super::Metadata;
use super::holder::Holder;
use crate::{
    Error, ErrorCursor, FallocateMode, Filesystem, InodeRef, Position, Result, Seek as SeekTo,
    SetAttr, WriteContext, Written,
};
use std::io;

/// Rights of an open file.
#[derive(Clone, Debug)]
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
pub struct File<'fs> {
    fs: Holder<'fs>,
    inode: InodeRef,
    rights: Rights,
    position: u64,
    errors: ErrorCursor,
}

impl Drop for File<'_> {
    fn drop(&mut self) {
        if self.rights.write {
            // `sync_all` reports errors; a drop cannot.
            let _told_by_sync = self.fs.close(&self.inode);
        }
    }
}

impl<'fs> File<'fs> {
    pub(super) fn new(fs: &'fs Filesystem, inode: InodeRef, rights: Rights) -> Self {
        let errors = fs.error_cursor(&inode);
        Self {
            fs: Holder::Borrowed(fs),
            inode,
            rights,
            position: 0,
            errors,
        }
    }

    /// The same open file, with a clone of the file system instead of a reference.
    ///
    /// ```
    /// # use std::sync::Arc;
    /// # use uext4::{Filesystem, MountOptions, device::MemDevice, mkfs};
    /// # let device = Arc::new(MemDevice::new(16 << 20));
    /// # mkfs::format(&*device, &mkfs::MkfsOptions::new(mkfs::Preset::Ext4)).unwrap();
    /// # let fs = Filesystem::mount(device, MountOptions::default()).unwrap();
    /// let file = fs.paths().create("/log").unwrap().into_owned();
    /// let writer = uext4_sync::thread::spawn(move || file.write_at(0, b"from a thread").unwrap());
    /// assert_eq!(writer.join().unwrap(), 13);
    /// ```
    pub fn into_owned(mut self) -> File<'static> {
        let owned = File {
            fs: self.fs.to_owned(),
            inode: self.inode.clone(),
            rights: self.rights.clone(),
            position: self.position,
            errors: std::mem::take(&mut self.errors),
        };
        // The new one closes the file.
        self.rights.write = false;
        owned
    }

    /// The inode, for the operations of [`Filesystem`].
    pub fn inode(&self) -> &InodeRef {
        &self.inode
    }

    /// Reads up to `buf.len()` bytes at byte `offset`; answers the number read, 0 at the end.
    pub fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize> {
        if !self.rights.read {
            return Err(Error::Invalid("the file was not opened for reading"));
        }
        self.fs.read(&self.inode, offset, buf)
    }

    /// Writes `data` at byte `offset` (at the end in append mode); answers the number of bytes.
    pub fn write_at(&self, offset: u64, data: &[u8]) -> Result<usize> {
        Ok(self.put(offset, data)?.len_bytes)
    }

    fn put(&self, offset: u64, data: &[u8]) -> Result<Written> {
        self.check_write()?;
        let position = match self.rights.append {
            true => Position::End,
            false => Position::Offset(offset),
        };
        let context = &self.rights.context;
        self.fs.write(&self.inode, position, data, context)
    }

    /// Sets the size: truncates the file, or extends it with a hole.
    pub fn set_len(&self, size_bytes: u64) -> Result<()> {
        self.check_write()?;
        self.fs.truncate(&self.inode, size_bytes)
    }

    /// Allocates, punches or zeroes a byte range.
    pub fn allocate(&self, mode: FallocateMode, offset: u64, len: u64) -> Result<()> {
        self.check_write()?;
        let bytes = offset..offset.saturating_add(len);
        let context = &self.rights.context;
        self.fs.fallocate(&self.inode, mode, bytes, context)
    }

    /// The next byte of data or hole at or after `offset` ([`Error::NoOffset`] past the end).
    pub fn seek_to(&self, offset: u64, what: SeekTo) -> Result<u64> {
        self.fs.seek(&self.inode, offset, what)
    }

    /// Makes data and attributes durable.
    ///
    /// # Errors
    /// Also errors of writeback since the file was opened, once.
    pub fn sync_all(&self) -> Result<()> {
        self.fs.fsync_open(&self.inode, &self.errors)
    }

    /// Makes data durable, with the attributes needed to read them.
    pub fn sync_data(&self) -> Result<()> {
        self.sync_all()
    }

    /// Attributes.
    pub fn metadata(&self) -> Metadata {
        Metadata::new(self.fs.attr(&self.inode))
    }

    /// Changes attributes; permission is checked for `caller`, whatever the file was opened for.
    pub fn set_attr(&self, set: &SetAttr, caller: &crate::Caller) -> Result<()> {
        self.fs.set_attr(&self.inode, set, caller).map(drop)
    }

    fn check_write(&self) -> Result<()> {
        if self.rights.write {
            Ok(())
        } else {
            Err(Error::Invalid("the file was not opened for writing"))
        }
    }
}

impl io::Read for File<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let read = self.read_at(self.position, buf)?;
        self.position += read as u64;
        Ok(read)
    }
}

impl io::Write for File<'_> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let written = self.put(self.position, data)?;
        self.position = written.offset + written.len_bytes as u64;
        Ok(written.len_bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl io::Seek for File<'_> {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        let target = match to {
            io::SeekFrom::Start(offset) => Some(offset),
            io::SeekFrom::End(offset) => self.metadata().len().checked_add_signed(offset),
            io::SeekFrom::Current(offset) => self.position.checked_add_signed(offset),
        };
        self.position = target.ok_or(Error::Invalid("a position before the start of the file"))?;
        Ok(self.position)
    }
}
