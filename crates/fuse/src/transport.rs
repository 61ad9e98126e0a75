//! Transports of requests and replies: per-core io_uring queues (`uring`) or `/dev/fuse`
//! (`dev_fuse`). The server depends on neither.
//!
//! With rings, `/dev/fuse` still delivers `FORGET` and `INTERRUPT` and takes notifications, so one
//! thread reads it.

mod dev_fuse;
mod polling;
mod splice;
mod uring;

pub(crate) use dev_fuse::{Brings, DevFuse, Reader, SkippedPolls, request_buffer};
pub(crate) use uring::Rings;

use crate::options::Channel;
use crate::server::Server;
use crate::worker_pool::WorkerPool;
use std::io;
use uext4_sync::Arc;

/// Request channel of one thread. A reply leaves through the channel of its request.
pub(crate) trait Transport: Send {
    /// Passes requests to the server until the file system is unmounted.
    ///
    /// # Errors
    /// Reading failed although the connection lives; pending requests hang.
    fn serve(&mut self, service: &Service) -> io::Result<Ended>;
}

/// Why a transport stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The connection to the kernel is gone.
    Disconnected,
    /// The kernel never used the transport.
    Unused,
}

/// The server and its thread pools.
///
/// Invariants: only requests of `askers` wait for other requests. A job of another pool ends by
/// itself, so a request that an asker may need never goes to a pool of askers.
#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) server: Arc<Server>,
    /// Serves requests that wait for other requests.
    pub(crate) askers: Arc<WorkerPool>,
    /// Serves requests that wait for a commit.
    pub(crate) waiters: Arc<WorkerPool>,
    /// Copies large data, and serves changes that waited for a thaw.
    pub(crate) copiers: Arc<WorkerPool>,
}

/// Maximum bytes of one read in a mount that uses `channel`; `None` leaves it to the kernel. The
/// kernel needs the limit before it offers rings.
pub(crate) fn read_bytes_max(channel: Channel) -> Option<u32> {
    let over_rings = match channel {
        Channel::DevFuse => false,
        Channel::IoUring => true,
        Channel::Best => uring::is_offered(),
    };
    (!over_rings).then_some(splice::SPLICED_BYTES_MAX)
}
