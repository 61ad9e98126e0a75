//! `/dev/fuse`: one read per request, one write per answer, a descriptor per thread.
//!
//! A thread that has just answered looks for the next request before it sleeps (`look`), but where
//! threads share a descriptor: there they sleep at once. With a thread that sleeps the kernel wakes
//! it for each request, whoever takes it.
//!
//! Invariant: nothing here reads what `/proc` guards with the caller's `exec_update_lock` (`stat`,
//! `fd`, `exe`): `execve(2)` holds that lock while it closes files, and waits for our answers.

use super::look::Lookers;
pub(crate) use super::look::Rests;
use super::splice::Splicer;
use super::{Ended, Service, Transport};
use crate::answer::{Answer, AnswerHeader};
use crate::errno::Errno;
use crate::init::WRITE_BYTES_MAX;
use crate::request::Request;
use crate::server::{Outcome, Pace, Server};
use rustix::pipe::{SpliceFlags, splice};
use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A descriptor of `/dev/fuse` that belongs to a mount.
pub(crate) struct DevFuse {
    file: File,
    /// Threads of the mount that look for requests; `None`: never look.
    lookers: Option<Arc<Lookers>>,
    /// Reads answer at once. Only the thread that receives changes it.
    at_once: AtomicBool,
}

/// `FUSE_DEV_IOC_CLONE`.
const CLONE: libc::c_ulong = 0x8004_e500;

/// Path of the device.
pub(crate) const PATH: &str = "/dev/fuse";

impl DevFuse {
    /// Wraps a descriptor.
    pub(crate) fn new(fd: OwnedFd) -> Self {
        Self::with(File::from(fd), Some(Arc::default()))
    }

    fn with(file: File, lookers: Option<Arc<Lookers>>) -> Self {
        let at_once = AtomicBool::new(false);
        Self {
            file,
            lookers,
            at_once,
        }
    }

    /// Opens the device; it belongs to no mount yet.
    pub(crate) fn open() -> io::Result<File> {
        File::options().read(true).write(true).open(PATH)
    }
}

impl DevFuse {
    /// Looks for a request without sleeping; `None` when none came or others look.
    fn look(&self, buf: &mut [u8], rests: &mut Rests) -> Option<io::Result<usize>> {
        let lookers = self.lookers.as_ref()?;
        lookers.look(rests, || self.read_at_once(buf))
    }

    /// A request that is there.
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

    fn read(&self, buf: &mut [u8], rests: &mut Rests) -> io::Result<usize> {
        if let Some(found) = self.look(buf, rests) {
            return found;
        }
        self.set_at_once(false)?;
        (&self.file).read(buf)
    }
}

impl DevFuse {
    /// Waits for a request and puts it in `buf`; answers its length, or `None` when the file
    /// system was unmounted.
    pub(crate) fn receive(&self, buf: &mut [u8], rests: &mut Rests) -> io::Result<Option<usize>> {
        loop {
            let error = match self.read(buf, rests) {
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

    /// Sends a finished answer or notification. An answer that nobody waits for any more is no
    /// error.
    pub(crate) fn send(&self, header: &AnswerHeader, body: &[u8]) -> io::Result<()> {
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

    /// Sends a finished answer that lies in a pipe.
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

    /// Another descriptor of the same mount, for another thread.
    pub(crate) fn another(&self) -> io::Result<Self> {
        let file = match Self::open() {
            // Where only the helper may open the device, threads share its descriptor.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                // Who reads at once would make the others' reads return at once, too.
                self.never_look()?;
                return Ok(Self::with(self.file.try_clone()?, None));
            }
            opened => opened?,
        };
        let mut from = self.file.as_raw_fd() as u32;
        // SAFETY: the ioctl reads one u32 from the pointer, which lives until it returns; both
        // descriptors are open.
        #[allow(unsafe_code)]
        let done = unsafe { libc::ioctl(file.as_raw_fd(), CLONE as _, &raw mut from) };
        if done < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self::with(file, self.lookers.clone()))
    }

    /// From now on all threads of the mount sleep at once.
    pub(crate) fn never_look(&self) -> io::Result<()> {
        if let Some(lookers) = &self.lookers {
            lookers.never();
        }
        self.set_at_once(false)
    }
}

/// What became of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// The kernel has it.
    Taken,
    /// Nobody waits for it any more; what was sent may still lie in its pipe.
    Unwanted,
}

/// Whether an answer was refused since nobody waits for it.
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

/// Bytes of a request besides the data of a write.
const REQUEST_MORE_BYTES: usize = 8192;

/// A buffer for any request.
pub(crate) fn request_buffer() -> Vec<u8> {
    vec![0; REQUEST_MORE_BYTES + WRITE_BYTES_MAX as usize]
}

/// How long a reader lets what nobody waits for gather.
const GATHER: Duration = Duration::from_millis(1);

/// What comes through the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Brings {
    /// Every request.
    All,
    /// What rings do not bring. Each removed file is forgotten with a request that nobody waits
    /// for, and waking a reader costs its caller more than the rest of the removal: so the reader
    /// comes for many at once.
    Rest,
}

