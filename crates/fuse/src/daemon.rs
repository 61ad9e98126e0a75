//! Server process and its readiness report to the parent.
//!
//! Layout: a ready child writes one zero byte. A child that fails writes a nonzero status and an
//! error text, and exits.

use crate::error::{Error, Explained, Result};
use std::fs::File;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;

/// Status of a ready child.
const READY: u8 = 0;

/// Which process of a fork returned.
pub(crate) enum Side {
    /// The calling process, with its handle of the server.
    Parent(Child),
    /// The server, with its handle of the caller.
    Child(Parent),
}

/// Parent's handle of the server.
pub(crate) struct Child(PipeReader);

/// Server's handle of its parent.
pub(crate) struct Parent(PipeWriter);

/// Forks the server process. The caller must have no other threads.
#[allow(unsafe_code)]
pub(crate) fn fork() -> Result<Side> {
    let failed = || Error::system("start", "the server process");
    let (reader, writer) = std::io::pipe().map_err(failed())?;
    // SAFETY: the caller has one thread only (as `mount` demands), so that the child is a whole
    // process: no lock is held by a thread that does not exist there.
    let pid = unsafe { libc::fork() };
    match pid {
        -1 => Err(failed()(std::io::Error::last_os_error())),
        0 => {
            drop(reader);
            Ok(Side::Child(Parent(writer)))
        }
        _ => Ok(Side::Parent(Child(reader))),
    }
}

impl Child {
    /// Waits until the mount is ready.
    pub(crate) fn wait_ready(mut self) -> Result<()> {
        let mut first = [READY];
        // The server keeps its end of the pipe, so end of file means that it died.
        match self.0.read(&mut first) {
            Ok(1) if first == [READY] => Ok(()),
            Ok(1) => Err(Error::Server {
                said: self.rest(),
                status: first[0],
            }),
            _ => Err(Error::ServerDied),
        }
    }

    fn rest(mut self) -> String {
        let mut said = Vec::new();
        // A partial text is better than none.
        let _ = self.0.read_to_end(&mut said);
        String::from_utf8_lossy(&said).into_owned()
    }
}

impl Parent {
    /// Runs the server, reports its start to the parent, and exits.
    pub(crate) fn finish(
        self,
        serve: impl FnOnce(Box<dyn FnOnce()>) -> Result<()>,
        explain: impl FnOnce(&Error) -> Explained,
    ) -> ! {
        // Detaches from the parent's session. This fails for a group leader only, which a fresh
        // child is not.
        let _ = rustix::process::setsid();
        let Self(mut pipe) = self;
        let told = pipe.try_clone();
        // Opened early: no descriptor may be left later.
        let null = nowhere();
        let served = serve(Box::new(move || {
            leave_terminal(null);
            let _ = pipe.write_all(&[READY]);
        }));
        let code = match served {
            Ok(()) => 0,
            Err(error) => {
                // Before readiness the parent reads this. Later no process does, and the claim
                // holds the error for `umount`.
                let Explained { status, text } = explain(&error);
                let said = [&[status.max(1)], text.as_bytes()].concat();
                let _ = told.and_then(|mut pipe| pipe.write_all(&said));
                1
            }
        };
        std::process::exit(code)
    }
}

/// What the standard streams are replaced by.
pub(crate) fn nowhere() -> Option<File> {
    let opened = File::options().read(true).write(true).open("/dev/null");
    opened.ok()
}

/// Redirects the standard streams to `null`, if there is one.
#[allow(unsafe_code)]
pub(crate) fn leave_terminal(null: Option<File>) {
    let Some(null) = null else {
        return;
    };
    for standard in 0..=2 {
        // SAFETY: dup2 replaces descriptors 0 to 2, which belong to the standard streams; those
        // stay usable and go nowhere.
        unsafe { libc::dup2(null.as_raw_fd(), standard) };
    }
}
