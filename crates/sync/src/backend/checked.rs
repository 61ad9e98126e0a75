//! The model checker's build: shuttle's locks under the names of `parking_lot`.
//!
//! Poison is ignored, as `parking_lot` knows none. Shuttle cannot downgrade a write lock, so a
//! downgraded guard stays exclusive: every schedule that it admits is a legal one, some legal ones
//! are not tried.

use shuttle::sync as raw;
use std::ops::{Deref, DerefMut};
use std::sync::{PoisonError, TryLockError, TryLockResult};
use std::time::Duration;

pub(crate) use shuttle::thread_local;

/// A number for the calling thread's shard; the same in every replay of a schedule.
pub(crate) fn thread_ordinal() -> usize {
    shuttle::current::me().into()
}

/// As on any machine with few cores: schedules do not depend on the machine.
pub(crate) fn lasting_cores() -> usize {
    1
}

fn granted<G>(result: TryLockResult<G>) -> Option<G> {
    match result {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

#[derive(Default)]
pub(crate) struct Mutex<T: ?Sized>(raw::Mutex<T>);

/// The guard is absent only inside [`Condvar::wait`], which takes it by value.
pub(crate) struct MutexGuard<'a, T: ?Sized>(Option<raw::MutexGuard<'a, T>>);

const PRESENT: &str = "a guard is absent only while its thread waits on a condition variable";

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(raw::Mutex::new(value))
    }
    pub(crate) fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> Mutex<T> {
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard(Some(self.0.lock().unwrap_or_else(PoisonError::into_inner)))
    }
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        granted(self.0.try_lock()).map(|guard| MutexGuard(Some(guard)))
    }
    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.0.as_ref().expect(PRESENT)
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect(PRESENT)
    }
}

pub(crate) struct RwLock<T: ?Sized>(raw::RwLock<T>);

pub(crate) enum RwLockReadGuard<'a, T: ?Sized> {
    Shared(raw::RwLockReadGuard<'a, T>),
    Downgraded(raw::RwLockWriteGuard<'a, T>),
}

pub(crate) struct RwLockWriteGuard<'a, T: ?Sized>(raw::RwLockWriteGuard<'a, T>);

impl<T> RwLock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(raw::RwLock::new(value))
    }
}

impl<T: ?Sized> RwLock<T> {
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
        RwLockReadGuard::Shared(self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
        RwLockWriteGuard(self.0.write().unwrap_or_else(PoisonError::into_inner))
    }
    pub(crate) fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        granted(self.0.try_read()).map(RwLockReadGuard::Shared)
    }
    pub(crate) fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        granted(self.0.try_write()).map(RwLockWriteGuard)
    }
    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'a, T: ?Sized> RwLockWriteGuard<'a, T> {
    pub(crate) fn downgrade(guard: Self) -> RwLockReadGuard<'a, T> {
        RwLockReadGuard::Downgraded(guard.0)
    }
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        match self {
            Self::Shared(guard) => guard,
            Self::Downgraded(guard) => guard,
        }
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

/// A cell that is written once. The checker cannot see a thread wait for another that makes the
/// value, so several threads may make one: the first stores its value, the others drop theirs.
pub struct OnceLock<T> {
    value: std::sync::OnceLock<T>,
    is_set: raw::atomic::AtomicBool,
}

impl<T> OnceLock<T> {
    /// A cell without a value.
    pub const fn new() -> Self {
        Self {
            value: std::sync::OnceLock::new(),
            is_set: raw::atomic::AtomicBool::new(false),
        }
    }
    /// The value; `None` until [`Self::set`] or an initializer has stored one.
    pub fn get(&self) -> Option<&T> {
        let is_set = self.is_set.load(raw::atomic::Ordering::SeqCst);
        self.value.get().filter(|_| is_set)
    }
    /// The value, mutable; `None` if none was stored.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.value.get_mut()
    }
    /// Stores `value`, or returns it if the cell is full.
    pub fn set(&self, value: T) -> Result<(), T> {
        self.value.set(value)?;
        self.is_set.store(true, raw::atomic::Ordering::SeqCst);
        Ok(())
    }
    /// Takes the stored value out.
    pub fn take(&mut self) -> Option<T> {
        self.is_set = raw::atomic::AtomicBool::new(false);
        self.value.take()
    }
    /// The stored value; stores the result of `make` first if the cell is empty.
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        if let Some(value) = self.get() {
            return value;
        }
        let _the_first_stays = self.set(make());
        self.value.get().expect("a value was just stored")
    }
}

impl<T> Default for OnceLock<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> From<T> for OnceLock<T> {
    fn from(value: T) -> Self {
        let cell = Self::new();
        let _empty = cell.set(value);
        cell
    }
}

#[derive(Default)]
pub(crate) struct Condvar(raw::Condvar);

impl Condvar {
    pub(crate) const fn new() -> Self {
        Self(raw::Condvar::new())
    }
    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let inner = guard.0.take().expect(PRESENT);
        guard.0 = Some(self.0.wait(inner).unwrap_or_else(PoisonError::into_inner));
    }
    pub(crate) fn wait_for<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        timeout: Duration,
    ) -> raw::WaitTimeoutResult {
        let inner = guard.0.take().expect(PRESENT);
        let waited = self.0.wait_timeout(inner, timeout);
        let (inner, result) = waited.unwrap_or_else(PoisonError::into_inner);
        guard.0 = Some(inner);
        result
    }
    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }
    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }
}
