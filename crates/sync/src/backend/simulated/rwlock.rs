//! Reader-writer lock under the names of `parking_lot`. A waiting writer keeps new readers out.

use super::current::{Me, address};
use super::line::Access;
use super::locks::{access_by, released, touch_value};
use super::waiters::Side;
use std::ops::{Deref, DerefMut};
use std::panic::Location;

type Code = &'static Location<'static>;

/// A reader-writer lock that reports its accesses, and those to its value when it is taken.
#[repr(transparent)]
pub(crate) struct RwLock<T: ?Sized>(parking_lot::RwLock<T>);

/// The inner guard is absent only while this is dropped.
pub(crate) struct RwLockReadGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
    inner: Option<parking_lot::RwLockReadGuard<'a, T>>,
    code: Code,
}

/// The inner guard is absent only while this is dropped or downgraded.
pub(crate) struct RwLockWriteGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
    inner: Option<parking_lot::RwLockWriteGuard<'a, T>>,
    code: Code,
}

const PRESENT: &str = "a guard is absent only while it is dropped";

impl<T> RwLock<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(parking_lot::RwLock::new(value))
    }
}

impl<T: ?Sized> RwLock<T> {
    #[track_caller]
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
        let (me, code) = (Me::observed(), Location::caller());
        let Some(me) = me else {
            return self.shared(self.0.read(), code);
        };
        if let Some(guard) = self.try_shared(Some(&me), code, Turn::New) {
            return guard;
        }
        loop {
            me.await_lock(address(self), Side::Shared);
            if let Some(guard) = self.try_shared(Some(&me), code, Turn::Woken) {
                return guard;
            }
        }
    }

    #[track_caller]
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
        let (me, code) = (Me::observed(), Location::caller());
        let Some(me) = me else {
            return self.exclusive(self.0.write(), code);
        };
        if let Some(guard) = self.try_exclusive(Some(&me), code) {
            return guard;
        }
        let count = |is_waiting| {
            let waiters = &mut me.world.state().waiters;
            waiters.count_writer(address(self), is_waiting);
        };
        count(true);
        loop {
            me.await_lock(address(self), Side::Exclusive);
            if let Some(guard) = self.try_exclusive(Some(&me), code) {
                count(false);
                return guard;
            }
        }
    }

    #[track_caller]
    pub(crate) fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        self.try_shared(Me::observed().as_ref(), Location::caller(), Turn::New)
    }

    #[track_caller]
    pub(crate) fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        self.try_exclusive(Me::observed().as_ref(), Location::caller())
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }

    fn try_shared(
        &self,
        me: Option<&Me>,
        code: Code,
        turn: Turn,
    ) -> Option<RwLockReadGuard<'_, T>> {
        let Some(me) = me else {
            return Some(self.shared(self.0.try_read()?, code));
        };
        me.access(address(self), Access::Update, access_by::<Self>(code));
        if turn == Turn::New && me.world.state().waiters.has_writer(address(self)) {
            return None;
        }
        let inner = self.0.try_read()?;
        touch_value(me, &*inner, Access::Load, access_by::<Self>(code));
        Some(self.shared(inner, code))
    }

    fn try_exclusive(&self, me: Option<&Me>, code: Code) -> Option<RwLockWriteGuard<'_, T>> {
        if let Some(me) = me {
            me.access(address(self), Access::Update, access_by::<Self>(code));
        }
        let inner = self.0.try_write()?;
        if let Some(me) = me {
            touch_value(me, &*inner, Access::Store, access_by::<Self>(code));
        }
        Some(self.exclusive(inner, code))
    }

    fn shared<'a>(
        &'a self,
        inner: parking_lot::RwLockReadGuard<'a, T>,
        code: Code,
    ) -> RwLockReadGuard<'a, T> {
        let inner = Some(inner);
        RwLockReadGuard {
            lock: self,
            inner,
            code,
        }
    }

    fn exclusive<'a>(
        &'a self,
        inner: parking_lot::RwLockWriteGuard<'a, T>,
        code: Code,
    ) -> RwLockWriteGuard<'a, T> {
        let inner = Some(inner);
        RwLockWriteGuard {
            lock: self,
            inner,
            code,
        }
    }

    /// Releases the lock, which `inner` holds.
    fn release(&self, inner: impl Sized, code: Code) {
        let me = Me::observed();
        if let Some(me) = &me {
            me.access(address(self), Access::Update, access_by::<Self>(code));
        }
        drop(inner);
        if let Some(me) = &me {
            released(me, address(self));
        }
    }
}

/// Whether a reader was woken from its wait for the lock.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    New,
    Woken,
}

impl<'a, T: ?Sized> RwLockWriteGuard<'a, T> {
    pub(crate) fn downgrade(mut guard: Self) -> RwLockReadGuard<'a, T> {
        let (lock, code) = (guard.lock, guard.code);
        let inner = guard.inner.take().expect(PRESENT);
        let inner = parking_lot::RwLockWriteGuard::downgrade(inner);
        if let Some(me) = Me::observed() {
            me.access(address(lock), Access::Update, access_by::<RwLock<T>>(code));
            released(&me, address(lock));
        }
        lock.shared(inner, code)
    }
}

impl<T: ?Sized> Drop for RwLockReadGuard<'_, T> {
    fn drop(&mut self) {
        self.lock.release(self.inner.take(), self.code);
    }
}

impl<T: ?Sized> Drop for RwLockWriteGuard<'_, T> {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.take() {
            self.lock.release(inner, self.code);
        }
    }
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.inner.as_ref().expect(PRESENT)
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.inner.as_ref().expect(PRESENT)
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.inner.as_mut().expect(PRESENT)
    }
}
