//! System calls without an interface in `std`: mappings, and batches of requests by io_uring.

use std::fs::File;
use std::io;

use rustix::mm::{MapFlags, ProtFlags};
use tokio_uring::BufResult;
use vm_memory::{FileOffset, MmapRegion, VolatileMemory, VolatileSlice};

/// Most requests of a batch.
pub(crate) const AT_ONCE_MAX: usize = 8;

/// Type and end of a mapped write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mapped {
    /// Shared, then synced by the process.
    Synced,
    /// Shared; the kernel writes it back at any time.
    Shared,
    /// Private: the file must not change.
    Private,
}

/// A mapped part of a file.
pub(crate) struct Mapping {
    pages: MmapRegion,
    /// Bytes of the first page before the part, and length of the part.
    skip: usize,
    len: usize,
}

impl Mapping {
    /// Maps `len` bytes from `from` on, which are inside the file.
    fn new(file: &File, from: u64, len: usize, flags: MapFlags) -> io::Result<Self> {
        let skip = from as usize & (rustix::param::page_size() - 1);
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let place = FileOffset::new(file.try_clone()?, from - skip as u64);
        let (protection, flags) = (protection.bits() as i32, flags.bits() as i32);
        let pages = MmapRegion::build(Some(place), skip + len, protection, flags);
        let pages = pages.map_err(io::Error::other)?;
        Ok(Self { pages, skip, len })
    }

    /// Maps the first `len` bytes shared; they are inside the file.
    pub(crate) fn shared(file: &File, len: usize) -> io::Result<Self> {
        Self::new(file, 0, len, MapFlags::SHARED)
    }

    /// Copies `data` to byte `at` of the part.
    pub(crate) fn write(&self, at: usize, data: &[u8]) -> io::Result<()> {
        let bytes = self.bytes()?.subslice(at, data.len());
        bytes.map_err(io::Error::other)?.copy_from(data);
        Ok(())
    }

    /// Copies out of the part, from byte `at` on.
    pub(crate) fn read(&self, at: usize, out: &mut [u8]) -> io::Result<()> {
        let bytes = self.bytes()?.subslice(at, out.len());
        bytes.map_err(io::Error::other)?.copy_to(out);
        Ok(())
    }

    fn bytes(&self) -> io::Result<VolatileSlice<'_>> {
        let bytes = self.pages.get_slice(self.skip, self.len);
        bytes.map_err(io::Error::other)
    }
}

/// Copies `data` into a mapping of the file, inside its size.
pub(crate) fn write_mapped(file: &File, from: u64, data: &[u8], how: Mapped) -> io::Result<()> {
    let flags = match how {
        Mapped::Private => MapFlags::PRIVATE,
        Mapped::Shared | Mapped::Synced => MapFlags::SHARED,
    };
    let mapping = Mapping::new(file, from, data.len(), flags)?;
    mapping.bytes()?.copy_from(data);
    match how {
        // Equals `msync`: the kernel finds pages of mappings by the file.
        Mapped::Synced => file.sync_data(),
        Mapped::Shared | Mapped::Private => Ok(()),
    }
}

/// Copies a part of the file, inside its size, out of a mapping.
pub(crate) fn read_mapped(file: &File, from: u64, out: &mut [u8]) -> io::Result<()> {
    let mapping = Mapping::new(file, from, out.len(), MapFlags::SHARED)?;
    mapping.bytes()?.copy_to(out);
    Ok(())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Read,
    Write,
}

/// One request of a batch.
pub(crate) struct Request<'a> {
    pub(crate) way: Way,
    pub(crate) offset: u64,
    pub(crate) bytes: &'a mut [u8],
}

/// Submits all requests in one batch and waits for all; each must move all its bytes.
pub(crate) fn run_at_once(file: &File, requests: &mut [Request<'_>]) -> io::Result<()> {
    let moved = tokio_uring::start(moved(file, requests))?;
    let mut results = requests.iter_mut().zip(moved);
    results.try_for_each(|(request, (moved, bytes))| whole(request, moved?, &bytes))
}

/// The bytes moved per request, with its buffer.
async fn moved(
    file: &File,
    requests: &[Request<'_>],
) -> io::Result<Vec<BufResult<usize, Vec<u8>>>> {
    let mut tasks = Vec::new();
    for request in requests {
        let (way, offset, bytes) = (request.way, request.offset, request.bytes.to_vec());
        let file = tokio_uring::fs::File::from_std(file.try_clone()?);
        tasks.push(tokio_uring::spawn(async move {
            let moved = match way {
                Way::Read => file.read_at(bytes, offset).await,
                Way::Write => file.write_at(bytes, offset).submit().await,
            };
            (file.close().await, moved)
        }));
    }
    let mut all = Vec::new();
    for task in tasks {
        let (closed, moved) = task.await.map_err(io::Error::other)?;
        closed?;
        all.push(moved);
    }
    Ok(all)
}

fn whole(request: &mut Request<'_>, moved: usize, bytes: &[u8]) -> io::Result<()> {
    let (way, offset, len) = (request.way, request.offset, request.bytes.len());
    if moved != len {
        let said = format!("{way:?} of {len} bytes at {offset} moved {moved}");
        return Err(io::Error::other(said));
    }
    if way == Way::Read {
        request.bytes.copy_from_slice(&bytes[..len]);
    }
    Ok(())
}
