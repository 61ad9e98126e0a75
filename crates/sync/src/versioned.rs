//! A lock over a structure that most work goes on in without taking it.
//!
//! Who works without the lock takes a [`Version`] first and asks at the end whether it is still the
//! one: then nothing has moved in between. The parts of the structure have locks of their own. Who
//! asks with a part locked knows that the part stays where it was found until it is unlocked.
//!
//! Invariants: who moves parts holds the lock exclusively, and either has it closed (there is no
//! version; every part that is looked at then stays as it is, since who changes parts asks for the
//! version with the part locked), or advances the version before a part can be found at its new
//! place, and once more before the lock of the old place is released.
//! Locking: the lock's own rank; the version is an atomic beside it.

use crate::atomic::{AtomicU64, Ordering::SeqCst};
use crate::{Rank, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Added while the lock is closed: versions are even.
const CLOSED: u64 = 1;
const STEP: u64 = 2;

/// See the module.
pub struct VersionedLock {
    lock: RwLock<()>,
    version: AtomicU64,
}

/// How the structure stood at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version(u64);

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

    /// Every version taken so far is past. The caller holds the lock exclusively.
    pub fn advance(&self) {
        self.version.fetch_add(STEP, SeqCst);
    }

    /// From now on the caller, who holds the lock exclusively, is alone: who works without the lock
    /// finds that its version is past.
    pub fn close(&self) {
        self.version.fetch_or(CLOSED, SeqCst);
    }

    /// Ends what [`Self::close`] began, as the release of the lock does.
    pub fn open(&self) {
        let version = self.version.load(SeqCst);
        if version & CLOSED != 0 {
            self.version.store(version - CLOSED + STEP, SeqCst);
        }
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
        self.lock.open();
    }
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
        lock.advance();
        assert!(!lock.is_still(first));
        let second = lock.version().expect("it is open");
        lock.close();
        assert!(!lock.is_still(second) && lock.version().is_none());
        drop(open);
        assert!(!lock.is_still(second) && lock.version().is_some());
        let third = lock.version().expect("it is open");
        drop(lock.write());
        assert!(!lock.is_still(third));
    }
}