/// A thread's way through `/dev/fuse`.
pub(crate) struct Reader {
    device: Arc<DevFuse>,
    brings: Brings,
    rests: Rests,
    answer: Answer<'static>,
}

impl Reader {
    /// A way through a descriptor of its own.
    pub(crate) fn new(device: DevFuse, brings: Brings) -> Self {
        let device = Arc::new(device);
        let splicer = Splicer::new(device.clone());
        Self {
            device,
            brings,
            rests: Rests::default(),
            answer: Answer::new(WRITE_BYTES_MAX as usize).with_shortcut(Box::new(splicer)),
        }
    }

    fn serve_one(&mut self, bytes: &[u8], service: &Service) -> io::Result<()> {
        let request = Request::parse(bytes).ok_or(Errno::EPROTO)?;
        let (pace, _pass) = service.server.admit(&request);
        match pace {
            Pace::Halted | Pace::Asks | Pace::MayAsk | Pace::Waits => {
                Away::new(bytes, &self.device, service).leave(pace);
            }
            Pace::Soon | Pace::Bulk | Pace::Awaited => answer(
                &self.device,
                &service.server,
                &request,
                pace,
                &mut self.answer,
            )?,
        }
        Ok(())
    }
}

/// A request that leaves the thread that read it.
struct Away {
    bytes: Vec<u8>,
    device: Arc<DevFuse>,
    service: Service,
}

impl Away {
    fn new(bytes: &[u8], device: &Arc<DevFuse>, service: &Service) -> Self {
        Self {
            bytes: bytes.to_vec(),
            device: device.clone(),
            service: service.clone(),
        }
    }

    /// Parks it, or leaves it to the pool for its pace.
    fn leave(self, pace: Pace) {
        let service = self.service.clone();
        let pool = match pace {
            Pace::Halted => return service.server.halt().park(move || self.come_back()),
            Pace::Asks | Pace::MayAsk => &service.askers,
            Pace::Waits => &service.waiters,
            Pace::Soon | Pace::Bulk | Pace::Awaited => &service.copiers,
        };
        pool.leave(Box::new(move || self.serve()));
    }

    /// It was parked.
    fn come_back(self) {
        if let Some(request) = Request::parse(&self.bytes) {
            let pace = self.service.server.admit(&request).0;
            self.leave(pace);
        }
    }

    fn serve(self) {
        let Some(request) = Request::parse(&self.bytes) else {
            return;
        };
        let (pace, pass) = self.service.server.admit(&request);
        if pace == Pace::Halted {
            drop(pass);
            return self.leave(pace);
        }
        // The threads that read the device learn of its failure.
        let _ = answer(
            &self.device,
            &self.service.server,
            &request,
            pace,
            &mut Answer::new(64),
        );
    }
}

fn answer(
    device: &DevFuse,
    server: &Server,
    request: &Request<'_>,
    pace: Pace,
    answer: &mut Answer,
) -> io::Result<()> {
    answer.clear();
    let Outcome::Answer(done) = server.handle(request, pace, answer) else {
        return Ok(());
    };
    if answer.is_sent() {
        return Ok(());
    }
    let header = answer.finish(request.unique, done);
    device.send(&header, answer.body()).or_else(|_| {
        // The kernel did not like it; its caller must not wait forever.
        let header = answer.finish(request.unique, Err(Errno::EIO));
        device.send(&header, answer.body())
    })
}

impl Transport for Reader {
    fn serve(&mut self, service: &Service) -> io::Result<Ended> {
        let mut buf = request_buffer();
        while let Some(len) = self.device.receive(&mut buf, &mut self.rests)? {
            self.serve_one(&buf[..len], service)?;
            if self.brings == Brings::Rest {
                std::thread::sleep(GATHER);
            }
        }
        Ok(Ended::Disconnected)
    }
}
