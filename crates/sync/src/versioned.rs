//! A lock over a structure that most work goes on in without taking it.
//!
//! Who works without the lock takes a [`Version`] first and asks at the end whether it is still the
//! one: then nothing has moved in between. The parts of the structure have locks of their own. Who
//! asks with a part locked knows that the part stays where it was found until it is unlocked.
//!
//! Invariants: who moves parts holds the lock exclusively, and either has it closed (there is no
//! version; every part that is looked at then stays as it is, since who changes parts asks for the
//! version with the part locked), or moves them between [`VersionedLock::begin_move`], which comes
//! before a part can be found at its new place, and [`VersionedLock::end_move`], which comes before
//! the lock of the old place is released. Both make another version, but only the second another
//! structure: who goes by a copy of the old one meanwhile comes to a lock that is held, and learns
//! behind it that the version is past.
//! Locking: the lock's own rank; the version is an atomic beside it.

use crate::atomic::{AtomicU64, Ordering::SeqCst};
use crate::{Rank, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Set while the lock is closed.
const CLOSED: u64 = 1;
/// Set while parts move.
const MOVING: u64 = 2;
/// Structures follow each other so.
const STEP: u64 = 4;

/// See the module.
pub struct VersionedLock {
    lock: RwLock<()>,
    version: AtomicU64,
}

/// How the structure stood at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version(u64);

impl Version {
    /// Whether parts are on the way: nobody keeps what the structure looks like.
    pub fn is_moving(self) -> bool {
        self.0 & MOVING != 0
    }

    /// The number of the structure: the same until parts have moved.
    pub fn structure(self) -> u64 {
        self.0 / STEP
    }
}

/// The lock is held exclusively; closed or not.
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

    /// How the structure stands now; `None` while it is closed.
    pub fn version(&self) -> Option<Version> {
        let version = self.version.load(SeqCst);
        (version & CLOSED == 0).then_some(Version(version))
    }

    /// Whether nothing has moved since.
    pub fn is_still(&self, version: Version) -> bool {
        self.version.load(SeqCst) == version.0
    }

    /// Waits until the lock could be had shared, so that it is not closed any more.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn wait(&self) {
        drop(self.lock.read());
    }

    /// Shared: nothing moves.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn read(&self) -> RwLockReadGuard<'_, ()> {
        self.lock.read()
    }

    /// As [`Self::read`], beside locks of the same rank that were taken with smaller keys.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn read_ordered(&self, key: u64) -> RwLockReadGuard<'_, ()> {
        self.lock.read_ordered(key)
    }

    /// Exclusively and closed: the caller is alone.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn write(&self) -> VersionedGuard<'_> {
        self.closed(self.lock.write())
    }

    /// As [`Self::write`], beside locks of the same rank that were taken with smaller keys.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn write_ordered(&self, key: u64) -> VersionedGuard<'_> {
        self.closed(self.lock.write_ordered(key))
    }

    /// Exclusively and not closed: who works without the lock goes on.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn write_open(&self) -> VersionedGuard<'_> {
        self.guard(self.lock.write())
    }

    /// Parts begin to move, with their locks held. The caller holds the lock exclusively and not
    /// closed.
    pub fn begin_move(&self) {
        self.version.fetch_or(MOVING, SeqCst);
    }

    /// Parts have moved: every version taken so far is past.
    pub fn end_move(&self) {
        self.next_structure();
    }

    /// The version that [`Self::end_move`] makes.
    pub fn after_move(&self) -> Version {
        Version(next(self.version.load(SeqCst)))
    }

    /// From now on the caller, who holds the lock exclusively, is alone: who works without the lock
    /// finds that its version is past.
    pub fn close(&self) {
        self.version.fetch_or(CLOSED, SeqCst);
    }

    /// Ends what [`Self::close`] began, as the release of the lock does.
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
        // Also what failed half-way has moved.
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
