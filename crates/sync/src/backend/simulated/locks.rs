//! Mutex and condition variable under the names of `parking_lot`.

use super::current::{Me, address};
use super::line::{Access, AccessSite};
use super::waiters::Side;
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::time::Duration;
use uext4_num::clamp_u64;

/// A mutex that reports its accesses, and those to its value when it is taken.
#[derive(Default)]
#[repr(transparent)]
pub(crate) struct Mutex<T: ?Sized>(parking_lot::Mutex<T>);

/// The inner guard is absent only while its thread waits on a condition variable.
pub(crate) struct MutexGuard<'a, T: ?Sized> {
    lock: &'a Mutex<T>,
    inner: Option<parking_lot::MutexGuard<'a, T>>,
    code: &'static Location<'static>,
}

const PRESENT: &str = "a guard is absent only while its thread waits on a condition variable";

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(parking_lot::Mutex::new(value))
    }
    pub(crate) fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

pub(super) fn access_by<T: ?Sized>(code: &'static Location<'static>) -> AccessSite {
    let kind = std::any::type_name::<T>();
    AccessSite { kind, code }
}

/// The value of a lock is used by the thread that has taken it.
pub(super) fn touch_value<T: ?Sized>(me: &Me, value: &T, access: Access, place: AccessSite) {
    let value = (address(value), size_of_val(value));
    me.world.access_value(me.task, value, access, place);
}

/// Lets waiters of a lock go on, after its release.
pub(super) fn released(me: &Me, address: usize) {
    let mut state = me.world.state();
    let state = &mut *state;
    state
        .waiters
        .release(address, &mut state.cores, &me.world.machine);
}

impl<T: ?Sized> Mutex<T> {
    #[track_caller]
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.acquire(Location::caller())
    }

    #[track_caller]
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.attempt(Me::observed().as_ref(), Location::caller())
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }

    fn acquire(&self, code: &'static Location<'static>) -> MutexGuard<'_, T> {
        let me = Me::observed();
        loop {
            if let Some(guard) = self.attempt(me.as_ref(), code) {
                return guard;
            }
            match &me {
                Some(me) => me.await_lock(address(self), Side::Exclusive),
                None => return self.guard(self.0.lock(), code),
            }
        }
    }

    fn attempt(
        &self,
        me: Option<&Me>,
        code: &'static Location<'static>,
    ) -> Option<MutexGuard<'_, T>> {
        let place = access_by::<Self>(code);
        if let Some(me) = me {
            me.access(address(self), Access::Update, place);
        }
        let inner = self.0.try_lock()?;
        if let Some(me) = me {
            touch_value(me, &*inner, Access::Store, place);
        }
        Some(self.guard(inner, code))
    }

    fn guard<'a>(
        &'a self,
        inner: parking_lot::MutexGuard<'a, T>,
        code: &'static Location<'static>,
    ) -> MutexGuard<'a, T> {
        MutexGuard {
            lock: self,
            inner: Some(inner),
            code,
        }
    }
}

impl<T: ?Sized> MutexGuard<'_, T> {
    fn unlock(&mut self) {
        let Some(inner) = self.inner.take() else {
            return;
        };
        let me = Me::observed();
        if let Some(me) = &me {
            let place = access_by::<Mutex<T>>(self.code);
            me.access(address(self.lock), Access::Update, place);
        }
        drop(inner);
        if let Some(me) = &me {
            released(me, address(self.lock));
        }
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        self.unlock();
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.inner.as_ref().expect(PRESENT)
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.inner.as_mut().expect(PRESENT)
    }
}

/// A condition variable that blocks simulated threads in virtual time.
#[derive(Default)]
#[repr(transparent)]
pub(crate) struct Condvar(parking_lot::Condvar);

/// As that of `parking_lot`.
pub(crate) struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    pub(crate) fn timed_out(&self) -> bool {
        self.0
    }
}

impl Condvar {
    pub(crate) const fn new() -> Self {
        Self(parking_lot::Condvar::new())
    }

    #[track_caller]
    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        match Me::observed() {
            Some(me) => _ = self.block(&me, guard, None),
            None => self.0.wait(guard.inner.as_mut().expect(PRESENT)),
        }
    }

    #[track_caller]
    pub(crate) fn wait_for<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        timeout: Duration,
    ) -> WaitTimeoutResult {
        WaitTimeoutResult(match Me::observed() {
            Some(me) => self.block(&me, guard, Some(timeout)),
            None => {
                let inner = guard.inner.as_mut().expect(PRESENT);
                self.0.wait_for(inner, timeout).timed_out()
            }
        })
    }

    /// Waits, with the guard's lock released meanwhile; true: the time is over.
    #[track_caller]
    fn block<T>(&self, me: &Me, guard: &mut MutexGuard<'_, T>, timeout: Option<Duration>) -> bool {
        let (lock, code) = (guard.lock, Location::caller());
        me.access(address(self), Access::Update, access_by::<Self>(code));
        me.access(address(lock), Access::Update, access_by::<Mutex<T>>(code));
        // From here on no other thread runs until this one is in the queue.
        guard.inner = None;
        released(me, address(lock));
        let state = me.world.state();
        let now = state.cores.now();
        let deadline =
            timeout.map(|time| now.saturating_add(clamp_u64(time.as_nanos().saturating_mul(1000))));
        let addresses = (address(self), address(lock));
        let timed_out = me.world.block(me.task, state, addresses, deadline);
        guard.inner = lock.acquire(code).inner.take();
        timed_out
    }

    #[track_caller]
    pub(crate) fn notify_one(&self) {
        self.notify(Location::caller(), |waiters, cores, machine, address| {
            waiters.notify_one(address, cores, machine);
        });
        self.0.notify_one();
    }

    #[track_caller]
    pub(crate) fn notify_all(&self) {
        self.notify(Location::caller(), |waiters, cores, machine, address| {
            waiters.notify_all(address, cores, machine);
        });
        self.0.notify_all();
    }

    fn notify(
        &self,
        code: &'static Location<'static>,
        tell: impl FnOnce(
            &mut super::waiters::Waiters,
            &mut super::cores::Cores,
            &super::machine::Machine,
            usize,
        ),
    ) {
        let Some(me) = Me::observed() else { return };
        let is_waited_for = {
            let mut state = me.world.state();
            let state = &mut *state;
            state.waiters.is_waited_for(address(self), &state.cores)
        };
        let access = if is_waited_for {
            Access::Update
        } else {
            Access::Load
        };
        me.access(address(self), access, access_by::<Self>(code));
        let mut state = me.world.state();
        let state = &mut *state;
        tell(
            &mut state.waiters,
            &mut state.cores,
            &me.world.machine,
            address(self),
        );
    }
}
