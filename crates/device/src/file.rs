//! Device in a regular file or behind a block device node.
//!
//! Two processes that write one file system destroy it. A device that is open for writing therefore
//! holds an exclusive `flock`, the byte locks of QEMU and, on a block device, an `O_EXCL` claim,
//! which the kernel refuses while the device is mounted. Other names of the same bytes are claimed
//! as well ([`crate::users`]). Readers take no lock: reading a mounted file system is useful and
//! harmless.
//! References: open(2), flock(2), fallocate(2).

mod direct;
mod opening;
mod rotation;
mod shared_locks;

use crate::users::Claims;
use crate::{Backing, BlockDevice, Claimant, Error, range};
pub use opening::write_protected;
use opening::{claim, kind_of, lock_for_writing, open_file};
use rustix::fs::{Advice, FallocateFlags, FileType};
use rustix::io::{Errno, ReadWriteFlags};
use std::fs::File;
use std::io::{IoSlice, Seek, SeekFrom};
use std::num::NonZeroU64;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use uext4_num::{clamp_usize, u64_of};
use uext4_sync::atomic::{AtomicU64, Ordering};
use uext4_sync::{Mutex, OnceLock, Rank, io_point};

/// Segments per `pwritev` (`IOV_MAX` of Linux).
const SEGMENTS_MAX: usize = 1024;

/// Bytes that the system reads for one hint, as it is set up ordinarily.
const HINT_BYTES: u64 = 128 << 10;

/// Access mode of an open device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Writes are refused; no lock is taken.
    ReadOnly,
    /// Reads and writes; no other writer is admitted.
    ReadWrite,
}

/// A file, or a window of it, as a block device.
pub struct FileDevice {
    file: File,
    path: PathBuf,
    access: Access,
    /// The same file, reopened by [`BlockDevice::begin_writing`].
    reopened: OnceLock<File>,
    /// The same file, opened with `O_DIRECT` to read, where that is possible; not used once it is
    /// writable.
    direct_reader: OnceLock<Option<File>>,
    /// The same, opened to read and write.
    direct_writer: OnceLock<Option<File>>,
    /// The claims that exclude other writers, unless given up.
    exclusion: Mutex<Exclusion>,
    /// Start of the window in the file, in bytes.
    start: u64,
    size_bytes: AtomicU64,
    /// The window was opened with a length.
    has_fixed_end: bool,
    /// Queried at open: later the sandbox of the mount may hide `/sys`.
    is_rotational: bool,
}

/// The claims that exclude other writers while a device is open for writing.
#[derive(Default)]
struct Exclusion {
    /// The claim on the block device itself.
    own: Option<File>,
    /// The claims on other names of the same bytes.
    _around: Claims,
}

impl Exclusion {
    fn new(own: Option<File>, around: Claims) -> Self {
        Self {
            own,
            _around: around,
        }
    }
}

impl FileDevice {
    /// Opens a regular file or block device from end to end.
    pub fn open(path: impl AsRef<Path>, access: Access) -> Result<Self, Error> {
        Self::open_window(path, access, 0, None)
    }

    /// Opens `len` bytes (default: all up to the end) from byte `offset`.
    ///
    /// # Errors
    /// [`Error::Busy`] if it has another writer, [`Error::OutOfRange`] if the window does not lie
    /// in the file, [`Error::Io`] if the operating system refuses.
    pub fn open_window(
        path: impl AsRef<Path>,
        access: Access,
        offset: u64,
        len: Option<u64>,
    ) -> Result<Self, Error> {
        let path = path.as_ref();
        let claim = match access {
            Access::ReadWrite => claim(path)?,
            Access::ReadOnly => None,
        };
        let file = open_file(path, access)?;
        let around = match access {
            Access::ReadWrite => Claims::take(&file, path)?,
            Access::ReadOnly => Claims::default(),
        };
        let file_bytes = end_of(&file).map_err(|e| Error::io("open", 0, 0, e))?;
        let size_bytes = len.unwrap_or(file_bytes.saturating_sub(offset));
        range::check(file_bytes, offset, size_bytes)?;
        Ok(Self {
            is_rotational: rotation::is_on_rotating_disk(&file),
            file,
            path: path.to_owned(),
            access,
            reopened: OnceLock::new(),
            direct_reader: OnceLock::new(),
            direct_writer: OnceLock::new(),
            exclusion: Mutex::new(Rank::Device, Exclusion::new(claim, around)),
            start: offset,
            size_bytes: size_bytes.into(),
            has_fixed_end: len.is_some(),
        })
    }

