//! A server process of its own, and how its parent learns that the mount is ready.
//!
//! Layout: the child writes one zero byte when it is ready; or a status that is not zero and the
//! text of what went wrong, and ends.

use crate::error::{Error, Explained, Result};
use std::fs::File;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;

/// What the child writes when the mount is ready.
const READY: u8 = 0;

/// Which process this is.
pub(crate) enum Side {
    /// The one that called.
    Parent(Child),
    /// The server.
    Child(Parent),
}

/// The server, for its parent.
pub(crate) struct Child(PipeReader);

/// The parent, for the server.
pub(crate) struct Parent(PipeWriter);

/// Makes the server process. The caller must not have other threads.
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
        // The server keeps its end of the pipe, so the end of the file comes only without it.
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
        // What came until an error is better than nothing.
        let _ = self.0.read_to_end(&mut said);
        String::from_utf8_lossy(&said).into_owned()
    }
}

impl Parent {
    /// Runs the server, tells the parent how it started, and ends the process.
    pub(crate) fn finish(
        self,
        serve: impl FnOnce(Box<dyn FnOnce()>) -> Result<()>,
        explain: impl FnOnce(&Error) -> Explained,
    ) -> ! {
        // The parent's terminal and process group are not ours. It fails for a group leader only,
        // which a fresh child is not.
        let _ = rustix::process::setsid();
        let Self(mut pipe) = self;
        let told = pipe.try_clone();
        let ready = move || {
            leave_terminal();
            let _ = pipe.write_all(&[READY]);
        };
        let code = match serve(Box::new(ready)) {
            Ok(()) => 0,
            Err(error) => {
                // Before it is ready the parent reads this; after that nobody does, and the claim
                // has kept it for `umount`.
                let Explained { status, text } = explain(&error);
                let said = [&[status.max(1)], text.as_bytes()].concat();
                let _ = told.and_then(|mut pipe| pipe.write_all(&said));
                1
            }
        };
        std::process::exit(code)
    }
}

/// Leaves the terminal.
#[allow(unsafe_code)]
pub(crate) fn leave_terminal() {
    let Ok(null) = File::options().read(true).write(true).open("/dev/null") else {
        return;
    };
    for standard in 0..=2 {
        // SAFETY: dup2 replaces descriptors 0 to 2, which belong to the standard streams; those
        // stay usable and go nowhere.
        unsafe { libc::dup2(null.as_raw_fd(), standard) };
    }
}
