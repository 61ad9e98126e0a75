//! The ranked reader-writer lock.
//!
//! To take two locks of one rank, use `read_ordered` / `write_ordered`, ascending by the number of
//! the object (inode, block, group). If an outer lock held exclusively excludes every other thread
//! that takes two, `read_nested` / `write_nested` take the second without a key.
//! A plain `read` or `write` beside another lock of its rank panics in debug builds. So does a
//! second `read` of the same lock, which deadlocks when a writer waits in between.

use crate::held::{Held, Order};
#[cfg(not(simulated))]
use crate::waits;
use crate::{Rank, backend};
use std::ops::{Deref, DerefMut};

/// A reader-writer lock with a place in the lock order.
pub struct RwLock<T: ?Sized> {
    rank: Rank,
    inner: backend::RwLock<T>,
}

/// Shared guard of an [`RwLock`].
#[must_use = "the lock is released when the guard is dropped"]
pub struct RwLockReadGuard<'a, T: ?Sized> {
    inner: backend::RwLockReadGuard<'a, T>,
    _held: Held,
}

/// Exclusive guard of an [`RwLock`].
#[must_use = "the lock is released when the guard is dropped"]
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    inner: backend::RwLockWriteGuard<'a, T>,
    held: Held,
}

impl<T> RwLock<T> {
    /// A new lock of this rank.
    pub const fn new(rank: Rank, value: T) -> Self {
        Self {
            rank,
            inner: backend::RwLock::new(value),
        }
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Takes the lock shared; debug builds check the rank.
    #[cfg_attr(any(debug_assertions, simulated), track_caller)]
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.acquire_shared(Order::Rising)
    }
    /// Takes the lock exclusively; debug builds check the rank.
    #[cfg_attr(any(debug_assertions, simulated), track_caller)]
    #[inline]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.acquire_exclusive(Order::Rising)
    }
    /// As [`Self::read`], beside locks of the same rank that were taken with smaller keys.
    #[cfg_attr(any(debug_assertions, simulated), track_caller)]
    #[inline]
    pub fn read_ordered(&self, key: u64) -> RwLockReadGuard<'_, T> {
        self.acquire_shared(Order::Key(key))
    }
    /// As [`Self::write`], beside locks of the same rank that were taken with smaller keys.
    #[cfg_attr(any(debug_assertions, simulated), track_caller)]
    #[inline]
    pub fn write_ordered(&self, key: u64) -> RwLockWriteGuard<'_, T> {
        self.acquire_exclusive(Order::Key(key))
    }
    /// As [`Self::read`], beside any locks of the same rank. The caller holds an outer lock
    /// exclusively that every thread holds which takes several of these.
    #[cfg_attr(any(debug_assertions, simulated), track_caller)]
    #[inline]
    pub fn read_nested(&self) -> RwLockReadGuard<'_, T> {
        self.acquire_shared(Order::Nested)
    }
    /// As [`Self::write`], beside any locks of the same rank: see [`Self::read_nested`].
    #[cfg_attr(any(debug_assertions, simulated), track_caller)]
    #[inline]
    pub fn write_nested(&self) -> RwLockWriteGuard<'_, T> {
        self.acquire_exclusive(Order::Nested)
    }
    /// Takes the lock shared if that needs no wait.
    #[cfg_attr(any(debug_assertions, simulated), track_caller)]
    #[inline]
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        let inner = self.inner.try_read()?;
        Some(RwLockReadGuard {
            inner,
            _held: Held::enter(self.rank, Order::Try),
        })
    }
    /// Takes the lock exclusively if that needs no wait.
    #[cfg_attr(any(debug_assertions, simulated), track_caller)]
    #[inline]
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        let inner = self.inner.try_write()?;
        Some(RwLockWriteGuard {
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
    fn acquire_shared(&self, order: Order) -> RwLockReadGuard<'_, T> {
        let held = Held::enter(self.rank, order);
        #[cfg(simulated)]
        let inner = self.inner.read();
        #[cfg(not(simulated))]
        let inner = match self.inner.try_read() {
            Some(inner) => inner,
            None => waits::timed(self.rank, || self.inner.read()),
        };
        RwLockReadGuard { inner, _held: held }
    }

    #[cfg_attr(any(debug_assertions, simulated), track_caller)]
    #[inline]
    fn acquire_exclusive(&self, order: Order) -> RwLockWriteGuard<'_, T> {
        let held = Held::enter(self.rank, order);
        #[cfg(simulated)]
        let inner = self.inner.write();
        #[cfg(not(simulated))]
        let inner = match self.inner.try_write() {
            Some(inner) => inner,
            None => waits::timed(self.rank, || self.inner.write()),
        };
        RwLockWriteGuard { inner, held }
    }
}

impl<'a, T: ?Sized> RwLockWriteGuard<'a, T> {
    /// Downgrades to shared, without a moment in which another writer could come first.
    pub fn downgrade(guard: Self) -> RwLockReadGuard<'a, T> {
        let Self { inner, held } = guard;
        RwLockReadGuard {
            inner: backend::RwLockWriteGuard::downgrade(inner),
            _held: held,
        }
    }
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}
