//! Optimistic lock: readers sample a version, work without the lock, and validate the version.
//!
//! If a [`Version`] validates ([`VersionedLock::is_still`]), no part of the structure has moved
//! since it was sampled. Parts have locks of their own. If a reader validates with a part locked,
//! the part stays in its place until the reader unlocks it.
//!
//! Invariants: a thread that moves parts holds the lock exclusively, closed or open.
//! - Closed: there is no version. A thread that changes a part validates with the part locked and
//!   fails, so no part changes under the holder.
//! - Open: parts move between [`VersionedLock::begin_move`], which precedes the first way to a part
//!   at its new place, and [`VersionedLock::end_move`], which precedes the unlock of the old place.
//!
//! Both calls change the version, but only `end_move` changes the structure number. A reader that
//! follows a copy of the old structure meets a locked part, and fails validation once it has that
//! lock.
//!
//! The closed lock is for holders that unlock a part between their read and their write of it. For
//! example, holder A reads a part, computes its two halves and writes them, and thread B inserts
//! into the part in between. B's version does not validate, so B inserts nothing; with the lock
//! open, A would overwrite B's entry.
//!
//! A thread may also hold the lock *together* with others that divide parts, each another one: a
//! division ends no version, because the old part leads to the new one. Such threads exclude those
//! that hold the lock shared, which see no division, and those that hold it exclusively.
//!
//! Locking: the rank is a parameter; the version is a [`SequenceCount`] beside the lock. To close,
//! a thread sets `CLOSED` and then changes the sequence; a sampler reads the sequence and then
//! the flag. For example, in the other order thread A begins the change, B samples the new
//! sequence and sees no flag, and A sets the flag: B's version would validate while A works. To
//! open, a thread does both in reverse.

use crate::atomic::{AtomicU32, Ordering::SeqCst};
use crate::{Rank, RwLock, RwLockReadGuard, RwLockWriteGuard, Sequence, SequenceCount};

/// Fields of the word `VersionedLock::holds`: two counts and a flag.
const SHARING: u32 = 1;
const DIVIDING: u32 = 1 << 16;
const CLOSED: u32 = 1 << 31;
/// Optimistic tries of an operation before it takes the lock.
const TRIES: usize = 8;

/// A lock with a version that optimistic readers validate.
pub struct VersionedLock {
    lock: RwLock<()>,
    /// [`CLOSED`]; the number of threads that hold the lock together, or wait for that, from
    /// [`DIVIDING`] on; below it, that of those that hold it shared or wait for that.
    holds: AtomicU32,
    /// A change is in progress while parts move or the lock is closed.
    sequence: SequenceCount,
}

/// Sampled state of the structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version(Sequence);

impl Version {
    /// Whether parts are moving: a copy of the structure must not be kept.
    pub fn is_moving(self) -> bool {
        self.0.is_changing()
    }

    /// The number of the structure: constant until parts have moved.
    pub fn structure(self) -> u32 {
        self.0.changes()
    }
}

/// The lock is held shared: no part moves or is divided.
#[must_use = "the lock is released when the guard is dropped"]
pub struct SharedGuard<'a> {
    lock: &'a VersionedLock,
    _shared: RwLockReadGuard<'a, ()>,
}

impl Drop for SharedGuard<'_> {
    fn drop(&mut self) {
        self.lock.holds.fetch_sub(SHARING, SeqCst);
    }
}

/// The lock is held to divide parts: together with others, or alone.
#[must_use = "the lock is released when the guard is dropped"]
pub enum DividingGuard<'a> {
    /// With other threads that divide parts.
    Together(Together<'a>),
    /// Exclusively, without closing the lock to optimistic readers.
    Alone(VersionedGuard<'a>),
}

/// Guard of a lock held together with other threads that divide parts.
pub struct Together<'a> {
    lock: &'a VersionedLock,
    _shared: RwLockReadGuard<'a, ()>,
}

impl Drop for Together<'_> {
    fn drop(&mut self) {
        self.lock.holds.fetch_sub(DIVIDING, SeqCst);
    }
}

/// The lock is held exclusively, closed or open.
#[must_use = "the lock is released when the guard is dropped"]
pub struct VersionedGuard<'a> {
    lock: &'a VersionedLock,
    _exclusive: RwLockWriteGuard<'a, ()>,
}

