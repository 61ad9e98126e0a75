//! The calling thread's place in a simulation, and what code outside of this crate may ask of it.

use super::line::{Access, AccessSite};
use super::machine::Machine;
use super::report::AccessCounts;
use super::waiters::Side;
use super::world::{Baton, World};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

/// The calling thread: its simulation and its task number there.
#[derive(Clone)]
pub(super) struct Me {
    pub(super) world: Arc<World>,
    pub(super) task: usize,
}

thread_local! {
    static ME: RefCell<Option<Me>> = const { RefCell::new(None) };
    static UNOBSERVED: Cell<bool> = const { Cell::new(false) };
}

impl Me {
    /// The calling thread, if it is simulated and observed.
    pub(super) fn observed() -> Option<Self> {
        let is_unobserved = UNOBSERVED.try_with(Cell::get).unwrap_or(true);
        if is_unobserved { None } else { Self::get() }
    }

    /// The calling thread, if it is simulated.
    pub(super) fn get() -> Option<Self> {
        ME.try_with(|me| me.borrow().clone()).ok().flatten()
    }

    /// Runs `body` as this task: waits for the right to run first, and passes it on at the end.
    pub(super) fn live<T>(self, baton: &Baton, body: impl FnOnce() -> T) -> std::thread::Result<T> {
        ME.with(|me| *me.borrow_mut() = Some(self.clone()));
        baton.await_here();
        let result = catch_unwind(AssertUnwindSafe(body));
        ME.with(|me| *me.borrow_mut() = None);
        let state = self.world.state();
        self.world.leave(self.task, state);
        result
    }

    pub(super) fn access(&self, address: usize, access: Access, place: AccessSite) {
        self.world.access(self.task, address, access, place);
    }

    pub(super) fn await_lock(&self, address: usize, side: Side) {
        self.world.await_lock(self.task, address, side);
    }
}

pub(super) fn address<T: ?Sized>(value: &T) -> usize {
    std::ptr::from_ref(value).cast::<u8>().addr()
}

/// Reports an access to `value` by the calling thread.
pub(super) fn touch<T>(value: &T, access: Access, code: &'static Location<'static>) {
    if let Some(me) = Me::observed() {
        let kind = std::any::type_name::<T>();
        me.access(address(value), access, AccessSite { kind, code });
    }
}

pub(super) fn ordinal() -> Option<usize> {
    Me::get().map(|me| me.task)
}

pub(super) fn cores() -> Option<usize> {
    Me::get().map(|me| me.world.state().cores.count())
}

/// Runs `body` as the first thread of a simulation with this many cores. The answer comes when all
/// its threads have ended. A run repeats: it depends on `body` alone.
///
/// # Panics
/// When `body` panics.
pub fn run<T: Send>(machine: &Machine, cores: usize, body: impl FnOnce() -> T + Send) -> T {
    let world = Arc::new(World::new(machine.clone(), cores.max(1)));
    let (task, baton) = world.add(0);
    let me = Me { world, task };
    // A thread of its own, so that its stack has the same place in each run.
    let result = std::thread::scope(|scope| {
        scope
            .spawn(|| {
                baton.adopt();
                me.world.start();
                me.clone().live(&baton, || {
                    let value = body();
                    me.world.await_all(me.task);
                    value
                })
            })
            .join()
    });
    result
        .and_then(|value| value)
        .unwrap_or_else(|panic| resume_unwind(panic))
}

/// Whether the calling thread is simulated.
pub fn is_running() -> bool {
    Me::get().is_some()
}

/// Virtual time of the calling thread; `None` outside of a simulation.
pub fn now() -> Option<Duration> {
    let me = Me::get()?;
    let ps = me.world.state().cores.now();
    Some(Duration::from_nanos(ps / 1000))
}

/// The calling thread computes for `ps` picoseconds; no effect outside of a simulation.
pub fn work(ps: u64) {
    if let Some(me) = Me::observed() {
        me.world.work(me.task, ps);
    }
}

/// Sets the work of each thread between two accesses, in picoseconds. While another core is busy,
/// it is `busy_ps`: real cores share caches, memory and clocks.
pub fn set_work_per_access(ps: u64, busy_ps: u64) {
    if let Some(me) = Me::get() {
        let mut state = me.world.state();
        (state.work_ps, state.busy_work_ps) = (ps, busy_ps);
    }
}

/// Number of accesses of the calling thread so far.
pub fn accesses() -> u64 {
    Me::get().map_or(0, |me| me.world.state().accesses[me.task])
}

/// Begins the counts of lines anew.
pub fn reset_counts() {
    if let Some(me) = Me::get() {
        me.world.state().lines.reset_counts();
    }
}

/// The counts of the calling thread's simulation, with this many of the hottest lines.
pub fn report(lines_max: usize) -> AccessCounts {
    match Me::get() {
        Some(me) => AccessCounts::new(&me.world.state(), lines_max),
        None => AccessCounts::default(),
    }
}

/// Runs `body` without accounting: its accesses are part of something with a cost of its own. It
/// must not wait for other threads.
pub fn unobserved<T>(body: impl FnOnce() -> T) -> T {
    let before = UNOBSERVED.replace(true);
    let result = catch_unwind(AssertUnwindSafe(body));
    UNOBSERVED.set(before);
    result.unwrap_or_else(|panic| resume_unwind(panic))
}

/// Accounts a clone or drop of a reference that several cores share.
#[track_caller]
pub fn shared_count<T: ?Sized>(shared: &crate::Arc<T>) {
    if let Some(me) = Me::observed() {
        let (kind, code) = (std::any::type_name::<crate::Arc<T>>(), Location::caller());
        // The counts are the two words before the value.
        let counts = address(&**shared).wrapping_sub(2 * size_of::<usize>());
        me.access(counts, Access::Update, AccessSite { kind, code });
    }
}
