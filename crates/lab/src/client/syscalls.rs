//! Client of system calls below a directory: the kernel's ext4, or a FUSE mount.

use super::{Cache, Client, OpenFile};
use anyhow::{Result, ensure};
use rustix::fs::{Advice, AtFlags, FallocateFlags, Mode, OFlags, StatxFlags};
use rustix::{fs, io};
use std::hint::black_box;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use uext4_testkit::oracle::Program;

/// An open directory; names are relative to it, so no path is walked.
pub(crate) struct SystemClient {
    dir: OwnedFd,
}

impl SystemClient {
    /// A client whose names are in the directory `path`.
    pub(crate) fn new(path: &Path) -> Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self {
            dir: fs::open(path, flags, Mode::empty())?,
        })
    }

    fn open_dir(&self, name: &str) -> io::Result<OwnedFd> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        fs::openat(&self.dir, name, flags, Mode::empty())
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

impl Client for SystemClient {
    fn make_dir(&self, name: &str) -> Result<()> {
        match fs::mkdirat(&self.dir, name, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(io::Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn enter(&mut self, name: &str) -> Result<()> {
        self.dir = self.open_dir(name)?;
        Ok(())
    }

    fn below(&self, name: &str) -> Result<Box<dyn Client>> {
        let dir = self.open_dir(name)?;
        Ok(Box::new(Self { dir }))
    }

    fn create(&self, name: &str) -> Result<()> {
        drop(self.make(name, OFlags::WRONLY)?);
        Ok(())
    }

    fn stat(&self, name: &str) -> Result<()> {
        black_box(fs::statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW)?);
        Ok(())
    }

    fn miss(&self, name: &str) -> Result<()> {
        let found = fs::statat(&self.dir, name, AtFlags::SYMLINK_NOFOLLOW);
        ensure!(found.err() == Some(io::Errno::NOENT), "{name} is there");
        Ok(())
    }

    fn list(&self) -> Result<u64> {
        let mut names = 0;
        for entry in fs::Dir::read_from(&self.dir)? {
            names += u64::from(!matches!(entry?.file_name().to_bytes(), b"." | b".."));
        }
        Ok(names)
    }

    fn remove(&self, name: &str) -> Result<()> {
        Ok(fs::unlinkat(&self.dir, name, AtFlags::empty())?)
    }

    fn open_new(&self, name: &str) -> Result<Box<dyn OpenFile>> {
        Ok(Box::new(SystemFile(self.make(name, OFlags::RDWR)?)))
    }

    fn open(&self, name: &str) -> Result<Box<dyn OpenFile>> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let file = fs::openat(&self.dir, name, flags, Mode::empty())?;
        Ok(Box::new(SystemFile(file)))
    }

    fn sync(&self) -> Result<()> {
        Ok(fs::syncfs(&self.dir)?)
    }

    fn path(&self) -> Option<PathBuf> {
        Some(of_descriptor(&self.dir))
    }
}

/// A path of an open descriptor for other programs.
fn of_descriptor(open: &OwnedFd) -> PathBuf {
    format!("/proc/{}/fd/{}", std::process::id(), open.as_raw_fd()).into()
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

    fn attributes(&self) -> Result<()> {
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_FORCE_SYNC;
        black_box(fs::statx(&self.0, "", flags, StatxFlags::BASIC_STATS)?);
        Ok(())
    }

    fn set_cache(&self, cache: Cache) -> Result<()> {
        let mut flags = fs::fcntl_getfl(&self.0)?;
        flags.set(OFlags::DIRECT, cache == Cache::Past);
        Ok(fs::fcntl_setfl(&self.0, flags)?)
    }

    fn fsync(&self) -> Result<()> {
        Ok(fs::fsync(&self.0)?)
    }

    fn extent_count(&self) -> Result<usize> {
        let path = of_descriptor(&self.0);
        let output = Program::new("filefrag")?.arg("-v").arg(path).run_ok()?;
        Ok(super::count_runs(output.stdout.lines().filter_map(run)))
    }

    fn drop_cache(&self) -> Result<()> {
        Ok(fs::fadvise(&self.0, 0, None, Advice::DontNeed)?)
    }
}

/// Start and length from a line of filefrag: `EXTENT: FIRST..LAST: START..END: LENGTH: FLAGS`.
fn run(line: &str) -> Option<(u64, u64)> {
    let mut fields = line.split(':').map(str::trim);
    fields.next()?.parse::<u64>().ok()?;
    let start = fields.nth(1)?.split("..").next()?.trim().parse().ok()?;
    Some((start, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::run;

    #[test]
    fn lines_of_filefrag_are_read() {
        let line = "   1:    10492..   10495:      98304..     98307:      4:      34815: last,eof";
        assert_eq!(run(line), Some((98304, 4)));
        assert_eq!(
            run(" ext:     logical_offset:  physical_offset: length:"),
            None
        );
        assert_eq!(run("/a: 2 extents found"), None);
    }
}
