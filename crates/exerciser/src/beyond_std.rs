//! What has no safe interface: mappings, and many requests at once by io_uring.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use io_uring::{IoUring, opcode, squeue, types};
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags, mmap, msync, munmap};

/// Most requests at once.
pub(crate) const AT_ONCE_MAX: usize = 8;

/// How a mapped write ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mapped {
    /// Shared, and synced.
    Synced,
    /// Shared; the kernel writes it when it likes.
    Shared,
    /// Private: the file must not change.
    Private,
}

/// Part of a file in memory, unmapped on drop.
struct Mapping {
    base: *mut core::ffi::c_void,
    len: usize,
    /// Bytes of the first page before the part.
    skip: usize,
}

impl Mapping {
    /// Maps `len` bytes from `from` on, which the file has.
    fn new(file: &File, from: u64, len: usize, flags: MapFlags) -> io::Result<Self> {
        let skip = from as usize & (rustix::param::page_size() - 1);
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let (len, start) = (skip + len, from - skip as u64);
        let no_address = std::ptr::null_mut();
        // SAFETY: a new mapping at an address that the system chooses.
        let base = unsafe { mmap(no_address, len, protection, flags, file, start)? };
        Ok(Self { base, len, skip })
    }

    fn bytes(&self) -> *mut u8 {
        // SAFETY: `skip` is below `len`, the size of the mapping.
        unsafe { self.base.cast::<u8>().add(self.skip) }
    }

    fn sync(&self) -> io::Result<()> {
        // SAFETY: exactly the mapping, which lives.
        unsafe { msync(self.base, self.len, MsyncFlags::SYNC) }.map_err(io::Error::from)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping; nobody has a reference into it.
        let unmapped = unsafe { munmap(self.base, self.len) };
        debug_assert!(unmapped.is_ok());
    }
}

/// Copies `data` into a mapping of the file, which is that long.
pub(crate) fn write_mapped(file: &File, from: u64, data: &[u8], how: Mapped) -> io::Result<()> {
    let flags = match how {
        Mapped::Private => MapFlags::PRIVATE,
        Mapped::Shared | Mapped::Synced => MapFlags::SHARED,
    };
    let mapping = Mapping::new(file, from, data.len(), flags)?;
    // SAFETY: the mapping has `data.len()` bytes from there on; only this process uses the file.
    unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), mapping.bytes(), data.len()) };
    match how {
        Mapped::Synced => mapping.sync(),
        Mapped::Shared | Mapped::Private => Ok(()),
    }
}

/// Copies a part of the file, which is that long, out of a mapping.
pub(crate) fn read_mapped(file: &File, from: u64, out: &mut [u8]) -> io::Result<()> {
    let mapping = Mapping::new(file, from, out.len(), MapFlags::SHARED)?;
    // SAFETY: the mapping has `out.len()` bytes from there on, and only this process uses the file.
    unsafe { std::ptr::copy_nonoverlapping(mapping.bytes(), out.as_mut_ptr(), out.len()) };
    Ok(())
}

/// What a request does with its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Read,
    Write,
}

/// One of many requests.
pub(crate) struct Request<'a> {
    pub(crate) way: Way,
    pub(crate) offset: u64,
    pub(crate) bytes: &'a mut [u8],
}

/// A ring of requests to files.
pub(crate) struct Ring(IoUring);

impl Ring {
    pub(crate) fn new() -> io::Result<Self> {
        IoUring::new(AT_ONCE_MAX as u32).map(Self)
    }

    /// Hands all requests over at once and waits for all. Writes must move all their bytes; the
    /// rest of a read that was cut short is read once more: through FUSE a request past the cache
    /// ends where the server knows the file to end, although the cache holds more.
    pub(crate) fn run(&mut self, file: &File, requests: &mut [Request<'_>]) -> io::Result<()> {
        for (index, request) in requests.iter_mut().enumerate() {
            let entry = entry(file, request).user_data(index as u64);
            // SAFETY: file and bytes are borrowed until this function ends, which waits for all.
            let pushed = unsafe { self.0.submission().push(&entry) };
            assert!(pushed.is_ok(), "the ring holds {AT_ONCE_MAX} requests");
        }
        let mut moved = vec![None; requests.len()];
        let mut waiting = requests.len();
        while waiting > 0 {
            self.wait(waiting);
            for done in self.0.completion() {
                moved[done.user_data() as usize] = Some(done.result());
                waiting -= 1;
            }
        }
        let mut results = requests.iter_mut().zip(moved);
        results.try_for_each(|(request, moved)| whole(file, request, moved))
    }

    /// Memory that the kernel writes to must not be given up: a ring that fails ends the process.
    fn wait(&mut self, n_requests: usize) {
        match self.0.submit_and_wait(n_requests) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                eprintln!("io_uring_enter: {error}");
                std::process::abort()
            }
            _ => {}
        }
    }
}

fn entry(file: &File, request: &mut Request<'_>) -> squeue::Entry {
    let (fd, len) = (types::Fd(file.as_raw_fd()), request.bytes.len() as u32);
    let bytes = request.bytes.as_mut_ptr();
    match request.way {
        Way::Read => opcode::Read::new(fd, bytes, len)
            .offset(request.offset)
            .build(),
        Way::Write => opcode::Write::new(fd, bytes, len)
            .offset(request.offset)
            .build(),
    }
}

fn whole(file: &File, request: &mut Request<'_>, moved: Option<i32>) -> io::Result<()> {
    let (way, offset, len) = (request.way, request.offset, request.bytes.len());
    match moved {
        Some(moved) if moved < 0 => Err(io::Error::from_raw_os_error(-moved)),
        Some(moved) if moved as usize == len => Ok(()),
        Some(moved) if way == Way::Read => {
            let rest = &mut request.bytes[moved as usize..];
            file.read_exact_at(rest, offset + moved as u64)
        }
        moved => Err(io::Error::other(format!(
            "{way:?} of {len} bytes at {offset} moved {moved:?}"
        ))),
    }
}
