//! Freeze barrier for requests that change something: parked while the file system is frozen,
//! grown, remounted or shut down.
//!
//! In the library such a request would block, and with it the thread that brings requests, so that
//! reads would stop. Here it is parked whole. When the barrier opens, each parked request is handed
//! back to where it came from (its ring, or the pool that serves large data) and admitted again.
//!
//! Invariants: a thread holds a pass of the barrier while it serves a change, so closing it waits
//! for the changes that are served, and none reaches the library afterwards. Handing a parked
//! request back never blocks, and needs no thread that may wait for the request itself. Once
//! [`Server::end_halts`] ran, the barrier stays open.
//! Locking: `parked` is held to look at the barrier and to open it, so no request is forgotten.

use crate::protocol::opcode;
use crate::request::Request;
use crate::server::Server;
use uext4::resize::{NewSize, Plan};
use uext4_sync::{Condvar, FreezeBarrier, Mutex, Pass, Rank};

/// `O_TRUNC` of `open(2)`.
const O_TRUNC: u32 = 0o1000;

/// Hands a parked request back; does not block.
type HandBack = Box<dyn FnOnce() + Send>;

/// See the module.
pub(crate) struct Halt {
    changes: FreezeBarrier,
    parked: Mutex<Vec<HandBack>>,
    turn: Mutex<Turn>,
    free: Condvar,
}

/// Serializes freeze, thaw, growth, remount and shutdown.
#[derive(Default)]
struct Turn {
    is_taken: bool,
    /// The mount ends: nothing is halted any more.
    is_over: bool,
}

/// The thread that has it may close the barrier; dropping it lets the next one.
struct MyTurn<'a>(&'a Halt);

impl Default for Halt {
    fn default() -> Self {
        Self {
            changes: FreezeBarrier::default(),
            parked: Mutex::new(Rank::CacheShard, Vec::new()),
            turn: Mutex::new(Rank::Queue, Turn::default()),
            free: Condvar::new(),
        }
    }
}

impl Halt {
    /// Lets a change in, unless changes are parked.
    pub(crate) fn admit(&self) -> Option<Pass<'_>> {
        self.changes.try_enter()
    }

    /// Calls `hand_back` when changes go on: at once if they do.
    pub(crate) fn park(&self, hand_back: impl FnOnce() + Send + 'static) {
        let mut parked = self.parked.lock();
        if self.changes.is_closed() {
            parked.push(Box::new(hand_back));
            return;
        }
        drop(parked);
        hand_back();
    }

    /// Opens the barrier.
    fn go_on(&self) {
        let mut parked = self.parked.lock();
        self.changes.open();
        let jobs = std::mem::take(&mut *parked);
        drop(parked);
        jobs.into_iter().for_each(|hand_back| hand_back());
    }

    /// Waits for its turn. The holder needs no request of the kernel, so the wait is finite.
    fn take_turn(&self, over: Over) -> uext4::Result<MyTurn<'_>> {
        let mut turn = self.turn.lock();
        turn.is_over |= over == Over::Yes;
        while turn.is_taken {
            self.free.wait(&mut turn);
        }
        if turn.is_over && over == Over::No {
            return Err(uext4::Error::Busy);
        }
        turn.is_taken = true;
        Ok(MyTurn(self))
    }
}

/// Whether it is the last turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Over {
    Yes,
    No,
}

impl Drop for MyTurn<'_> {
    fn drop(&mut self) {
        self.0.turn.lock().is_taken = false;
        self.0.free.notify_all();
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

    /// As [`uext4::Filesystem::grow`]; requests that change something wait outside.
    pub(crate) fn grow(&self, wanted: NewSize) -> uext4::Result<Plan> {
        self.halted(|server| server.filesystem().grow(wanted))
    }

    /// As [`uext4::Filesystem::remount`].
    pub(crate) fn remount(&self, list: &str) -> uext4::Result<()> {
        self.halted(|server| server.filesystem().remount(list))
    }

    /// Works while changes are parked; they go on unless the file system is frozen then.
    ///
    /// # Errors
    /// Those of `work`; [`uext4::Error::Busy`] once the mount ends.
    fn halted<T>(&self, work: impl FnOnce(&Self) -> uext4::Result<T>) -> uext4::Result<T> {
        let halt = self.halt();
        let _turn = halt.take_turn(Over::No)?;
        halt.changes.close();
        let done = work(self);
        if !self.filesystem().is_frozen() {
            halt.go_on();
        }
        done
    }

    /// Thaws for good, since the mount ends: all parked requests go on, and later calls of
    /// [`Self::freeze`] and its like are refused.
    pub(crate) fn end_halts(&self) {
        let halt = self.halt();
        let Ok(_turn) = halt.take_turn(Over::Yes) else {
            return;
        };
        // Most are not frozen. A failure of the device is told when the image is closed.
        let _ = self.filesystem().thaw();
        halt.go_on();
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
        | opcode::BMAP
        | opcode::IOCTL => true,
        _ => false,
    }
}
