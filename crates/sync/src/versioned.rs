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
//! Locking: the rank is a parameter; the version is an atomic beside the lock.

use crate::atomic::{AtomicU64, Ordering::SeqCst};
use crate::{Rank, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Set while the lock is closed.
const CLOSED: u64 = 1;
/// Set while parts move.
const MOVING: u64 = 2;
/// Difference between the versions of two successive structures.
const STEP: u64 = 4;

/// See the module.
pub struct VersionedLock {
    lock: RwLock<()>,
    version: AtomicU64,
}

/// Sampled state of the structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version(u64);

impl Version {
    /// Whether parts are moving: a copy of the structure must not be kept.
    pub fn is_moving(self) -> bool {
        self.0 & MOVING != 0
    }

    /// The number of the structure: constant until parts have moved.
    pub fn structure(self) -> u64 {
        self.0 / STEP
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
            version: AtomicU64::new(0),
        }
    }

    /// Samples the version; `None` while the lock is closed.
    pub fn version(&self) -> Option<Version> {
        let version = self.version.load(SeqCst);
        (version & CLOSED == 0).then_some(Version(version))
    }

    /// Validates: whether no part has moved since.
    pub fn is_still(&self, version: Version) -> bool {
        self.version.load(SeqCst) == version.0
    }

    /// Waits until the lock is no longer closed: takes it shared and releases it.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn wait(&self) {
        drop(self.lock.read());
    }

    /// Takes the lock shared: no part moves.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn read(&self) -> RwLockReadGuard<'_, ()> {
        self.lock.read()
    }

    /// As [`Self::read`], beside locks of the same rank that were taken with smaller keys.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn read_ordered(&self, key: u64) -> RwLockReadGuard<'_, ()> {
        self.lock.read_ordered(key)
    }

    /// Takes the lock exclusively and closed: no optimistic reader succeeds.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn write(&self) -> VersionedGuard<'_> {
        self.closed(self.lock.write())
    }

    /// As [`Self::write`], beside locks of the same rank that were taken with smaller keys.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn write_ordered(&self, key: u64) -> VersionedGuard<'_> {
        self.closed(self.lock.write_ordered(key))
    }

    /// Takes the lock exclusively and open: optimistic readers continue.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn write_open(&self) -> VersionedGuard<'_> {
        self.guard(self.lock.write())
    }

    /// Begins to move parts, with their locks held. The caller holds the lock exclusively and open.
    pub fn begin_move(&self) {
        self.version.fetch_or(MOVING, SeqCst);
    }

    /// Ends the move: every version sampled so far is invalid.
    pub fn end_move(&self) {
        self.next_structure();
    }

    /// The version that [`Self::end_move`] will make.
    pub fn after_move(&self) -> Version {
        Version(next(self.version.load(SeqCst)))
    }

    /// Closes the lock, which the caller holds exclusively: versions sampled so far are invalid,
    /// and none can be sampled.
    pub fn close(&self) {
        self.version.fetch_or(CLOSED, SeqCst);
    }

    /// Undoes [`Self::close`], as the release of the lock does.
    pub fn open(&self) {
        if self.version.load(SeqCst) & CLOSED != 0 {
            self.next_structure();
        }
    }

    fn next_structure(&self) {
        let version = self.version.load(SeqCst);
        self.version.store(next(version), SeqCst);
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
        if self.lock.version.load(SeqCst) & (CLOSED | MOVING) != 0 {
            self.lock.next_structure();
        }
    }
}

/// The first version of the next structure.
fn next(version: u64) -> u64 {
    (version / STEP + 1) * STEP
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

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
}
