//! FUSE over io_uring (Linux 6.14): the kernel puts a request into memory of ours, and one call
//! gives an answer and takes the next request. There is a queue per core, and its thread stays on
//! that core: whoever asks is answered where it runs, without waking another core. Only while much
//! data come it goes where there is room.
//!
//! Layout: `cpus` deals the queues out; `entry` is the memory of one request; `ring` is the ring
//! that completions come from (all `unsafe` is there); `queue` is the thread of a ring.
//! Invariants: the kernel uses the rings once every queue has an entry, also those of cores that
//! are not there. When it has agreed to use them and they fail, it goes back to `/dev/fuse`.
//! References: `Documentation/filesystems/fuse/fuse-io-uring.rst`, `linux/fuse.h`.

mod cpus;
mod entry;
mod queue;
mod ring;

use super::DevFuse;
use super::look::Lookers;
use queue::Queue;
use ring::Ring;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

/// Says whether the kernel offers rings to mounts that are made now.
const PARAMETER: &str = "/sys/module/fuse/parameters/enable_uring";

pub(super) fn is_offered() -> bool {
    std::fs::read(PARAMETER).is_ok_and(|value| value.starts_with(b"Y"))
}

/// The rings of a mount, ready to be registered by their threads.
pub(crate) struct Rings {
    /// One per thread.
    pub(crate) queues: Vec<Queue>,
    /// Says how the threads began.
    pub(crate) told: Told,
}

/// What the threads of rings say.
pub(crate) struct Told(Receiver<io::Result<()>>);

impl Rings {
    /// Makes rings for `n_threads` threads, 0 for one per core. Nothing is registered yet.
    ///
    /// # Errors
    /// What keeps this process from having rings.
    pub(crate) fn prepare(device: &DevFuse, n_threads: usize) -> io::Result<Self> {
        let (teller, told) = channel();
        let lookers = Arc::<Lookers>::default();
        let queues = cpus::shares(n_threads)?
            .into_iter()
            .map(|share| {
                let ring = Ring::new(device.another()?, lookers.clone())?;
                Queue::new(ring, share, teller.clone())
            })
            .collect::<io::Result<_>>()?;
        let told = Told(told);
        Ok(Self { queues, told })
    }
}

impl Told {
    /// Waits until all threads have registered their queues.
    ///
    /// # Errors
    /// The first that could not; the kernel does without the rings then.
    pub(crate) fn wait(self) -> io::Result<()> {
        self.0.iter().collect()
    }
}