    /// Creates (or empties) a regular file of `size_bytes` zeroes and opens it for writing. What
    /// another user planted in a directory where several users write is refused.
    pub fn create(path: impl AsRef<Path>, size_bytes: u64) -> Result<Self, Error> {
        let path = path.as_ref();
        let open_error = |e| Error::io("open", 0, size_bytes, e);
        let file = crate::new_file::open_or_make(path).map_err(open_error)?;
        // Truncated only under the lock: the file may be a mounted image.
        lock_for_writing(&file, path)?;
        let around = Claims::take(&file, path)?;
        file.set_len(0)
            .and_then(|()| file.set_len(size_bytes))
            .map_err(open_error)?;
        let access = Access::ReadWrite;
        Ok(Self {
            is_rotational: rotation::is_on_rotating_disk(&file),
            file,
            path: path.to_owned(),
            access,
            reopened: OnceLock::new(),
            direct_reader: OnceLock::new(),
            direct_writer: OnceLock::new(),
            exclusion: Mutex::new(Rank::Device, Exclusion::new(None, around)),
            start: 0,
            size_bytes: size_bytes.into(),
            has_fixed_end: false,
        })
    }

    /// Changes the length of a regular file, so that the device has `size_bytes` up to its end. New
    /// bytes are a hole.
    ///
    /// # Errors
    /// [`Error::ReadOnly`]; [`Error::Io`] if the operating system refuses, as for a block device.
    pub fn set_size(&self, size_bytes: u64) -> Result<(), Error> {
        if self.is_read_only() {
            return Err(Error::ReadOnly);
        }
        let end = self.start.checked_add(size_bytes);
        let set = end
            .ok_or_else(|| Errno::FBIG.into())
            .and_then(|end| self.target().set_len(end));
        set.map_err(|e| Error::io("write", size_bytes, 0, e))?;
        self.size_bytes.store(size_bytes, Ordering::Relaxed);
        Ok(())
    }

    /// True if the file has no data from byte `offset` on, so that it reads as zero up to its end.
    /// False where the operating system does not tell.
    pub fn is_hole_from(&self, offset: u64) -> bool {
        let from = self.start.saturating_add(offset);
        let data = rustix::fs::seek(&self.file, rustix::fs::SeekFrom::Data(from));
        offset >= self.size_bytes() || data == Err(Errno::NXIO)
    }

