//! A lock for what many threads read all the time and few change.
//!
//! Readers write no line that other readers write: each locks one of a handful of parts, and who
//! changes the value locks them all. It takes a kibibyte, and a change costs as much as a few
//! reads.
//! Locking: the lock's own rank. A thread takes it once at a time.

use crate::Rank;
use crate::backend::{ShardedLock, ShardedReadGuard, ShardedWriteGuard};
use crate::held::{Held, Order};
use std::ops::{Deref, DerefMut};

/// See the module.
pub struct ReadMostly<T> {
    rank: Rank,
    inner: ShardedLock<T>,
}

/// Shared guard of a [`ReadMostly`].
#[must_use = "the lock is released when the guard is dropped"]
pub struct ReadMostlyGuard<'a, T> {
    inner: ShardedReadGuard<'a, T>,
    _held: Held,
}

/// Exclusive guard of a [`ReadMostly`].
#[must_use = "the lock is released when the guard is dropped"]
pub struct ReadMostlyChange<'a, T> {
    inner: ShardedWriteGuard<'a, T>,
    _held: Held,
}

impl<T> ReadMostly<T> {
    /// A new lock of this rank.
    pub fn new(rank: Rank, value: T) -> Self {
        Self {
            rank,
            inner: ShardedLock::new(value),
        }
    }

    /// Takes the lock shared.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn read(&self) -> ReadMostlyGuard<'_, T> {
        let held = Held::enter(self.rank, Order::Rising);
        // What a thread changed when it panicked is as good as what it had not come to.
        let inner = self
            .inner
            .read()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        ReadMostlyGuard { inner, _held: held }
    }

    /// Takes the lock exclusively.
    #[cfg_attr(debug_assertions, track_caller)]
    pub fn write(&self) -> ReadMostlyChange<'_, T> {
        let held = Held::enter(self.rank, Order::Rising);
        let inner = self
            .inner
            .write()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        ReadMostlyChange { inner, _held: held }
    }
}

impl<T> Deref for ReadMostlyGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T> Deref for ReadMostlyChange<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T> DerefMut for ReadMostlyChange<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    #[test]
    fn readers_see_changes_whole() {
        let pair = ReadMostly::new(Rank::CacheShard, (0u64, 0u64));
        let looks = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while pair.read().0 < 1000 {
                        let seen = pair.read();
                        assert_eq!(seen.0 * 2, seen.1);
                        looks.fetch_add(1, Relaxed);
                    }
                });
            }
            for step in 1..=1000 {
                let mut change = pair.write();
                change.0 = step;
                change.1 = step * 2;
            }
        });
        assert_eq!(*pair.read(), (1000, 2000));
    }
}
