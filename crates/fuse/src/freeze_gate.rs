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
//! [`crate::server::Server::end_freezes`] ran, the barrier stays open.
//! Locking: `parked` is held to look at the barrier and to open it, so no request is forgotten.

use crate::protocol::opcode;
use crate::request::Request;
use uext4_sync::{Condvar, FreezeBarrier, Mutex, Pass, Rank};

/// `O_TRUNC` of `open(2)`.
const O_TRUNC: u32 = 0o1000;

/// Hands a parked request back; does not block.
type HandBack = Box<dyn FnOnce() + Send>;

/// The barrier, the parked requests, and the turns of the threads that close it.
pub(crate) struct FreezeGate {
    changes: FreezeBarrier,
    parked: Mutex<Vec<HandBack>>,
    turn: Mutex<Turn>,
    free: Condvar,
}

/// Serializes freeze, thaw, growth, remount and shutdown.
#[derive(Default)]
struct Turn {
    is_taken: bool,
    /// The mount ends: nothing is frozen any more.
    is_unmounting: bool,
}

/// The thread that has it may close and open the barrier; dropping it lets the next one.
pub(crate) struct ExclusiveTurn<'a>(&'a FreezeGate);

impl Default for FreezeGate {
    fn default() -> Self {
        Self {
            changes: FreezeBarrier::default(),
            parked: Mutex::new(Rank::CacheShard, Vec::new()),
            turn: Mutex::new(Rank::Queue, Turn::default()),
            free: Condvar::new(),
        }
    }
}

impl FreezeGate {
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

    /// Waits for its turn. The holder needs no request of the kernel, so the wait is finite.
    pub(crate) fn take_turn(&self, unmounting: Unmounting) -> uext4::Result<ExclusiveTurn<'_>> {
        let mut turn = self.turn.lock();
        turn.is_unmounting |= unmounting == Unmounting::Yes;
        while turn.is_taken {
            self.free.wait(&mut turn);
        }
        if turn.is_unmounting && unmounting == Unmounting::No {
            return Err(uext4::Error::Busy);
        }
        turn.is_taken = true;
        Ok(ExclusiveTurn(self))
    }
}

/// Whether the mount ends, so that it is the last turn.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unmounting {
    Yes,
    No,
}

impl ExclusiveTurn<'_> {
    /// Closes the barrier: changes that are served end, later ones are parked.
    pub(crate) fn close(&self) {
        self.0.changes.close();
    }

    /// Opens the barrier, and hands the parked requests back.
    pub(crate) fn resume(&self) {
        let mut parked = self.0.parked.lock();
        self.0.changes.open();
        let jobs = std::mem::take(&mut *parked);
        drop(parked);
        jobs.into_iter().for_each(|hand_back| hand_back());
    }
}

impl Drop for ExclusiveTurn<'_> {
    fn drop(&mut self) {
        self.0.turn.lock().is_taken = false;
        self.0.free.notify_all();
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
