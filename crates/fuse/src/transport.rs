//! How requests come and answers go: over rings that the kernel and we share (`uring`), one per
//! core, or through `/dev/fuse` (`dev_fuse`). The server knows neither.
//!
//! With rings `/dev/fuse` still brings what the kernel sends no other way (`FORGET`, `INTERRUPT`)
//! and takes notifications, so one thread reads it.

mod dev_fuse;
mod look;
mod splice;
mod uring;

pub(crate) use dev_fuse::{Brings, DevFuse, Reader, Rests, request_buffer};
pub(crate) use uring::Rings;

use crate::aside::Helpers;
use crate::options::Channel;
use crate::server::Server;
use std::io;
use std::sync::Arc;

/// A way from the kernel and back, for one thread. An answer goes the way that its request came.
pub(crate) trait Transport: Send {
    /// Brings requests to the server until the file system is unmounted.
    ///
    /// # Errors
    /// Why it brings none any more although the kernel sends some: those hang.
    fn serve(&mut self, service: &Service) -> io::Result<Ended>;
}

/// Why a transport brings no more requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The connection to the kernel is gone.
    Disconnected,
    /// The kernel never used it.
    Unused,
}

/// The server and its pools of threads.
///
/// Invariants: only requests of `askers` wait for other requests. A job of another pool ends by
/// itself, so what may be needed by an asker goes to no pool of askers.
#[derive(Clone)]
pub(crate) struct Service {
    pub(crate) server: Arc<Server>,
    /// Serve requests that wait for other requests.
    pub(crate) askers: Arc<Helpers>,
    /// Serve requests that wait for a commit.
    pub(crate) waiters: Arc<Helpers>,
    /// Copy much data, and serve changes that waited for a thaw.
    pub(crate) copiers: Arc<Helpers>,
}

/// Most bytes that one read shall ask for in a mount whose requests come by `channel`, `None` for
/// as many as the kernel likes. The kernel wants to know before it offers rings.
pub(crate) fn read_bytes_max(channel: Channel) -> Option<u32> {
    let over_rings = match channel {
        Channel::DevFuse => false,
        Channel::IoUring => true,
        Channel::Best => uring::is_offered(),
    };
    (!over_rings).then_some(splice::SPLICED_BYTES_MAX)
}