    /// Zeroes bytes by the first of these ways that the backing supports, else by writes.
    fn zero(&self, offset: u64, len: u64, ways: [FallocateFlags; 2]) -> Result<(), Error> {
        self.check_write(offset, len)?;
        if len == 0 {
            return Ok(());
        }
        for how in ways {
            match self.allocate(offset, len, how) {
                Ok(()) => return Ok(()),
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::BUSY) => {}
                Err(errno) => return Err(Error::io("write", offset, len, errno)),
            }
        }
        crate::traits::write_zeroes_by_hand(self, offset, len)
    }

    /// The path it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn unlock(&self) {
        let reopened = self.reopened.get();
        let opened = (self.access == Access::ReadWrite).then_some(&self.file);
        for file in opened.into_iter().chain(reopened) {
            opening::unlock(file);
        }
    }

    /// A path of the open descriptor: the original path may name another file by now.
    fn path_of_descriptor(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.file.as_raw_fd()).into()
    }

    /// Replaces the path in the error with the one that was opened.
    fn named(&self, error: Error) -> Error {
        match error {
            Error::Busy { user, .. } => Error::Busy {
                path: self.path.clone(),
                user,
            },
            other => other,
        }
    }

    /// The file that takes writes.
    fn target(&self) -> &File {
        self.reopened.get().unwrap_or(&self.file)
    }

    fn direct(&self) -> Option<&File> {
        let writable = !self.is_read_only();
        let handle = if writable {
            &self.direct_writer
        } else {
            &self.direct_reader
        };
        handle
            .get_or_init(|| direct::open(&self.path_of_descriptor(), writable))
            .as_ref()
    }

    fn check_write(&self, offset: u64, len: u64) -> Result<(), Error> {
        io_point();
        if self.is_read_only() {
            return Err(Error::ReadOnly);
        }
        range::check(self.size_bytes(), offset, len)
    }

    /// Changes the allocation of a range, keeping the size of the file.
    fn allocate(&self, offset: u64, len: u64, how: FallocateFlags) -> Result<(), Errno> {
        let flags = how | FallocateFlags::KEEP_SIZE;
        let mut written = false;
        loop {
            match rustix::fs::fallocate(self.target(), flags, self.start + offset, len) {
                Err(Errno::INTR) => {}
                // On a block device with dirty pages, only the kernel mount could drop them.
                Err(Errno::BUSY) if !written => {
                    rustix::fs::fdatasync(self.target())?;
                    written = true;
                }
                other => return other,
            }
        }
    }

    fn write_segments(
        &self,
        mut at: u64,
        mut bufs: &mut [IoSlice<'_>],
        flags: ReadWriteFlags,
    ) -> std::io::Result<()> {
        // Leading empty segments would look like a write without progress.
        IoSlice::advance_slices(&mut bufs, 0);
        while !bufs.is_empty() {
            let batch = &bufs[..bufs.len().min(SEGMENTS_MAX)];
            match rustix::io::pwritev2(self.target(), batch, at, flags) {
                Ok(0) => return Err(std::io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    at += u64_of(n);
                    IoSlice::advance_slices(&mut bufs, n);
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }
}

/// Explicit unlock: the lock ends with the last descriptor, and a process that another thread is
/// starting may hold a copy for a moment.
impl Drop for FileDevice {
    fn drop(&mut self) {
        self.unlock();
    }
}

/// Size in bytes, by seeking: `stat` reports zero for a block device.
fn end_of(mut file: &File) -> std::io::Result<u64> {
    file.seek(SeekFrom::End(0))
}

impl BlockDevice for FileDevice {
    fn size_bytes(&self) -> u64 {
        self.size_bytes.load(Ordering::Relaxed)
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        io_point();
        let len = u64_of(buf.len());
        range::check(self.size_bytes(), offset, len)?;
        let result = self.file.read_exact_at(buf, self.start + offset);
        result.map_err(|e| Error::io("read", offset, len, e))
    }
    fn read_past_cache_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        io_point();
        let len = u64_of(buf.len());
        range::check(self.size_bytes(), offset, len)?;
        let result = direct::read(self.target(), self.direct(), buf, self.start + offset);
        result.map_err(|e| Error::io("read", offset, len, e))
    }
    fn write_past_cache_at(&self, offset: u64, buf: &[u8]) -> Result<(), Error> {
        let len = u64_of(buf.len());
        self.check_write(offset, len)?;
        let result = direct::write(self.target(), self.direct(), buf, self.start + offset);
        result.map_err(|e| Error::io("write", offset, len, e))
    }
    fn write_out(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.check_write(offset, len)?;
        let result = direct::write_out(self.target(), self.start + offset, len);
        result.map_err(|e| Error::io("write", offset, len, e))
    }
    fn backing(&self, offset: u64, len: u64) -> Option<Backing<'_>> {
        range::check(self.size_bytes(), offset, len).ok()?;
        Some(Backing {
            file: self.file.as_fd(),
            offset: self.start + offset,
        })
    }
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), Error> {
        let len = u64_of(buf.len());
        self.check_write(offset, len)?;
        let result = self.target().write_all_at(buf, self.start + offset);
        result.map_err(|e| Error::io("write", offset, len, e))
    }
    fn write_vectored_at(&self, offset: u64, bufs: &[&[u8]]) -> Result<(), Error> {
        let len = range::total_bytes(bufs);
        self.check_write(offset, len)?;
        let mut segments: Vec<IoSlice<'_>> = bufs.iter().map(|buf| IoSlice::new(buf)).collect();
        let none = ReadWriteFlags::empty();
        let result = self.write_segments(self.start + offset, &mut segments, none);
        result.map_err(|e| Error::io("write", offset, len, e))
    }
    /// Writes back the pages of this range only, not what other threads wrote meanwhile. A block
    /// device is flushed after it: the kernel has no way to ask it for FUA from here.
    fn write_durable_at(&self, offset: u64, buf: &[u8]) -> Result<(), Error> {
        let len = u64_of(buf.len());
        self.check_write(offset, len)?;
        let mut segments = [IoSlice::new(buf)];
        let durably = ReadWriteFlags::DSYNC;
        let result = self.write_segments(self.start + offset, &mut segments, durably);
        result.map_err(|e| Error::io("write", offset, len, e))
    }
    fn flush(&self) -> Result<(), Error> {
        io_point();
        if self.is_read_only() {
            return Ok(());
        }
        // Not repeated after a failure: the kernel has dropped the dirty pages by then, and a
        // second call would claim success.
        rustix::fs::fdatasync(self.target()).map_err(|e| Error::io("flush", 0, 0, e))
    }
    fn discard(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.check_write(offset, len)?;
        if len == 0 {
            return Ok(());
        }
        match self.allocate(offset, len, FallocateFlags::PUNCH_HOLE) {
            // A hint that the backing does not support counts as done.
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::BUSY) => Ok(()),
            Err(errno) => Err(Error::io("discard", offset, len, errno)),
        }
    }
    fn forget_cache(&self) {
        if let Some(len) = NonZeroU64::new(self.size_bytes()) {
            let _a_hint = rustix::fs::fadvise(&self.file, self.start, Some(len), Advice::DontNeed);
        }
    }
    fn read_ahead(&self, offset: u64, len: u64) {
        let inside = range::check(self.size_bytes(), offset, len).is_ok();
        if !inside {
            return;
        }
        // The system reads no more than its own window for one hint.
        for at in (offset..offset + len).step_by(clamp_usize(HINT_BYTES)) {
            let part = NonZeroU64::new(HINT_BYTES.min(offset + len - at));
            let start = self.start + at;
            let _a_hint = rustix::fs::fadvise(&self.file, start, part, Advice::WillNeed);
        }
    }
    fn is_rotational(&self) -> bool {
        self.is_rotational
    }
    fn lengthen(&self, least_bytes: u64) -> Result<(), Error> {
        if self.has_fixed_end || self.is_read_only() {
            return Ok(());
        }
        let file = self.target();
        let failed = |e| Error::io("open", 0, 0, e);
        let there = end_of(file).map_err(failed)?.saturating_sub(self.start);
        let is_file = kind_of(file).map_err(failed)? == FileType::RegularFile;
        if is_file && there < least_bytes {
            return self.set_size(least_bytes);
        }
        self.size_bytes.fetch_max(there, Ordering::Relaxed);
        Ok(())
    }
    fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), Error> {
        let ways = [FallocateFlags::ZERO_RANGE, FallocateFlags::PUNCH_HOLE];
        self.zero(offset, len, ways)
    }
    fn write_hole(&self, offset: u64, len: u64) -> Result<(), Error> {
        let ways = [FallocateFlags::PUNCH_HOLE, FallocateFlags::ZERO_RANGE];
        self.zero(offset, len, ways)
    }
    fn is_read_only(&self) -> bool {
        self.access == Access::ReadOnly && self.reopened.get().is_none()
    }
    fn begin_writing(&self) -> Result<(), Error> {
        if !self.is_read_only() {
            return Ok(());
        }
        let path = self.path_of_descriptor();
        let claimed = claim(&path).and_then(|own| {
            let file = open_file(&path, Access::ReadWrite)?;
            let around = Claims::take(&file, &path)?;
            Ok((Exclusion::new(own, around), file))
        });
        let (exclusion, file) = claimed.map_err(|error| self.named(error))?;
        if self.reopened.set(file).is_ok() {
            *self.exclusion.lock() = exclusion;
        }
        Ok(())
    }
    fn claim_for(&self, claimant: Claimant) -> Result<(), Error> {
        if self.is_read_only() {
            return Ok(());
        }
        let mut exclusion = self.exclusion.lock();
        match claimant {
            Claimant::Mount => exclusion.own = None,
            Claimant::None => {
                *exclusion = Exclusion::default();
                self.unlock();
            }
            Claimant::Opener if exclusion.own.is_some() => {}
            Claimant::Opener => {
                exclusion.own =
                    claim(&self.path_of_descriptor()).map_err(|error| self.named(error))?;
            }
        }
        Ok(())
    }
    fn release(&self) {
        let _never_refused = self.claim_for(Claimant::None);
    }
    fn describe(&self) -> String {
        let path = self.path.display();
        match self.start {
            0 => path.to_string(),
            start => format!("{path} at byte {start}"),
        }
    }
}

#[cfg(test)]
mod past_cache_tests;
#[cfg(test)]
mod tests;
