//! Pages in a file without a name, for what does not have to stay in memory: they are read and
//! written one by one, through the cache of the system, which has its memory back when it needs it.
//!
//! Invariants: the storage of a page is reserved before the page is there, and never more than the
//! file leaves free for others. The first failure stays: what is read from then on is not to be
//! trusted, and [`Scratch::check`] says so.

use crate::Error;
use rustix::fs::{FallocateFlags, Mode, OFlags};
use rustix::process::{Resource, getrlimit};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use uext4_num::u64_of;
use uext4_sync::OnceLock;
use uext4_sync::atomic::{AtomicU64, Ordering};

/// Bytes of a page.
pub const SCRATCH_PAGE_BYTES: usize = 4096;

/// Bytes that are reserved at once.
const CHUNK_BYTES: u64 = 1 << 20;

/// A file of pages, of which one thread at a time makes new ones.
pub struct Scratch {
    file: File,
    /// Bytes of the pages.
    len: AtomicU64,
    failed: OnceLock<io::ErrorKind>,
}

impl Scratch {
    /// A new file in a directory, which has no name, and ends with its owner.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn in_dir(dir: &Path) -> io::Result<Self> {
        Ok(Self {
            file: nameless(dir)?,
            len: AtomicU64::new(0),
            failed: OnceLock::new(),
        })
    }

    /// A new page of these bytes; returns its offset.
    ///
    /// # Errors
    /// Those of the file system; [`io::ErrorKind::StorageFull`] if the file would have more than
    /// what it leaves free, [`io::ErrorKind::FileTooLarge`] at the limit of the process.
    pub fn page(&self, bytes: &[u8; SCRATCH_PAGE_BYTES]) -> io::Result<u64> {
        let at = self.len.load(Ordering::Relaxed);
        if at.is_multiple_of(CHUNK_BYTES) {
            self.reserve(at)?;
        }
        self.file.write_all_at(bytes, at)?;
        self.len
            .store(at + u64_of(SCRATCH_PAGE_BYTES), Ordering::Relaxed);
        Ok(at)
    }

    fn reserve(&self, at: u64) -> io::Result<()> {
        let there = rustix::fs::fstatvfs(&self.file)?;
        let free = there.f_bavail.saturating_mul(there.f_frsize);
        if !may_grow(at, free) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        // Beyond it the system would end the process by a signal.
        let most = getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX);
        if at + CHUNK_BYTES > most {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        rustix::fs::fallocate(&self.file, FallocateFlags::empty(), at, CHUNK_BYTES)?;
        Ok(())
    }

    /// Reads a part of a page; zeroes if that fails.
    pub fn read(&self, at: u64, out: &mut [u8]) {
        if let Err(error) = self.file.read_exact_at(out, at) {
            let _a_first = self.failed.set(error.kind());
            out.fill(0);
        }
    }

    /// Writes a part of a page.
    pub fn write(&self, at: u64, bytes: &[u8]) {
        if let Err(error) = self.file.write_all_at(bytes, at) {
            let _a_first = self.failed.set(error.kind());
        }
    }

    /// Whether all reads so far have returned what was written.
    ///
    /// # Errors
    /// The first failure, also of a page that the system has written by itself.
    pub fn check(&self) -> Result<(), Error> {
        let written = self.file.sync_data().map_err(|error| error.kind());
        let failed = self.failed.get().copied().map_or(written, Err);
        failed.map_err(|kind| {
            let text = format!("the temporary file for large arrays: {kind}");
            Error::io("use", 0, 0, io::Error::new(kind, text))
        })
    }
}

/// Whether a file of `len` bytes may have one more chunk, with so many bytes free beside it.
fn may_grow(len: u64, free: u64) -> bool {
    let grown = len.saturating_add(CHUNK_BYTES);
    grown <= free.saturating_sub(CHUNK_BYTES)
}

fn nameless(dir: &Path) -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::EXCL | OFlags::CLOEXEC;
    if let Ok(file) = rustix::fs::open(dir, flags, Mode::RUSR | Mode::WUSR) {
        return Ok(File::from(file));
    }
    // A file system without such files: the name is there for a moment.
    let name = format!(".uext4-{}-{:x}", std::process::id(), uext4_sync::entropy());
    let path = dir.join(name);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600);
    let file = options.open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(with: u8) -> [u8; SCRATCH_PAGE_BYTES] {
        [with; SCRATCH_PAGE_BYTES]
    }

    #[test]
    fn pages_are_apart() {
        const N: u8 = 250;
        let scratch = Scratch::in_dir(&std::env::temp_dir()).expect("a file");
        // More than one chunk.
        let pages = (0..2 * u64::from(N)).map(|nr| scratch.page(&filled(nr.to_le_bytes()[0])));
        let pages: Vec<u64> = pages.map(|page| page.expect("a page")).collect();
        scratch.write(pages[3] + 7, &[9, 8]);
        let mut page = filled(0);
        for (nr, at) in pages.iter().enumerate() {
            scratch.read(*at, &mut page);
            let mut expected = filled(nr.to_le_bytes()[0]);
            if nr == 3 {
                expected[7..9].copy_from_slice(&[9, 8]);
            }
            assert_eq!(page, expected);
        }
        scratch.check().expect("nothing has failed");
    }

    #[test]
    fn a_failure_stays() {
        let scratch = Scratch::in_dir(&std::env::temp_dir()).expect("a file");
        let at = scratch.page(&filled(5)).expect("a page");
        let mut part = [1; 8];
        scratch.file.set_len(0).expect("it is its own");
        scratch.read(at, &mut part);
        assert_eq!(part, [0; 8]);
        scratch.write(at, &filled(5));
        scratch.read(at, &mut part);
        let error = scratch.check().expect_err("a read has failed");
        assert!(error.to_string().contains("temporary file"), "{error}");
    }

    #[test]
    fn a_file_leaves_space_for_others() {
        let chunk = CHUNK_BYTES;
        assert!(may_grow(0, 2 * chunk) && may_grow(9 * chunk, 11 * chunk));
        assert!(!may_grow(0, 2 * chunk - 1) && !may_grow(9 * chunk, 10 * chunk));
        assert!(!may_grow(u64::MAX, u64::MAX));
    }

    #[test]
    fn a_file_that_cannot_be_made_is_an_error() {
        assert!(Scratch::in_dir(Path::new("/proc/self")).is_err());
        assert!(Scratch::in_dir(Path::new("/nowhere")).is_err());
    }
}
