//! SIGTERM, SIGINT and SIGHUP: a handler writes to a pipe; a thread reads it and acts
//! ([`crate::stopper`]).

use crate::error::{Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, Read};
use std::os::fd::{IntoRawFd, RawFd};
use std::time::Duration;
use uext4_sync::atomic::{AtomicI32, Ordering};

/// Writing end of the pipe, for the handler.
static PIPE: AtomicI32 = AtomicI32::new(-1);

/// Signals that end a mount.
pub(crate) const SIGNALS: [libc::c_int; 3] = [libc::SIGTERM, libc::SIGINT, libc::SIGHUP];

/// Raises the limit of file sizes as far as this process may, and ignores `SIGXFSZ`. A write of
/// an image behind the limit fails with `EFBIG` then, in place of the end of the server.
pub(crate) fn survive_file_size_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let old = getrlimit(Resource::Fsize);
    let most = Rlimit {
        current: None,
        maximum: None,
    };
    if old.current.is_some() && setrlimit(Resource::Fsize, most).is_err() {
        // The hard limit is below the image's need, or not; no process may raise it without rights.
        let soft = Rlimit {
            current: old.maximum,
            maximum: old.maximum,
        };
        let _ = setrlimit(Resource::Fsize, soft);
    }
    // SAFETY: no handler is installed.
    #[allow(unsafe_code)]
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

/// Caught signals that no thread handles yet.
pub(crate) struct Caught(io::PipeReader);

pub(crate) fn failed() -> impl FnOnce(io::Error) -> Error {
    Error::system("wait for signals", "pipe")
}

/// Installs the handlers. Called before the mount is visible, so that no signal kills the process
/// in between.
pub(crate) fn catch() -> Result<Caught> {
    let (reader, writer) = io::pipe().map_err(failed())?;
    PIPE.store(writer.into_raw_fd(), Ordering::SeqCst);
    for signal in SIGNALS {
        install(signal).map_err(failed())?;
    }
    Ok(Caught(reader))
}

impl Caught {
    /// Waits for the next signal.
    pub(crate) fn comes_within(&mut self, limit: Option<Duration>) -> bool {
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        let mut ready = [PollFd::new(&self.0, PollFlags::IN)];
        let came = loop {
            match poll(&mut ready, limit.as_ref()) {
                Err(rustix::io::Errno::INTR) => {}
                polled => break polled.is_ok_and(|n_ready| n_ready > 0),
            }
        };
        came && self.0.read_exact(&mut [0]).is_ok()
    }
}

/// A handler in the type of `sigaction(2)`.
#[expect(clippy::as_conversions, reason = "the address of a function")]
pub(crate) fn handler(function: extern "C" fn(libc::c_int)) -> libc::sighandler_t {
    function as libc::sighandler_t
}

#[allow(unsafe_code)]
fn install(signal: libc::c_int) -> io::Result<()> {
    // SAFETY: the structure is zeroed, which is a valid value; the handler is an `extern "C"`
    // function that makes only calls that are allowed in handlers.
    let done = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler(write_to_pipe);
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(signal, &action, std::ptr::null_mut())
    };
    if done == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[allow(unsafe_code)]
extern "C" fn write_to_pipe(_signal: libc::c_int) {
    let fd: RawFd = PIPE.load(Ordering::SeqCst);
    let byte = [0u8];
    // SAFETY: write(2) is allowed in handlers; the byte lives until it returns; the descriptor is
    // never closed. errno is restored for the interrupted code.
    unsafe {
        let errno = *libc::__errno_location();
        libc::write(fd, byte.as_ptr().cast(), 1);
        *libc::__errno_location() = errno;
    }
}