impl VersionedLock {
    /// A lock of this rank.
    pub const fn new(rank: Rank) -> Self {
        Self {
            lock: RwLock::new(rank, ()),
            holds: AtomicU32::new(0),
            sequence: SequenceCount::new(),
        }
    }

    /// Samples the version; `None` while the lock is closed.
    pub fn version(&self) -> Option<Version> {
        let version = Version(self.sequence.sample());
        (self.holds.load(SeqCst) & CLOSED == 0).then_some(version)
    }

    /// Versions to try with, each sampled when the lock is not closed. When they are used up, the
    /// caller takes the lock, so that it ends.
    pub fn tries(&self) -> impl Iterator<Item = Version> {
        (0..TRIES).filter_map(|_| {
            let version = self.version();
            if version.is_none() {
                self.wait();
            }
            version
        })
    }

    /// Validates: whether no part has moved since.
    pub fn is_still(&self, version: Version) -> bool {
        self.sequence.is_still(version.0)
    }

    /// Waits until the lock is no longer closed: takes it shared and releases it.
    #[cfg_attr(any(debug_assertions, simulated), track_caller)]
    pub fn wait(&self) {
        drop(self.lock.read());
    }

    /// Takes the lock shared: no part moves or is divided.
    #[cfg_attr(any(debug_assertions, simulated), track_caller)]
    pub fn read(&self) -> SharedGuard<'_> {
        self.shared(|| self.lock.read(), || self.lock.write())
    }

    /// As [`Self::read`], beside locks of the same rank that were taken with smaller keys.
    #[cfg_attr(any(debug_assertions, simulated), track_caller)]
    pub fn read_ordered(&self, key: u64) -> SharedGuard<'_> {
        self.shared(
            || self.lock.read_ordered(key),
            || self.lock.write_ordered(key),
        )
    }

    /// A thread that holds the lock shared and one that divides a part ([`Self::divide`]) both hold
    /// the inner lock shared, so they exclude each other by `holds`. Each adds itself to the word
    /// before it loads the other's count, so at least one sees the other: it releases the inner
    /// lock and takes it exclusively.
    ///
    /// For example, thread A holds the lock shared and has found a name in a part; thread B divides
    /// the part and moves the name. Without the counts, A would change a part that has it no more.
    fn shared<'a>(
        &'a self,
        read: impl FnOnce() -> RwLockReadGuard<'a, ()>,
        write: impl FnOnce() -> RwLockWriteGuard<'a, ()>,
    ) -> SharedGuard<'a> {
        self.holds.fetch_add(SHARING, SeqCst);
        let mut shared = Some(read());
        if self.holds.load(SeqCst) & !CLOSED >= DIVIDING {
            shared = None;
        }
        SharedGuard {
            lock: self,
            _shared: shared.unwrap_or_else(|| RwLockWriteGuard::downgrade(write())),
        }
    }

    /// Takes the lock to divide parts: together with others that do, or alone while threads hold it
    /// shared.
    #[cfg_attr(any(debug_assertions, simulated), track_caller)]
    pub fn divide(&self) -> DividingGuard<'_> {
        self.holds.fetch_add(DIVIDING, SeqCst);
        let together = Together {
            lock: self,
            _shared: self.lock.read(),
        };
        if self.holds.load(SeqCst) & (DIVIDING - 1) == 0 {
            return DividingGuard::Together(together);
        }
        drop(together);
        DividingGuard::Alone(self.write_open())
    }

    /// Takes the lock exclusively and closed: no optimistic reader succeeds.
    #[cfg_attr(any(debug_assertions, simulated), track_caller)]
    pub fn write(&self) -> VersionedGuard<'_> {
        self.closed(self.lock.write())
    }

    /// As [`Self::write`], beside locks of the same rank that were taken with smaller keys.
    #[cfg_attr(any(debug_assertions, simulated), track_caller)]
    pub fn write_ordered(&self, key: u64) -> VersionedGuard<'_> {
        self.closed(self.lock.write_ordered(key))
    }

    /// Takes the lock exclusively and open: optimistic readers continue.
    #[cfg_attr(any(debug_assertions, simulated), track_caller)]
    pub fn write_open(&self) -> VersionedGuard<'_> {
        self.guard(self.lock.write())
    }

    /// As [`Self::write_open`]; `None` if the lock is held.
    #[cfg_attr(any(debug_assertions, simulated), track_caller)]
    pub fn try_write_open(&self) -> Option<VersionedGuard<'_>> {
        Some(self.guard(self.lock.try_write()?))
    }

    /// Begins to move parts, with their locks held. The caller holds the lock exclusively and open.
    pub fn begin_move(&self) {
        self.sequence.begin();
    }

    /// Ends the move: every version sampled so far is invalid.
    pub fn end_move(&self) {
        self.sequence.end();
    }

    /// The version that [`Self::end_move`] will make.
    pub fn after_move(&self) -> Version {
        Version(self.sequence.sample().after_change())
    }

    /// Closes the lock, which the caller holds exclusively: versions sampled so far are invalid,
    /// and none can be sampled.
    fn close(&self) {
        if self.holds.fetch_or(CLOSED, SeqCst) & CLOSED == 0 {
            self.sequence.begin();
        }
    }

    /// Undoes [`Self::close`], as the release of the lock does.
    fn open(&self) {
        if self.sequence.sample().is_changing() {
            self.sequence.end();
        }
        self.holds.fetch_and(!CLOSED, SeqCst);
    }

    fn guard<'a>(&'a self, exclusive: RwLockWriteGuard<'a, ()>) -> VersionedGuard<'a> {
        VersionedGuard {
            lock: self,
            _exclusive: exclusive,
        }
    }

    fn closed<'a>(&'a self, exclusive: RwLockWriteGuard<'a, ()>) -> VersionedGuard<'a> {
        self.close();
        self.guard(exclusive)
    }
}

