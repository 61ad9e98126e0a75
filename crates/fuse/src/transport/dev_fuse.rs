//! Descriptors of `/dev/fuse`: one read per request, one write per reply, one descriptor per
//! thread ([`super::reader`]).
//!
//! After a reply a thread busy-polls for the next request before it sleeps (`polling`). Threads
//! that share a descriptor sleep at once. The kernel wakes a sleeping thread for each request, even
//! if a polling thread takes it.
//!
//! Invariant: this code never reads `/proc` files guarded by the caller's `exec_update_lock`
//! (`stat`, `fd`, `exe`). `execve(2)` holds that lock while it closes files and waits for our
//! replies.

use super::polling::{BusyPolling, SkippedPolls};
use crate::init::WRITE_BYTES_MAX;
use crate::reply::ReplyHeader;
use rustix::ioctl::{Opcode, Setter, ioctl};
use rustix::pipe::{SpliceFlags, splice};
use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use uext4_num::usize_of;
use uext4_sync::Arc;
use uext4_sync::atomic::{AtomicBool, Ordering};

/// Descriptor of `/dev/fuse` that belongs to a mount.
pub(crate) struct DevFuse {
    file: File,
    /// Busy-polling threads of the mount; `None` disables polling.
    polling: Option<Arc<BusyPolling>>,
    /// The descriptor is non-blocking. Only the receiving thread changes this.
    at_once: AtomicBool,
}

/// `FUSE_DEV_IOC_CLONE`: connects a further descriptor.
const CLONE: Opcode = 0x8004_e500;

pub(crate) const PATH: &str = "/dev/fuse";

impl DevFuse {
    pub(crate) fn new(fd: OwnedFd) -> Self {
        Self::with(File::from(fd), Some(Arc::default()))
    }

    fn with(file: File, polling: Option<Arc<BusyPolling>>) -> Self {
        let at_once = AtomicBool::new(false);
        Self {
            file,
            polling,
            at_once,
        }
    }

    /// Opens the device, not yet attached to a mount.
    pub(crate) fn open() -> io::Result<File> {
        File::options().read(true).write(true).open(PATH)
    }
}

impl DevFuse {
    /// Busy-polls for a request; `None` when none came or other threads poll.
    fn poll(&self, buf: &mut [u8], skipped: &mut SkippedPolls) -> Option<io::Result<usize>> {
        let polling = self.polling.as_ref()?;
        polling.poll(skipped, || self.read_at_once(buf))
    }

    /// Reads a pending request without blocking.
    fn read_at_once(&self, buf: &mut [u8]) -> Option<io::Result<usize>> {
        self.set_at_once(true).ok()?;
        match (&self.file).read(buf) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            other => Some(other),
        }
    }

    fn set_at_once(&self, at_once: bool) -> io::Result<()> {
        if self.at_once.swap(at_once, Ordering::Relaxed) != at_once {
            let flags = rustix::fs::fcntl_getfl(&self.file)?;
            let mut wanted = flags;
            wanted.set(rustix::fs::OFlags::NONBLOCK, at_once);
            rustix::fs::fcntl_setfl(&self.file, wanted)?;
        }
        Ok(())
    }

    fn read(&self, buf: &mut [u8], skipped: &mut SkippedPolls) -> io::Result<usize> {
        if let Some(found) = self.poll(buf, skipped) {
            return found;
        }
        self.set_at_once(false)?;
        (&self.file).read(buf)
    }
}

impl DevFuse {
    /// Waits for a request and reads it into `buf`. Returns its length, or `None` after an unmount.
    pub(crate) fn receive(
        &self,
        buf: &mut [u8],
        skipped: &mut SkippedPolls,
    ) -> io::Result<Option<usize>> {
        loop {
            let error = match self.read(buf, skipped) {
                Ok(len) => return Ok(Some(len)),
                Err(error) => error,
            };
            match error.raw_os_error() {
                // A signal interrupted the read, or the request was aborted during it.
                Some(libc::EINTR | libc::EAGAIN | libc::ENOENT) => {}
                Some(libc::ENODEV | libc::ECONNABORTED) => return Ok(None),
                _ => return Err(error),
            }
        }
    }

    /// Sends a finished reply or notification. A reply to an aborted request is no error.
    pub(crate) fn send(&self, header: &ReplyHeader, body: &[u8]) -> io::Result<()> {
        let sent = (&self.file).write_vectored(&[IoSlice::new(header), IoSlice::new(body)]);
        let Err(error) = sent else {
            return Ok(());
        };
        if is_unwanted(&error) {
            Ok(())
        } else {
            Err(error)
        }
    }

    /// Sends a finished reply from a pipe.
    pub(super) fn send_piped(&self, pipe: &OwnedFd, len_bytes: usize) -> io::Result<Sent> {
        let sent = splice(
            pipe,
            None,
            &self.file,
            None,
            len_bytes,
            SpliceFlags::empty(),
        );
        match sent.map_err(io::Error::from) {
            Ok(sent) if sent == len_bytes => Ok(Sent::Taken),
            Ok(_) => Err(io::ErrorKind::WriteZero.into()),
            Err(error) if is_unwanted(&error) => Ok(Sent::Unwanted),
            Err(error) => Err(error),
        }
    }

    /// Clones the descriptor for another thread of the same mount.
    pub(crate) fn another(&self) -> io::Result<Self> {
        let file = match Self::open() {
            // If only the mount helper may open the device, the threads share its descriptor.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                // O_NONBLOCK would apply to the reads of all threads.
                self.disable_polling()?;
                return Ok(Self::with(self.file.try_clone()?, None));
            }
            opened => opened?,
        };
        let from = self.file.as_raw_fd().cast_unsigned();
        // SAFETY: the ioctl reads one u32; both descriptors are open.
        #[allow(unsafe_code)]
        unsafe {
            ioctl(&file, Setter::<CLONE, u32>::new(from))?;
        }
        Ok(Self::with(file, self.polling.clone()))
    }

    /// Disables busy polling in all threads of the mount.
    pub(crate) fn disable_polling(&self) -> io::Result<()> {
        if let Some(polling) = &self.polling {
            polling.disable();
        }
        self.set_at_once(false)
    }
}

/// Result of sending a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// The kernel took the reply.
    Taken,
    /// Its request was aborted; the reply may still lie in the pipe.
    Unwanted,
}

/// Whether the kernel refused a reply because its request is gone.
fn is_unwanted(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENOENT | libc::ENODEV | libc::ECONNABORTED)
    )
}

impl AsFd for DevFuse {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Size of a request without the data of a write, in bytes.
const REQUEST_MORE_BYTES: usize = 8192;

/// A buffer large enough for any request.
pub(crate) fn request_buffer() -> Vec<u8> {
    vec![0; REQUEST_MORE_BYTES + usize_of(WRITE_BYTES_MAX)]
}
