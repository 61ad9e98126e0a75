//! Threads that serve a mount, from `FUSE_INIT` to the unmount.
//!
//! The rings exist before the kernel is told to use them, because it blocks all callers until they
//! are registered. If a registration fails after that, kernel and server return to `/dev/fuse`.

use crate::affinity::Affinity;
use crate::errno::Errno;
use crate::error::{Error, Result};
use crate::init::{self, Agreement, Greeting, Offer, greet};
use crate::options::{Channel, MountOptions};
use crate::privileged::Privileged;
use crate::protocol::opcode;
use crate::reply::Reply;
use crate::request::{self, Request};
use crate::server::Server;
use crate::thread_exit::{End, Ends};
use crate::transport::{
    Brings, DevFuse, Ended, Reader, Rings, Service, SkippedPolls, Transport, request_buffer,
};
use crate::worker_pool::{AbortOnPanic, WorkerPool};
use std::fmt;
use std::io;
use std::time::Duration;
use uext4::Filesystem;
use uext4_sync::Arc;
use uext4_sync::thread::{self, JoinHandle};

/// Maximum time until the threads end after the connection was aborted.
const ABORT_LIMIT: Duration = Duration::from_secs(10);

/// The serving threads of a mount.
pub(crate) struct Workers {
    pub(crate) service: Service,
    pub(crate) served: Served,
    threads: Vec<JoinHandle<io::Result<Ended>>>,
    ends: Ends,
}

/// Transport of a mount, with the number of its threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Served {
    /// Rings of io_uring.
    IoUring { n_threads: usize },
    /// Reads and writes of `/dev/fuse`.
    DevFuse { n_threads: usize },
}

impl fmt::Display for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IoUring { n_threads } => write!(f, "over io_uring, threads: {n_threads}"),
            Self::DevFuse { n_threads } => write!(f, "through /dev/fuse, threads: {n_threads}"),
        }
    }
}

impl Workers {
    /// Negotiates with the kernel and starts all threads.
    ///
    /// # Errors
    /// The mount cannot be served as `options` demand.
    pub(crate) fn start(
        device: DevFuse,
        filesystem: Filesystem,
        privileged: &Privileged,
        options: &MountOptions,
    ) -> Result<Self> {
        let path = privileged.path();
        let failed = || Error::system("serve", path);
        let device = Arc::new(device);
        let (unique, offer) = hear(&device).map_err(failed())??;
        check_idmap(offer, options)?;
        let offer = offer.with_granularity(filesystem.time_granularity_ns());
        let rings = rings(&device, offer, options)?;
        let agreement = accept(&device, unique, offer, options, rings.is_some());
        let agreement = agreement.map_err(failed())?;
        let writeback_pool = WorkerPool::for_waiting(1, Affinity::default()).map_err(failed())?;
        let waiters = WorkerPool::for_waiting(1, Affinity::default()).map_err(failed())?;
        let copiers = WorkerPool::for_copying().map_err(failed())?;
        let server = Server::new(
            filesystem,
            agreement,
            (device.clone(), privileged.clone()),
            options.owners.clone(),
        );
        let service = Service {
            server: Arc::new(server),
            writeback_pool,
            waiters,
            copiers,
        };
        let mut workers = Self {
            service,
            served: Served::DevFuse { n_threads: 0 },
            threads: Vec::new(),
            ends: Ends::default(),
        };
        if let Some(rings) = rings {
            let begun = workers.start_rings(rings);
            match begun {
                // Already unmounted: the reader notices, and the mount ends as usual.
                Err(error) if error.raw_os_error() == Some(libc::ENOTCONN) => {}
                Err(error) if options.channel == Channel::IoUring => {
                    return Err(Error::system("serve over io_uring", path)(error));
                }
                // The kernel has already returned to the device.
                _ => {}
            }
        }
        workers.start_readers(&device, options).map_err(failed())?;
        Ok(workers)
    }

    fn start_rings(&mut self, rings: Rings) -> io::Result<()> {
        let n_threads = rings.queues.len();
        for (index, queue) in rings.queues.into_iter().enumerate() {
            self.start_thread(format!("uext4-ring-{index}"), queue)?;
        }
        rings.starts.wait()?;
        self.served = Served::IoUring { n_threads };
        Ok(())
    }

