//! Transport of one thread through `/dev/fuse`.
//!
//! Requests that wait for others, or for a commit, go to the pool of their class.

use super::dev_fuse::{DevFuse, request_buffer};
use super::polling::SkippedPolls;
use super::service::{Ended, Service, Transport};
use super::splice::Splicer;
use crate::errno::Errno;
use crate::init::WRITE_BYTES_MAX;
use crate::reply::Reply;
use crate::request::Request;
use crate::server::{Outcome, RequestClass, Server};
use std::io;
use std::time::Duration;
use uext4_num::usize_of;
use uext4_sync::Arc;

/// How long a reader lets `FORGET` requests accumulate.
const GATHER: Duration = Duration::from_millis(1);

/// Which requests the device delivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Brings {
    /// Every request: there are no rings.
    All,
    /// The requests that rings do not deliver. Each removed file sends a `FORGET`, and waking a
    /// reader costs the caller more than the rest of the removal. The reader therefore takes many
    /// at a time.
    Rest,
}

/// Transport of one thread through `/dev/fuse`.
pub(crate) struct Reader {
    device: Arc<DevFuse>,
    brings: Brings,
    skipped: SkippedPolls,
    reply: Reply<'static>,
}

impl Reader {
    /// A transport over a descriptor of its own.
    pub(crate) fn new(device: DevFuse, brings: Brings) -> Self {
        let device = Arc::new(device);
        let splicer = Splicer::new(device.clone());
        Self {
            device,
            brings,
            skipped: SkippedPolls::default(),
            reply: Reply::new(usize_of(WRITE_BYTES_MAX)).with_shortcut(Box::new(splicer)),
        }
    }

    fn serve_one(&mut self, bytes: &[u8], service: &Service) -> io::Result<()> {
        let request = Request::parse(bytes).ok_or(Errno::EPROTO)?;
        let (class, _pass) = service.server.admit(&request);
        match class {
            RequestClass::Frozen
            | RequestClass::NeedsWriteback
            | RequestClass::WantsWriteback
            | RequestClass::Waits => {
                Away::new(bytes, &self.device, service).leave(class);
            }
            RequestClass::Soon | RequestClass::Bulk | RequestClass::Awaited => {
                reply(&self.device, &service.server, &request, &mut self.reply)?
            }
        }
        Ok(())
    }
}

/// A request that moves to another thread.
struct Away {
    bytes: Vec<u8>,
    device: Arc<DevFuse>,
    service: Service,
}

impl Away {
    fn new(bytes: &[u8], device: &Arc<DevFuse>, service: &Service) -> Self {
        Self {
            bytes: bytes.to_vec(),
            device: device.clone(),
            service: service.clone(),
        }
    }

    /// Parks the request, or gives it to the pool of its class (`RequestClass`).
    fn leave(self, class: RequestClass) {
        let service = self.service.clone();
        let pool = match class {
            RequestClass::Frozen => {
                return service.server.freeze_gate().park(move || self.come_back());
            }
            RequestClass::NeedsWriteback | RequestClass::WantsWriteback => &service.writeback_pool,
            RequestClass::Waits => &service.waiters,
            RequestClass::Soon | RequestClass::Bulk | RequestClass::Awaited => &service.copiers,
        };
        pool.leave(Box::new(move || self.serve(class)));
    }

    /// Resumes a parked request after a thaw.
    fn come_back(self) {
        if let Some(request) = Request::parse(&self.bytes) {
            let class = self.service.server.admit(&request).0;
            self.leave(class);
        }
    }

    fn serve(self, class: RequestClass) {
        let Some(request) = Request::parse(&self.bytes) else {
            return;
        };
        self.service.server.fetch_for(&request, class);
        let (class, pass) = self.service.server.admit(&request);
        if class == RequestClass::Frozen {
            drop(pass);
            return self.leave(class);
        }
        // The threads that read the device see its failure.
        let _ = reply(
            &self.device,
            &self.service.server,
            &request,
            &mut Reply::new(64),
        );
    }
}

fn reply(
    device: &DevFuse,
    server: &Server,
    request: &Request<'_>,
    reply: &mut Reply,
) -> io::Result<()> {
    reply.clear();
    let Outcome::Reply(done) = server.handle(request, reply) else {
        return Ok(());
    };
    if reply.is_sent() {
        return Ok(());
    }
    let header = reply.finish(request.unique, done);
    device.send(&header, reply.body()).or_else(|_| {
        // The kernel rejected the reply; its caller gets an error instead of hanging.
        let header = reply.finish(request.unique, Err(Errno::EIO));
        device.send(&header, reply.body())
    })
}

impl Transport for Reader {
    fn serve(&mut self, service: &Service) -> io::Result<Ended> {
        let mut buf = request_buffer();
        while let Some(len) = self.device.receive(&mut buf, &mut self.skipped)? {
            self.serve_one(&buf[..len], service)?;
            if self.brings == Brings::Rest {
                uext4_sync::thread::sleep(GATHER);
            }
        }
        Ok(Ended::Disconnected)
    }
}
