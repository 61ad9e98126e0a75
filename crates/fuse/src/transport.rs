//! How requests come and answers go: over rings that the kernel and we share (`uring`), one per
//! core, or through `/dev/fuse` (`dev_fuse`). The server knows neither.
//!
//! With rings `/dev/fuse` still brings what the kernel sends no other way (`FORGET`, `INTERRUPT`)
//! and takes notifications, so one thread reads it.

mod dev_fuse;
mod front;
mod look;
mod splice;
mod uring;

pub(crate) use dev_fuse::{Brings, DevFuse, Reader, Watch, request_buffer};
pub(crate) use front::Seat;
pub(crate) use uring::Rings;

use crate::aside::Helpers;
use crate::options::Channel;
use crate::server::Server;
use std::io;
use std::sync::Arc;

/// A way from the kernel and back, for one thread. An answer goes the way that its request came.
pub(crate) trait Transport: Send {
    /// Brings requests to the server until the file system is unmounted.
    fn serve(&mut self, service: &Service) -> io::Result<()>;
}

/// Who does what the requests ask.
#[derive(Clone)]
pub(crate) struct Service {
    /// Knows how.
    pub(crate) server: Arc<Server>,
    /// Do what waits.
    pub(crate) helpers: Arc<Helpers>,
    /// Copy much data.
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