    /// Starts the threads that read `/dev/fuse`; with rings, one is enough.
    fn start_readers(&mut self, device: &DevFuse, options: &MountOptions) -> io::Result<()> {
        let (n_readers, brings) = match &mut self.served {
            Served::IoUring { .. } => {
                device.disable_polling()?;
                (1, Brings::Rest)
            }
            Served::DevFuse { n_threads } => {
                *n_threads = options.threads();
                (*n_threads, Brings::All)
            }
        };
        for index in 0..n_readers {
            let reader = Reader::new(device.another()?, brings);
            self.start_thread(format!("uext4-fuse-{index}"), reader)?;
        }
        Ok(())
    }

    fn start_thread(
        &mut self,
        name: String,
        mut transport: impl Transport + 'static,
    ) -> io::Result<()> {
        let (service, teller) = (self.service.clone(), self.ends.teller());
        let thread = thread::Builder::new().name(name).spawn(move || {
            let _guard = AbortOnPanic;
            let ended = transport.serve(&service);
            teller.report(&ended);
            ended
        })?;
        self.threads.push(thread);
        Ok(())
    }

    /// Waits until the mount is gone and all requests are done. If a thread fails, the kernel would
    /// wait for it forever; `abort` must then end the connection.
    ///
    /// # Errors
    /// The failure that kept requests from being served.
    pub(crate) fn wait(&mut self, abort: impl FnOnce()) -> io::Result<()> {
        let first = self.ends.first();
        if first == End::Failed {
            abort();
        }
        // The threads below end when their requests do, parked ones included.
        self.service.server.end_freezes();
        if first == End::Failed && !self.ends.come(ABORT_LIMIT) {
            let text = "a thread that serves requests failed, and the mount cannot be aborted";
            return Err(io::Error::other(text));
        }
        let mut served = Ok(());
        for thread in self.threads.drain(..) {
            let done = thread.join().unwrap_or(Err(io::ErrorKind::Other.into()));
            served = served.and(done.map(drop));
        }
        for pool in [
            &self.service.writeback_pool,
            &self.service.waiters,
            &self.service.copiers,
        ] {
            pool.finish();
        }
        served
    }
}

/// Waits for `FUSE_INIT` and returns its id and the kernel's capabilities. The outer error is the
/// device's.
fn hear(device: &DevFuse) -> io::Result<Result<(u64, Offer)>> {
    let mut buf = request_buffer();
    let mut reply = Reply::new(64);
    let mut skipped = SkippedPolls::default();
    loop {
        let len = device.receive(&mut buf, &mut skipped)?;
        let len = len.ok_or(io::ErrorKind::NotConnected)?;
        let request = Request::parse(&buf[..len]).ok_or(Errno::EPROTO)?;
        let greeting = match request.opcode {
            opcode::INIT => greet(&request, &mut reply),
            _ => Err(Errno::EIO),
        };
        if let Ok(Greeting::Offered(offer)) = greeting {
            return Ok(Ok((request.unique, offer)));
        }
        let header = reply.finish(request.unique, greeting.map(|_| ()));
        device.send(&header, reply.body())?;
        reply.clear();
        if greeting.is_err() && request.opcode == opcode::INIT {
            return Ok(Err(Error::Protocol));
        }
    }
}

/// Checks that what `idmap` promises can be kept.
fn check_idmap(offer: Offer, options: &MountOptions) -> Result<()> {
    if !options.idmap {
        return Ok(());
    }
    if !options.owners.are_same() {
        return Err(Error::MappedTwice);
    }
    if !offer.has_idmap() {
        return Err(Error::NoIdmap);
    }
    // The rights of callers are read from /proc.
    if !request::shows_own_processes() {
        return Err(Error::ForeignProc);
    }
    Ok(())
}

/// Makes the rings if they are wanted and available.
fn rings(device: &DevFuse, offer: Offer, options: &MountOptions) -> Result<Option<Rings>> {
    let must = options.channel == Channel::IoUring;
    match options.channel {
        Channel::DevFuse => return Ok(None),
        _ if offer.has_rings() => {}
        _ if must => return Err(Error::NoRings),
        _ => return Ok(None),
    }
    match Rings::prepare(device, options.n_threads) {
        Ok(rings) => Ok(Some(rings)),
        Err(error) if must => Err(Error::system("set up", "io_uring")(error)),
        Err(_) => Ok(None),
    }
}

fn accept(
    device: &DevFuse,
    unique: u64,
    offer: Offer,
    options: &MountOptions,
    has_rings: bool,
) -> io::Result<Agreement> {
    let mut reply = Reply::new(64);
    let rings = if has_rings {
        init::Rings::Yes
    } else {
        init::Rings::No
    };
    let agreement = offer.accept(options, rings, &mut reply);
    let header = reply.finish(unique, Ok(()));
    device.send(&header, reply.body())?;
    Ok(agreement)
}
