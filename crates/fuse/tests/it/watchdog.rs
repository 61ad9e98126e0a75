//! Watchdog that ends a hanging mount, so that a waiting test fails instead of hanging.

use crate::support::Mounted;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Long enough for a busy machine; a hang never ends.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Watches one mount until it is dropped. After [`LIMIT`] it aborts the connection, which ends
/// every waiting call, and kills the server.
pub(crate) struct Watchdog {
    /// Dropping the sender cancels the watchdog.
    off: Option<Sender<()>>,
    thread: Option<JoinHandle<bool>>,
}

impl Watchdog {
    /// Watches the current mount.
    pub(crate) fn over(mounted: &mut Mounted) -> Self {
        let (root, server) = (mounted.root(), mounted.server().id());
        let connection = connection(&root);
        let (off, called_off) = channel();
        let thread = std::thread::spawn(move || match called_off.recv_timeout(LIMIT) {
            Err(RecvTimeoutError::Timeout) => {
                end(&root, server, connection);
                true
            }
            _ => false,
        });
        Self {
            off: Some(off),
            thread: Some(thread),
        }
    }

    /// Cancels the watchdog; returns whether it had to end the mount.
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

/// Directory of FUSE connections; each has a file `abort`.
const CONNECTIONS: &str = "/sys/fs/fuse/connections";

/// Number of the connection of a mount: its anonymous device.
fn connection(root: &Path) -> Option<u64> {
    if !Path::new(CONNECTIONS).join("..").exists() {
        return None;
    }
    if std::fs::read_dir(CONNECTIONS).is_ok_and(|mut dir| dir.next().is_none()) {
        // Tests without privileges abort by `umount2` only.
        let _ = mount("none", CONNECTIONS, "fusectl", MountFlags::empty(), None);
    }
    let device = std::fs::metadata(root).ok()?.dev();
    Some(u64::from(rustix::fs::minor(device)))
}

fn end(root: &Path, server: u32, connection: Option<u64>) {
    eprintln!(
        "=== {} hangs: its connection is aborted ===",
        root.display()
    );
    // Works while the mount is attached. Busy after the abort, which has done its work.
    let _ = unmount(root, UnmountFlags::FORCE | UnmountFlags::DETACH);
    if let Some(number) = connection {
        // A detached mount has no path. The connection may be gone by now.
        let _ = std::fs::write(format!("{CONNECTIONS}/{number}/abort"), "1");
    }
    let server = i32::try_from(server)
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    if let Some(server) = server {
        let _ = rustix::process::kill_process(server, rustix::process::Signal::KILL);
    }
}
