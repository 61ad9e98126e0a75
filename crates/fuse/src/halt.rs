//! Requests that change something, held back while the file system is frozen or remounted.
//!
//! They would wait in the library, and with them the threads that bring requests, so that nobody
//! could read any more. Here they are put aside whole, and given to the helpers when it goes on.
//!
//! Invariants: a thread that brings requests is inside the turnstile while it serves a change, so
//! whoever halts waits for those that are served and no later one reaches the library.
//! Locking: `parked` is held to look at the turnstile and to open it, so no request is forgotten.

use crate::aside::{Helpers, Job};
use crate::protocol::opcode;
use crate::request::Request;
use crate::server::Server;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use uext4_sync::{Mutex, Pass, Rank, Turnstile};

/// `O_TRUNC` of `open(2)`.
const O_TRUNC: u32 = 0o1000;

/// See the module.
pub(crate) struct Halt {
    changes: Turnstile,
    parked: Mutex<Vec<Job>>,
    helpers: Arc<Helpers>,
    /// Somebody freezes, thaws or remounts.
    at_work: AtomicBool,
}

impl Halt {
    pub(crate) fn new(helpers: Arc<Helpers>) -> Self {
        Self {
            changes: Turnstile::default(),
            parked: Mutex::new(Rank::CacheShard, Vec::new()),
            helpers,
            at_work: AtomicBool::new(false),
        }
    }

    /// Lets a change in, unless changes are held back.
    pub(crate) fn admit(&self) -> Option<Pass<'_>> {
        self.changes.try_enter()
    }

    /// Puts a change aside until it goes on.
    pub(crate) fn park(&self, job: impl FnOnce() + Send + 'static) {
        let mut parked = self.parked.lock();
        if self.changes.is_closed() {
            parked.push(Box::new(job));
            return;
        }
        drop(parked);
        self.helpers.leave(Box::new(job));
    }

    /// Lets changes go on.
    fn go_on(&self) {
        let mut parked = self.parked.lock();
        self.changes.open();
        let jobs = std::mem::take(&mut *parked);
        drop(parked);
        jobs.into_iter().for_each(|job| self.helpers.leave(job));
    }
}

impl Server {
    /// As [`uext4::Filesystem::freeze`]; requests that change something wait outside.
    pub(crate) fn freeze(&self) -> uext4::Result<()> {
        self.halted(|server| server.filesystem().freeze())
    }

    /// As [`uext4::Filesystem::thaw`].
    pub(crate) fn thaw(&self) -> uext4::Result<()> {
        self.halted(|server| server.filesystem().thaw())
    }

    /// As [`uext4::Filesystem::shutdown`]; what waits outside is answered then.
    pub(crate) fn shutdown(&self, flush: uext4::Flush) -> uext4::Result<()> {
        self.halted(|server| server.filesystem().shutdown(flush))
    }

    /// As [`uext4::Filesystem::remount`].
    pub(crate) fn remount(&self, list: &str) -> uext4::Result<()> {
        self.halted(|server| server.filesystem().remount(list))
    }

    /// Works while changes are held back; they go on unless the file system is frozen then.
    fn halted(&self, work: impl FnOnce(&Self) -> uext4::Result<()>) -> uext4::Result<()> {
        let halt = self.halt();
        if halt.at_work.swap(true, Ordering::SeqCst) {
            return Err(uext4::Error::Busy);
        }
        halt.changes.close();
        let done = work(self);
        if !self.filesystem().is_frozen() {
            halt.go_on();
        }
        halt.at_work.store(false, Ordering::SeqCst);
        done
    }
}

/// Whether a request changes the file system.
pub(crate) fn changes(request: &Request<'_>) -> bool {
    match request.opcode {
        opcode::OPEN => request.args().u32().is_ok_and(|flags| flags & O_TRUNC != 0),
        opcode::SETATTR
        | opcode::SYMLINK
        | opcode::MKNOD
        | opcode::MKDIR
        | opcode::UNLINK
        | opcode::RMDIR
        | opcode::RENAME
        | opcode::RENAME2
        | opcode::LINK
        | opcode::CREATE
        | opcode::TMPFILE
        | opcode::WRITE
        | opcode::FALLOCATE
        | opcode::COPY_FILE_RANGE
        | opcode::SETXATTR
        | opcode::REMOVEXATTR
        | opcode::IOCTL => true,
        _ => false,
    }
}
