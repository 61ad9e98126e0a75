//! Memory in a file without a name, for what does not have to stay in memory: the system writes its
//! pages to the file when it needs their memory, and reads them again when they are used.
//!
//! Layout: pages of 4 KiB in chunks, each a shared mapping of a part of the file.
//! Invariants: the storage of a chunk is reserved before it is mapped, so that a full file system
//! is an error here and not a signal later. Each page has one owner.

use rustix::fs::{FallocateFlags, Mode, OFlags};
use rustix::mm::{MapFlags, ProtFlags};
use std::fs::{File, OpenOptions};
use std::io;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::ptr::NonNull;
use uext4_num::u64_of;
use uext4_sync::Arc;

/// Bytes of a page.
const PAGE_BYTES: usize = 4096;

/// Bytes that are mapped at once.
const CHUNK_BYTES: usize = 1 << 20;

/// Numbers that a page may hold: those of which any bytes are a value.
pub trait Plain: Copy + sealed::Sealed {}

impl Plain for u8 {}
impl Plain for u64 {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for u8 {}
    impl Sealed for u64 {}
}

/// A file of pages.
pub struct Scratch {
    file: File,
    chunk: Option<Arc<Chunk>>,
    /// Bytes of this chunk that have owners.
    used: usize,
    /// Bytes of the file.
    len: u64,
}

impl Scratch {
    /// A new file in a directory, which has no name, and ends with its last page.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn in_dir(dir: &Path) -> io::Result<Self> {
        Ok(Self {
            file: nameless(dir)?,
            chunk: None,
            used: CHUNK_BYTES,
            len: 0,
        })
    }

    /// A new page of zeroes.
    ///
    /// # Errors
    /// Those of the file system, if the file cannot grow, and of the mapping;
    /// [`io::ErrorKind::StorageFull`] if the file would have more than what it leaves free.
    pub fn page<T: Plain>(&mut self) -> io::Result<ScratchPage<T>> {
        let chunk = match &self.chunk {
            Some(chunk) if self.used < CHUNK_BYTES => chunk,
            _ => {
                let there = rustix::fs::fstatvfs(&self.file)?;
                let free = there.f_bavail.saturating_mul(there.f_frsize);
                if !may_grow(self.len, free) {
                    return Err(io::ErrorKind::StorageFull.into());
                }
                let next = Chunk::of(&self.file, self.len)?;
                self.len += u64_of(CHUNK_BYTES);
                self.used = 0;
                self.chunk.insert(Arc::new(next))
            }
        };
        let chunk = Arc::clone(chunk);
        let at = self.used;
        self.used += PAGE_BYTES;
        Ok(ScratchPage {
            chunk,
            at,
            values: PhantomData,
        })
    }
}

/// Whether a file of `len` bytes may have one more chunk, with so many bytes free beside it.
fn may_grow(len: u64, free: u64) -> bool {
    let grown = len.saturating_add(u64_of(CHUNK_BYTES));
    grown <= free.saturating_sub(u64_of(CHUNK_BYTES))
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

/// A mapped part of the file.
struct Chunk {
    start: NonNull<u8>,
}

// SAFETY: a chunk is memory that belongs to no thread; its bytes are reached through the owners of
// its pages alone, which follow the rules of references.
unsafe impl Send for Chunk {}
// SAFETY: as above.
unsafe impl Sync for Chunk {}

impl Chunk {
    fn of(file: &File, at: u64) -> io::Result<Self> {
        let len = u64_of(CHUNK_BYTES);
        rustix::fs::fallocate(file, FallocateFlags::empty(), at, len)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the address is for the system to choose, so that no other mapping is replaced.
        // The file has no name and is not shared, so that nobody shortens it.
        let start = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                CHUNK_BYTES,
                access,
                MapFlags::SHARED,
                file,
                at,
            )
        }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start })
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: the mapping is of this length, and its last user is gone.
        let _unmapped = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), CHUNK_BYTES) };
    }
}

/// A page of numbers in a [`Scratch`], which it keeps.
pub struct ScratchPage<T> {
    chunk: Arc<Chunk>,
    /// Its offset in the chunk, in bytes.
    at: usize,
    values: PhantomData<T>,
}

impl<T: Plain> Deref for ScratchPage<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: the page is inside of the chunk, which lives as long, and is aligned to its own
        // size; any bytes are values of a plain type. No other page has these bytes, so that
        // they change through `&mut self` only.
        unsafe {
            let start = self.chunk.start.add(self.at).cast::<T>();
            std::slice::from_raw_parts(start.as_ptr(), PAGE_BYTES / size_of::<T>())
        }
    }
}

impl<T: Plain> DerefMut for ScratchPage<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as for `deref`; `&mut self` is the only reference to the only owner.
        unsafe {
            let start = self.chunk.start.add(self.at).cast::<T>();
            std::slice::from_raw_parts_mut(start.as_ptr(), PAGE_BYTES / size_of::<T>())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_apart_and_outlive_their_file() {
        const N: usize = CHUNK_BYTES / PAGE_BYTES + 5;
        let dir = std::env::temp_dir();
        let mut scratch = Scratch::in_dir(&dir).expect("a file");
        let mut pages: Vec<ScratchPage<u64>> =
            (0..N).map(|_| scratch.page().expect("a page")).collect();
        for (nr, page) in pages.iter_mut().enumerate() {
            assert_eq!(**page, [0; PAGE_BYTES / 8]);
            page.fill(u64_of(nr));
        }
        drop(scratch);
        for (nr, page) in pages.iter().enumerate() {
            assert_eq!(**page, [u64_of(nr); PAGE_BYTES / 8]);
        }
    }

    #[test]
    fn a_file_leaves_space_for_others() {
        let chunk = u64_of(CHUNK_BYTES);
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
