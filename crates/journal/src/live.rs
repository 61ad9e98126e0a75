//! Live objects: metadata in its in-memory form, with a stamp of the transaction it is dirty in.
//!
//! Invariants: the stamp changes only under the object's exclusive lock. It is `CLEAN`, or names
//! the transaction T in which the object is dirty and not rendered. T is the running transaction,
//! or the committing one while that renders; never an older one (`Engine::render_earlier` checks).
//! The stamp also has the round of the last change.

use crate::sink::{Rendered, Sink};
use std::ops::{Deref, DerefMut};
use uext4_format::{BlockNr, Tid};
use uext4_num::low_u32;
use uext4_sync::atomic::{AtomicU64, Ordering};
use uext4_sync::{Rank, RwLock, RwLockReadGuard, RwLockWriteGuard};

const CLEAN: u64 = 0;
const DIRTY: u64 = 1 << 32;
/// Place of the round in a stamp, and in the word of the gate.
pub(crate) const ROUND_SHIFT: u32 = 35;

/// Transaction and round of a change: each fast commit of a transaction begins a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The transaction that changed the object.
    pub tid: Tid,
    /// Fast commits of the transaction before the change.
    pub round: u32,
}

impl Stamp {
    /// After every change of the transaction.
    pub(crate) fn last(tid: Tid) -> Stamp {
        let round = u32::MAX;
        Stamp { tid, round }
    }

    /// Whether the other change is of the same transaction, and not of a later round.
    pub(crate) fn covers(self, other: Stamp) -> bool {
        self.tid == other.tid && self.round >= other.round
    }

    fn word(self) -> u64 {
        DIRTY | u64::from(self.tid.0) | u64::from(self.round) << ROUND_SHIFT
    }

    /// From a stamp of a live object, or from the word of the gate.
    pub(crate) fn of_word(word: u64) -> Stamp {
        Stamp {
            tid: Tid(low_u32(word)),
            round: low_u32(word >> ROUND_SHIFT),
        }
    }
}

/// The state of a live object, which can render itself to bytes.
pub trait Render: Send + Sync + 'static {
    /// Rank of the object's lock.
    const RANK: Rank;
    /// Emits the bytes that changed (or may have), checksums included. Called once per transaction
    /// that logged the object, with its lock held exclusively. Must not take locks of this rank or
    /// before, start handles, or read the device.
    fn render(&mut self, out: &mut Sink<'_>);
    /// The block that the object shares with many others, if any: the objects of one such block
    /// that a thread logs are charged one block together.
    fn shared_block(&self) -> Option<BlockNr> {
        None
    }
    /// Identifies the object in the list of those that a fast commit records, if it is one: see
    /// [`crate::Journal::make_durable`].
    fn record_key(&self) -> Option<u64> {
        None
    }
    /// Called when a guard that may have changed the state is about to release the lock.
    fn released(&mut self) {}
}

/// Owner of a [`Live`] state; shared in an `Arc`.
pub trait Object: Send + Sync + 'static {
    /// The state that a commit renders into blocks.
    type State: Render;
    /// The state with its lock.
    fn live(&self) -> &Live<Self::State>;
}

/// A state behind its lock, and its stamp.
///
/// Eviction: a cache may drop an object only when the cache's `Arc` is the last one. The journal
/// holds another from the moment the object is logged until its images can be read back through
/// [`crate::Journal::read_block`]; [`Live::is_dirty`] turns false before that.
pub struct Live<S> {
    stamp: AtomicU64,
    lock: RwLock<S>,
}

