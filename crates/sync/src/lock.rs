//! Ranked locks over `parking_lot`.

use crate::Rank;
use std::time::Duration;

/// A mutual exclusion lock with a place in the lock order.
pub struct Mutex<T: ?Sized> {
    rank: Rank,
    inner: parking_lot::Mutex<T>,
}

/// Guard of a [`Mutex`].
pub type MutexGuard<'a, T> = parking_lot::MutexGuard<'a, T>;
/// Shared guard of an [`RwLock`].
pub type RwLockReadGuard<'a, T> = parking_lot::RwLockReadGuard<'a, T>;
/// Exclusive guard of an [`RwLock`].
pub type RwLockWriteGuard<'a, T> = parking_lot::RwLockWriteGuard<'a, T>;

impl<T> Mutex<T> {
    /// A new lock of this rank.
    pub const fn new(rank: Rank, value: T) -> Self {
        Self {
            rank,
            inner: parking_lot::Mutex::new(value),
        }
    }
    /// The value, when nobody shares the lock any more.
    pub fn into_inner(self) -> T {
        self.inner.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Takes the lock, waiting if it must.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.inner.lock()
    }
    /// Takes the lock if it is free now.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.inner.try_lock()
    }
    /// The place of this lock in the order.
    pub fn rank(&self) -> Rank {
        self.rank
    }
}

/// A reader-writer lock with a place in the lock order.
pub struct RwLock<T: ?Sized> {
    rank: Rank,
    inner: parking_lot::RwLock<T>,
}

impl<T> RwLock<T> {
    /// A new lock of this rank.
    pub const fn new(rank: Rank, value: T) -> Self {
        Self {
            rank,
            inner: parking_lot::RwLock::new(value),
        }
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Takes the lock shared.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.inner.read()
    }
    /// Takes the lock exclusively.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.inner.write()
    }
    /// Takes the lock shared if that needs no wait.
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        self.inner.try_read()
    }
    /// Takes the lock exclusively if that needs no wait.
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        self.inner.try_write()
    }
    /// The place of this lock in the order.
    pub fn rank(&self) -> Rank {
        self.rank
    }
}

/// A condition variable for [`Mutex`].
#[derive(Default)]
pub struct Condvar(parking_lot::Condvar);

impl Condvar {
    /// A new condition variable.
    pub const fn new() -> Self {
        Self(parking_lot::Condvar::new())
    }
    /// Releases the guard's lock, waits for a wake-up, takes the lock again.
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        self.0.wait(guard);
    }
    /// As [`Self::wait`], at most for `timeout`; true when it timed out.
    pub fn wait_for<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, timeout: Duration) -> bool {
        self.0.wait_for(guard, timeout).timed_out()
    }
    /// Wakes one waiter.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }
    /// Wakes all waiters.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}
