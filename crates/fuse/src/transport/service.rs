//! What a transport is, and the server and thread pools that it passes requests to.

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The connection to the kernel is gone.
    Disconnected,
    /// The kernel never used the transport.
    Unused,
}

/// The server and its thread pools.
///
/// Invariants: only requests of `writeback_pool` wait for other requests. A job of another pool
/// ends by itself, so the requests that one of them waits for go to other pools.
#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) server: Arc<Server>,
    /// Serves requests that wait for other requests.
    pub(crate) writeback_pool: Arc<WorkerPool>,
    /// Serves requests that wait for a commit.
    pub(crate) waiters: Arc<WorkerPool>,
    /// Copies large data, and serves changes that waited for a thaw.
    pub(crate) copiers: Arc<WorkerPool>,
}
