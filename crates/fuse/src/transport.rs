//! Transports of requests and replies: per-core io_uring queues (`uring`) or `/dev/fuse`
//! (`dev_fuse`). The server depends on neither.
//!
//! With rings, `/dev/fuse` still delivers `FORGET` and `INTERRUPT` and takes notifications, so one
//! thread reads it.

mod dev_fuse;
mod polling;
mod reader;
mod service;
mod splice;
mod uring;

pub(crate) use dev_fuse::{DevFuse, request_buffer};
pub(crate) use polling::SkippedPolls;
pub(crate) use reader::{Brings, Reader};
pub(crate) use service::{Ended, Service, Transport};
pub(crate) use uring::Rings;

use crate::options::Channel;
use crate::rings_hint;

/// Maximum bytes of one read in a mount that uses `channel`; `None` leaves it to the kernel. The
/// kernel needs the limit before it offers rings.
pub(crate) fn read_bytes_max(channel: Channel) -> Option<u32> {
    let over_rings = match channel {
        Channel::DevFuse => false,
        Channel::IoUring => true,
        Channel::Best => rings_hint::is_offered(),
    };
    (!over_rings).then_some(splice::SPLICED_BYTES_MAX)
}
