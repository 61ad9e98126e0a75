//! The ranked mutex and its condition variable.
//!
//! Locking: every method that may wait checks the caller's ranks first (debug builds). Acquisitions
//! that wait are counted, see [`crate::lock_waits`].

use crate::held::{Held, Order};
#[cfg(not(simulated))]
use crate::waits;
use crate::{Rank, backend};
use std::ops::{Deref, DerefMut};
use std::time::Duration;

/// A mutual exclusion lock with a place in the lock order.
pub struct Mutex<T: ?Sized> {
    rank: Rank,
    inner: backend::Mutex<T>,
}

/// Access to the value of a [`Mutex`] that the thread has locked.
#[must_use = "the lock is released when the guard is dropped"]
pub struct MutexGuard<'a, T: ?Sized> {
    inner: backend::MutexGuard<'a, T>,
    held: Held,
}

impl<T> Mutex<T> {
    /// A new lock of this rank.
    pub const fn new(rank: Rank, value: T) -> Self {
        Self {
            rank,
            inner: backend::Mutex::new(value),
        }
    }
    /// Consumes the lock and returns the value.
    pub fn into_inner(self) -> T {
        self.inner.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Takes the lock, waiting if it must.
    #[cfg_attr(any(debug_assertions, simulated), track_caller)]
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.acquire(Order::Rising)
    }
    /// As [`Self::lock`], beside locks of the same rank that were taken with smaller keys.
    #[cfg_attr(any(debug_assertions, simulated), track_caller)]
    #[inline]
    pub fn lock_ordered(&self, key: u64) -> MutexGuard<'_, T> {
        self.acquire(Order::Key(key))
    }
    /// Takes the lock if it is free now.
    #[cfg_attr(any(debug_assertions, simulated), track_caller)]
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let inner = self.inner.try_lock()?;
        Some(MutexGuard {
            inner,
            held: Held::enter(self.rank, Order::Try),
        })
    }
    /// The value; exclusive access needs no lock.
    pub fn get_mut(&mut self) -> &mut T {
        self.inner.get_mut()
    }

    #[cfg_attr(any(debug_assertions, simulated), track_caller)]
    #[inline]
    fn acquire(&self, order: Order) -> MutexGuard<'_, T> {
        let held = Held::enter(self.rank, order);
        // A closure would hide the caller from the simulator.
        #[cfg(simulated)]
        let inner = self.inner.lock();
        #[cfg(not(simulated))]
        let inner = match self.inner.try_lock() {
            Some(inner) => inner,
            None => waits::timed(self.rank, || self.inner.lock()),
        };
        MutexGuard { inner, held }
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

/// A condition variable for [`Mutex`].
#[derive(Default)]
pub struct Condvar(backend::Condvar);

impl Condvar {
    /// A condition variable without waiters.
    pub const fn new() -> Self {
        Self(backend::Condvar::new())
    }
    /// Releases the guard's lock, waits for a wake-up, takes the lock again. Wakes may be
    /// spurious. No lock of a later rank may be held (debug builds check).
    #[cfg_attr(any(debug_assertions, simulated), track_caller)]
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        guard.held.check_innermost();
        self.0.wait(&mut guard.inner);
    }
    /// As [`Self::wait`], at most for `timeout`; true when it timed out.
    #[cfg_attr(any(debug_assertions, simulated), track_caller)]
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, timeout: Duration) -> bool {
        guard.held.check_innermost();
        self.0.wait_for(&mut guard.inner, timeout).timed_out()
    }
    /// Wakes one waiting thread, if there is one.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }
    /// Wakes all threads that wait now.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}
