//! System calls below a directory: the kernel's ext4, or a FUSE mount.

use super::{OpenFile, Seat};
use anyhow::{Result, ensure};
use rustix::fs::{Advice, AtFlags, FallocateFlags, Mode, OFlags};
use rustix::{fs, io};
use std::hint::black_box;
use std::os::fd::OwnedFd;
use std::path::Path;

/// An open directory; names are relative to it, so no path is walked.
pub(crate) struct SystemSeat {
    dir: OwnedFd,
}

impl SystemSeat {
    /// A seat in `path`.
    pub(crate) fn new(path: &Path) -> Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self {
            dir: fs::open(path, flags, Mode::empty())?,
        })
    }

    fn make(&self, name: &str, access: OFlags) -> Result<OwnedFd> {
        let flags = access | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        Ok(fs::openat(
            &self.dir,
            name,
            flags,
            Mode::from_raw_mode(0o644),
        )?)
    }
}

impl Seat for SystemSeat {
    fn make_dir(&self, name: &str) -> Result<()> {
        match fs::mkdirat(&self.dir, name, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(io::Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn enter(&mut self, name: &str) -> Result<()> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        self.dir = fs::openat(&self.dir, name, flags, Mode::empty())?;
        Ok(())
    }

    fn create(&self, name: &str) -> Result<()> {
        drop(self.make(name, OFlags::WRONLY)?);
        Ok(())
    }

    fn stat(&self, name: &str) -> Result<()> {
        black_box(fs::statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW)?);
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<()> {
        Ok(fs::unlinkat(&self.dir, name, AtFlags::empty())?)
    }

    fn open_new(&self, name: &str) -> Result<Box<dyn OpenFile>> {
        Ok(Box::new(SystemFile(self.make(name, OFlags::RDWR)?)))
    }
}

struct SystemFile(OwnedFd);

impl OpenFile for SystemFile {
    fn fallocate(&self, offset_bytes: u64, len_bytes: u64) -> Result<()> {
        Ok(fs::fallocate(
            &self.0,
            FallocateFlags::empty(),
            offset_bytes,
            len_bytes,
        )?)
    }

    fn truncate(&self, size_bytes: u64) -> Result<()> {
        Ok(fs::ftruncate(&self.0, size_bytes)?)
    }

    fn write(&self, offset_bytes: u64, data: &[u8]) -> Result<()> {
        let written = io::pwrite(&self.0, data, offset_bytes)?;
        ensure!(written == data.len(), "only {written} bytes were written");
        Ok(())
    }

    fn read(&self, offset_bytes: u64, buf: &mut [u8]) -> Result<usize> {
        Ok(io::pread(&self.0, buf, offset_bytes)?)
    }

    fn fsync(&self) -> Result<()> {
        Ok(fs::fsync(&self.0)?)
    }

    fn drop_cache(&self) -> Result<()> {
        Ok(fs::fadvise(&self.0, 0, None, Advice::DontNeed)?)
    }
}
