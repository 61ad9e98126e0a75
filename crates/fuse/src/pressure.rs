//! Memory-pressure handling: shrinks the caches of the file system, and returns the memory.
//!
//! A thread sleeps in `poll` on a PSI trigger of its control group, or of the whole system if the
//! group has none. When tasks have waited for memory, it asks the file system to drop part of its
//! caches. Without PSI the caches are bounded by their budgets alone.
//! References: kernel doc `accounting/psi.rst`.

use crate::server::Server;
use crate::worker_pool::AbortOnPanic;
use rustix::event::{PollFd, PollFlags, poll};
use std::fs::{self, File, OpenOptions};
use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use uext4_sync::Arc;
use uext4_sync::thread::{self, JoinHandle};

/// Some task waited for 100 ms within 2 s. Shorter windows need the superuser.
const TRIGGER: &[u8] = b"some 100000 2000000\0";
/// Mount points of cgroup v2, alone or beside v1.
const GROUP_ROOTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
const SYSTEM: &str = "/proc/pressure/memory";

/// Thread that waits for memory pressure.
pub(crate) struct Pressure {
    /// Closing it stops the thread.
    stop: PipeWriter,
    thread: JoinHandle<()>,
}

impl Pressure {
    /// Watches for `server`; `None` if the kernel has no PSI.
    pub(crate) fn watch(server: Arc<Server>) -> Option<Self> {
        let source = files().into_iter().find_map(|path| arm(&path).ok())?;
        Self::start(source, move || {
            server.filesystem().reclaim_memory();
            give_back();
        })
        .ok()
    }

    fn start(
        source: impl AsFd + Send + 'static,
        relieve: impl Fn() + Send + 'static,
    ) -> io::Result<Self> {
        let (stopped, stop) = io::pipe()?;
        let thread = thread::Builder::new()
            .name("uext4-pressure".into())
            .spawn(move || {
                let _guard = AbortOnPanic;
                relieve_until(&stopped, &source, relieve);
            })?;
        Ok(Self { stop, thread })
    }

    pub(crate) fn stop(self) {
        drop(self.stop);
        // A panic of the thread aborts the process.
        let _ = self.thread.join();
    }
}

/// Relieves memory on each event. The kernel sends at most one per window, so no rate limit is
/// needed. Returns when the other end of `stopped` is closed or the control group is gone.
fn relieve_until(stopped: &PipeReader, source: &impl AsFd, relieve: impl Fn()) {
    loop {
        let mut fds = [
            PollFd::new(source, PollFlags::PRI),
            PollFd::new(stopped, PollFlags::IN),
        ];
        match poll(&mut fds, None) {
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return,
            Ok(_) => {}
        }
        let told = fds[0].revents();
        if !fds[1].revents().is_empty() || told.intersects(PollFlags::ERR | PollFlags::NVAL) {
            return;
        }
        relieve();
    }
}

/// Candidate files of memory pressure, the nearest group first.
pub(crate) fn files() -> Vec<PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = groups.lines().find_map(|line| line.strip_prefix("0::/"));
    let of_group = GROUP_ROOTS
        .iter()
        .filter_map(|root| Some(PathBuf::from(root).join(group?).join("memory.pressure")));
    of_group.chain([PathBuf::from(SYSTEM)]).collect()
}

/// Returns freed memory to the system. glibc keeps pages between objects that are in use.
#[cfg(target_env = "gnu")]
#[allow(unsafe_code)]
fn give_back() {
    // SAFETY: it locks each heap that it trims, and takes no pointer.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(target_env = "gnu"))]
fn give_back() {}

fn arm(path: &PathBuf) -> io::Result<File> {
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    file.write_all(TRIGGER)?;
    Ok(file)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use rustix::net::{RecvFlags, SendFlags, recv, send};
    use std::net::{TcpListener, TcpStream};
    use std::sync::mpsc;

    /// Urgent data of a TCP stream raise the same `poll` event as pressure.
    pub(crate) struct Wire {
        sender: TcpStream,
        source: TcpStream,
    }

    impl Wire {
        pub(crate) fn new() -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").expect("listens");
            let address = listener.local_addr().expect("bound");
            let sender = TcpStream::connect(address).expect("connects");
            let (source, _) = listener.accept().expect("accepts");
            Self { sender, source }
        }

        /// Presses twice: memory is relieved both times, and not after the end.
        pub(crate) fn press(self) {
            let (relieved, seen) = mpsc::channel();
            let source_again = self.source.try_clone().expect("clones");
            let relieve = move || {
                // Consumes the urgent byte, because the kernel's file reports an event once.
                let _ = recv(&source_again, &mut [0], RecvFlags::OOB);
                relieved.send(()).expect("is heard");
            };
            let pressure = Pressure::start(self.source, relieve).expect("starts");
            for _ in 0..2 {
                send(&self.sender, b"!", SendFlags::OOB).expect("sends");
                seen.recv().expect("is relieved");
            }
            pressure.stop();
            assert!(seen.recv().is_err(), "the thread ended");
        }
    }

    #[test]
    fn pressure_is_answered_until_the_mount_ends() {
        Wire::new().press();
    }

    #[test]
    fn the_system_is_asked_when_no_group_tells() {
        assert_eq!(files().last(), Some(&PathBuf::from(SYSTEM)));
        if let Ok(armed) = arm(&PathBuf::from(SYSTEM)) {
            let mut fds = [PollFd::new(&armed, PollFlags::PRI)];
            poll(&mut fds, Some(&rustix::event::Timespec::default())).expect("polls");
            assert!(!fds[0].revents().contains(PollFlags::ERR), "not armed");
        }
    }
}