impl<S: Render> Live<S> {
    /// Makes an object that no transaction has changed.
    pub fn new(state: S) -> Self {
        Self {
            stamp: AtomicU64::new(CLEAN),
            lock: RwLock::new(S::RANK, state),
        }
    }
    /// Locks the state for reading.
    #[cfg_attr(any(debug_assertions, simulated), track_caller)]
    pub fn read(&self) -> RwLockReadGuard<'_, S> {
        self.lock.read()
    }
    /// Reads the state while objects of its rank with smaller keys are held.
    #[cfg_attr(any(debug_assertions, simulated), track_caller)]
    pub fn read_ordered(&self, key: u64) -> RwLockReadGuard<'_, S> {
        self.lock.read_ordered(key)
    }
    /// Reads the state while others of its rank are held, under an outer exclusive lock.
    #[cfg_attr(any(debug_assertions, simulated), track_caller)]
    pub fn read_nested(&self) -> RwLockReadGuard<'_, S> {
        self.lock.read_nested()
    }
    /// Reads the state without waiting; `None` if the lock is taken.
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, S>> {
        self.lock.try_read()
    }
    /// The state exclusively, without logging it: to load or initialize it, and for fields that are
    /// in memory only. Bytes changed here reach the disk only with a later
    /// [`crate::Handle::write`].
    #[cfg_attr(any(debug_assertions, simulated), track_caller)]
    pub fn write_unlogged(&self) -> LogGuard<'_, S> {
        LogGuard::new(self.lock.write())
    }
    /// As [`Self::write_unlogged`], while others of its rank are held, under an outer exclusive
    /// lock.
    pub fn write_unlogged_nested(&self) -> LogGuard<'_, S> {
        LogGuard::new(self.lock.write_nested())
    }
    /// As [`Self::write_unlogged`], without waiting; `None` if the lock is taken.
    pub fn try_write_unlogged(&self) -> Option<LogGuard<'_, S>> {
        self.lock.try_write().map(LogGuard::new)
    }
    /// Logged to a transaction and not yet rendered for it. A hint unless the lock is held.
    pub fn is_dirty(&self) -> bool {
        self.dirty_tid().is_some()
    }
    /// The transaction it is dirty in. A hint unless the lock is held.
    pub fn dirty_tid(&self) -> Option<Tid> {
        self.stamp().map(|stamp| stamp.tid)
    }
    /// The last change that no full commit has rendered. A hint unless the lock is held.
    pub fn stamp(&self) -> Option<Stamp> {
        let word = self.stamp.load(Ordering::Acquire);
        (word != CLEAN).then(|| Stamp::of_word(word))
    }
    /// Exclusive lock of the state, for the journal.
    pub(crate) fn lock(&self) -> &RwLock<S> {
        &self.lock
    }
    /// Sets the stamp; the caller holds the lock exclusively.
    pub(crate) fn set_stamp(&self, stamp: Option<Stamp>) {
        let word = stamp.map_or(CLEAN, Stamp::word);
        self.stamp.store(word, Ordering::Release);
    }
    /// Renders the state if it is dirty in `tid`, and makes it clean; the caller holds the lock.
    pub(crate) fn render_for(&self, tid: Tid, state: &mut S, out: &Rendered) {
        if self.dirty_tid() == Some(tid) {
            state.render(&mut Sink::new(out));
            self.set_stamp(None);
        }
    }
}

/// An object on a transaction's list.
pub(crate) trait Dirty: Send + Sync {
    /// Renders the object for `tid` unless it was rendered already.
    fn render(&self, tid: Tid, out: &Rendered);
}

impl<O: Object> Dirty for O {
    fn render(&self, tid: Tid, out: &Rendered) {
        let live = self.live();
        if live.dirty_tid() == Some(tid) {
            let mut state = live.lock.write();
            live.render_for(tid, &mut state, out);
        }
    }
}

/// Exclusive guard of an object's state; the guard of a logged object ends before its handle.
pub struct LogGuard<'a, S: Render> {
    state: RwLockWriteGuard<'a, S>,
}

impl<'a, S: Render> LogGuard<'a, S> {
    pub(crate) fn new(state: RwLockWriteGuard<'a, S>) -> Self {
        Self { state }
    }
}

impl<S: Render> Deref for LogGuard<'_, S> {
    type Target = S;
    fn deref(&self) -> &S {
        &self.state
    }
}

impl<S: Render> DerefMut for LogGuard<'_, S> {
    fn deref_mut(&mut self) -> &mut S {
        &mut self.state
    }
}

impl<S: Render> Drop for LogGuard<'_, S> {
    fn drop(&mut self) {
        self.state.released();
    }
}
