//! Client of the library in this process.

use super::{Cache, Client, OpenFile};
use anyhow::{Result, ensure};
use std::hint::black_box;
use std::path::PathBuf;
use std::sync::Arc;
use uext4::{Caller, Error, FallocateMode, Filesystem, InodeRef, Visit, WriteContext};

/// A directory of a mounted [`Filesystem`].
pub(crate) struct LibraryClient {
    filesystem: Arc<Filesystem>,
    dir: InodeRef,
    caller: Caller,
}

impl LibraryClient {
    /// A client in the root directory.
    pub(crate) fn new(filesystem: Arc<Filesystem>) -> Result<Self> {
        let dir = filesystem.root()?;
        Ok(Self {
            filesystem,
            dir,
            caller: Caller::root(),
        })
    }

    fn lookup_name(&self, name: &str) -> Result<InodeRef, Error> {
        self.filesystem
            .lookup(&self.dir, name.as_bytes(), &self.caller)
    }
}

impl Client for LibraryClient {
    fn make_dir(&self, name: &str) -> Result<()> {
        match self
            .filesystem
            .mkdir(&self.dir, name.as_bytes(), 0o755, &self.caller)
        {
            Ok(_) | Err(Error::Exists) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn enter(&mut self, name: &str) -> Result<()> {
        self.dir = self.lookup_name(name)?;
        Ok(())
    }

    fn below(&self, name: &str) -> Result<Box<dyn Client>> {
        Ok(Box::new(Self {
            filesystem: self.filesystem.clone(),
            dir: self.lookup_name(name)?,
            caller: Caller::root(),
        }))
    }

    fn create(&self, name: &str) -> Result<()> {
        self.filesystem
            .create(&self.dir, name.as_bytes(), 0o644, &self.caller)?;
        Ok(())
    }

    fn stat(&self, name: &str) -> Result<()> {
        let inode = self.lookup_name(name)?;
        black_box(self.filesystem.attr(&inode));
        Ok(())
    }

    fn miss(&self, name: &str) -> Result<()> {
        let found = self.lookup_name(name);
        ensure!(matches!(found, Err(Error::NotFound)), "{name} is there");
        Ok(())
    }

    fn list(&self) -> Result<u64> {
        let mut names = 0;
        self.filesystem.read_dir(&self.dir, 0, &mut |entry| {
            names += u64::from(!matches!(entry.name, b"." | b".."));
            Visit::Continue
        })?;
        Ok(names)
    }

    fn remove(&self, name: &str) -> Result<()> {
        Ok(self
            .filesystem
            .unlink(&self.dir, name.as_bytes(), &self.caller)?)
    }

    fn open_new(&self, name: &str) -> Result<Box<dyn OpenFile>> {
        let inode = self
            .filesystem
            .create(&self.dir, name.as_bytes(), 0o644, &self.caller)?;
        Ok(Box::new(LibraryFile {
            filesystem: self.filesystem.clone(),
            inode,
        }))
    }

    fn open(&self, name: &str) -> Result<Box<dyn OpenFile>> {
        Ok(Box::new(LibraryFile {
            filesystem: self.filesystem.clone(),
            inode: self.lookup_name(name)?,
        }))
    }

    fn sync(&self) -> Result<()> {
        Ok(self.filesystem.sync()?)
    }

    fn path(&self) -> Option<PathBuf> {
        None
    }
}

struct LibraryFile {
    filesystem: Arc<Filesystem>,
    inode: InodeRef,
}

impl OpenFile for LibraryFile {
    fn fallocate(&self, offset_bytes: u64, len_bytes: u64) -> Result<()> {
        let mode = FallocateMode::Allocate;
        let bytes = offset_bytes..offset_bytes + len_bytes;
        Ok(self
            .filesystem
            .fallocate(&self.inode, mode, bytes, &WriteContext::ROOT)?)
    }

    fn truncate(&self, size_bytes: u64) -> Result<()> {
        Ok(self.filesystem.truncate(&self.inode, size_bytes)?)
    }

    fn write(&self, offset_bytes: u64, data: &[u8]) -> Result<()> {
        let context = &WriteContext::ROOT;
        let written = self
            .filesystem
            .write(&self.inode, offset_bytes, data, context)?
            .len_bytes;
        ensure!(written == data.len(), "only {written} bytes were written");
        Ok(())
    }

    fn read(&self, offset_bytes: u64, buf: &mut [u8]) -> Result<usize> {
        Ok(self.filesystem.read(&self.inode, offset_bytes, buf)?)
    }

    fn attributes(&self) -> Result<()> {
        black_box(self.filesystem.attr(&self.inode));
        Ok(())
    }

    /// The library has no page cache.
    fn set_cache(&self, _cache: Cache) -> Result<()> {
        Ok(())
    }

    fn fsync(&self) -> Result<()> {
        Ok(self.filesystem.fsync(&self.inode)?)
    }

    fn extent_count(&self) -> Result<usize> {
        let extents = self.filesystem.fiemap(&self.inode, 0, u64::MAX)?;
        Ok(super::count_runs(
            extents
                .iter()
                .map(|extent| (extent.physical_bytes, extent.len_bytes)),
        ))
    }

    fn drop_cache(&self) -> Result<()> {
        Ok(())
    }
}
