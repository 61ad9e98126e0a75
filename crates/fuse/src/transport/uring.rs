//! FUSE over io_uring (Linux 6.14). The kernel writes a request into memory of the server; one
//! system call commits a reply and fetches the next request. Each core has a queue, and its
//! thread stays on that core, so a request is served without waking another core. During large
//! transfers the thread may run on any core.
//!
//! Layout: `cpus` assigns the queues to threads; `entry` is the memory of one request; `ring` is
//! the ring of completions (all `unsafe` is there); `queue` is the thread of a ring.
//! Invariants: the kernel uses the rings once every queue has an entry, including queues of absent
//! cores. If the rings fail after the kernel agreed to use them, it returns to `/dev/fuse`.
//! References: `Documentation/filesystems/fuse/fuse-io-uring.rst`, `linux/fuse.h`.

mod cpus;
mod entry;
mod queue;
mod ring;

use super::dev_fuse::DevFuse;
use super::polling::BusyPolling;
use queue::Queue;
use ring::Ring;
use std::io;
use uext4_sync::Arc;
use uext4_sync::mpsc::{Receiver, channel};

/// The rings of a mount, ready to be registered by their threads.
pub(crate) struct Rings {
    /// One queue per thread.
    pub(crate) queues: Vec<Queue>,
    /// Reports the start of each thread.
    pub(crate) starts: StartReports,
}

/// Start reports of the ring threads.
pub(crate) struct StartReports(Receiver<io::Result<()>>);

impl Rings {
    /// Makes rings for `n_threads` threads; 0 means one per core. Nothing is registered yet.
    ///
    /// # Errors
    /// The process cannot have rings.
    pub(crate) fn prepare(device: &DevFuse, n_threads: usize) -> io::Result<Self> {
        let (sender, starts) = channel();
        let polling = Arc::<BusyPolling>::default();
        let shares = cpus::shares(n_threads)?;
        let n_rings = shares.len();
        let queues = shares
            .into_iter()
            .map(|share| {
                let ring = Ring::new(device.another()?, polling.clone())?;
                Queue::new(ring, n_rings, share, sender.clone())
            })
            .collect::<io::Result<_>>()?;
        let starts = StartReports(starts);
        Ok(Self { queues, starts })
    }
}

impl StartReports {
    /// Waits until all threads have registered their queues.
    ///
    /// # Errors
    /// The first failed registration; the kernel then works without rings.
    pub(crate) fn wait(self) -> io::Result<()> {
        self.0.iter().collect()
    }
}