impl Drop for VersionedGuard<'_> {
    fn drop(&mut self) {
        // A move that failed half-way has moved parts, too.
        self.lock.open();
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::atomic::AtomicBool;

    #[test]
    fn a_version_is_past_once_something_may_have_moved() {
        let lock = VersionedLock::new(Rank::DirIndex);
        let first = lock.version().expect("it is open");
        drop(lock.read());
        drop(lock.write_open());
        assert!(lock.is_still(first));
        let open = lock.write_open();
        lock.begin_move();
        let moving = lock.version().expect("it is open");
        assert!(
            !lock.is_still(first) && moving.is_moving() && moving.structure() == first.structure()
        );
        let second = lock.after_move();
        lock.end_move();
        assert!(
            lock.is_still(second) && !second.is_moving() && second.structure() != first.structure()
        );
        lock.close();
        assert!(!lock.is_still(second) && lock.version().is_none());
        drop(open);
        assert!(!lock.is_still(second) && lock.version().is_some());
        let third = lock.version().expect("it is open");
        drop(lock.write());
        assert!(!lock.is_still(third));
        let failed = lock.write_open();
        lock.begin_move();
        let half = lock.version().expect("it is open");
        drop(failed);
        let now = lock.version().expect("it is open");
        assert!(!now.is_moving() && now.structure() != half.structure());
    }

    #[test]
    fn threads_that_divide_are_together_unless_one_holds_the_lock_shared() {
        let lock = VersionedLock::new(Rank::DirIndex);
        let first = lock.divide();
        assert!(matches!(first, DividingGuard::Together(_)));
        std::thread::scope(|scope| {
            let other = scope.spawn(|| matches!(lock.divide(), DividingGuard::Together(_)));
            assert!(other.join().expect("no panic"));
            drop(first);
        });
        let shared = lock.read();
        std::thread::scope(|scope| {
            scope.spawn(|| drop(lock.divide()));
            drop(shared);
        });
        assert_eq!(lock.holds.load(SeqCst), 0);
    }

    #[test]
    fn tries_end_and_wait_while_the_lock_is_closed() {
        let lock = VersionedLock::new(Rank::DirIndex);
        let open = lock.try_write_open().expect("it is free");
        assert_eq!(lock.tries().filter(|it| lock.is_still(*it)).count(), TRIES);
        let (closed, wait) = std::sync::mpsc::channel();
        let is_released = AtomicBool::new(false);
        drop(open);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let guard = lock.write();
                closed
                    .send(lock.try_write_open().is_none())
                    .expect("it is received");
                is_released.store(true, SeqCst);
                drop(guard);
            });
            assert_eq!(wait.recv(), Ok(true));
            let version = lock.tries().next().expect("the lock was opened");
            assert!(is_released.load(SeqCst) && lock.is_still(version));
        });
    }
}
