//! `/dev/fuse`: one read per request, one write per answer, a descriptor per thread.

use super::Transport;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

/// A descriptor of `/dev/fuse` that belongs to a mount.
pub(crate) struct DevFuse(File);

/// `FUSE_DEV_IOC_CLONE`.
const CLONE: libc::c_ulong = 0x8004_e500;

/// Path of the device.
pub(crate) const PATH: &str = "/dev/fuse";

impl DevFuse {
    /// Wraps a descriptor.
    pub(crate) fn new(fd: OwnedFd) -> Self {
        Self(File::from(fd))
    }

    /// Opens the device; it belongs to no mount yet.
    pub(crate) fn open() -> io::Result<File> {
        File::options().read(true).write(true).open(PATH)
    }
}

impl Transport for DevFuse {
    fn receive(&self, buf: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            let error = match (&self.0).read(buf) {
                Ok(len) => return Ok(Some(len)),
                Err(error) => error,
            };
            match error.raw_os_error() {
                // Interrupted: by a signal, or the request was while it came.
                Some(libc::EINTR | libc::EAGAIN | libc::ENOENT) => {}
                Some(libc::ENODEV | libc::ECONNABORTED) => return Ok(None),
                _ => return Err(error),
            }
        }
    }

    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let Err(error) = (&self.0).write(bytes) else {
            return Ok(());
        };
        match error.raw_os_error() {
            Some(libc::ENOENT | libc::ENODEV | libc::ECONNABORTED) => Ok(()),
            _ => Err(error),
        }
    }

    fn another(&self) -> io::Result<Arc<dyn Transport>> {
        let file = match Self::open() {
            // Where only the helper may open the device, threads share its descriptor.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Ok(Arc::new(Self(self.0.try_clone()?)));
            }
            opened => opened?,
        };
        let mut from = self.0.as_raw_fd() as u32;
        // SAFETY: the ioctl reads one u32 from the pointer, which lives until it returns; both
        // descriptors are open.
        #[allow(unsafe_code)]
        let done = unsafe { libc::ioctl(file.as_raw_fd(), CLONE as _, &raw mut from) };
        if done < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Arc::new(Self(file)))
    }
}
