//! Ends a mount that hangs, so that a test which waits for it fails instead of waiting for ever.

use crate::support::Mounted;
use rustix::mount::{UnmountFlags, unmount};
use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Long enough for a busy machine; a hang takes for ever.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Watches one mount until it is dropped. When [`LIMIT`] is over it aborts the connection, which
/// ends every call that waits, and kills the server.
pub(crate) struct Watchdog {
    /// Dropping it calls the watchdog off.
    off: Option<Sender<()>>,
    thread: Option<JoinHandle<bool>>,
}

impl Watchdog {
    /// Watches what is mounted now.
    pub(crate) fn over(mounted: &mut Mounted) -> Self {
        Self::with_limit(mounted, LIMIT)
    }

    /// As [`Self::over`], with another limit.
    pub(crate) fn with_limit(mounted: &mut Mounted, limit: Duration) -> Self {
        let (root, server) = (mounted.root(), mounted.server().id());
        let (off, called_off) = channel();
        let thread = std::thread::spawn(move || match called_off.recv_timeout(limit) {
            Err(RecvTimeoutError::Timeout) => {
                end(&root, server);
                true
            }
            _ => false,
        });
        Self {
            off: Some(off),
            thread: Some(thread),
        }
    }

    /// Calls it off; whether it had to end the mount.
    pub(crate) fn has_bitten(&mut self) -> bool {
        drop(self.off.take());
        let thread = self.thread.take();
        thread.is_some_and(|thread| thread.join().expect("it does not panic"))
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        let hung = self.has_bitten();
        assert!(!hung || std::thread::panicking(), "the mount hung");
    }
}

fn end(root: &PathBuf, server: u32) {
    eprintln!(
        "=== {} hangs: its connection is aborted ===",
        root.display()
    );
    // Busy after the abort, which is what counts.
    let _ = unmount(root, UnmountFlags::FORCE | UnmountFlags::DETACH);
    let server = i32::try_from(server)
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    if let Some(server) = server {
        let _ = rustix::process::kill_process(server, rustix::process::Signal::KILL);
    }
}
