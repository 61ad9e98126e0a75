//! Threads: those that a simulated thread starts are simulated, too.

use super::current::Me;
use super::thread_scope::{Scope, ScopedJoinHandle};
use super::world::Baton;
use std::io;
use std::sync::{Arc, Barrier};
use std::thread::{Result, Thread};
use std::time::Duration;
use uext4_num::clamp_u64;

/// As that of `std`.
pub struct JoinHandle<T> {
    inner: std::thread::JoinHandle<Result<T>>,
    /// Number of the task; `None` outside of a simulation.
    task: Option<usize>,
}

impl<T> JoinHandle<T> {
    /// Waits until the thread ends.
    ///
    /// # Errors
    /// The thread panicked.
    pub fn join(self) -> Result<T> {
        await_end(self.task);
        self.inner.join()?
    }
    /// Name and id of the thread.
    pub fn thread(&self) -> &Thread {
        self.inner.thread()
    }
    /// Whether it has ended.
    pub fn is_finished(&self) -> bool {
        match (Me::get(), self.task) {
            (Some(me), Some(task)) => me.world.state().cores.is_done(task),
            _ => self.inner.is_finished(),
        }
    }
}

/// The calling thread waits until the task of its simulation ends.
pub(super) fn await_end(task: Option<usize>) {
    if let (Some(me), Some(task)) = (Me::get(), task) {
        me.world.await_end(me.task, task);
    }
}

/// A task that is about to begin, and the barrier at which its creator waits for the start of the
/// OS thread: starting it would allocate beside others, and the places of allocations would change
/// from run to run.
pub(super) struct Birth {
    me: Me,
    baton: Arc<Baton>,
    started: Arc<Barrier>,
}

impl Birth {
    /// A new task beside the calling thread, if that is simulated.
    pub(super) fn new() -> Option<Self> {
        let Me { world, .. } = Me::get()?;
        let start = world.state().cores.now() + world.machine.wake_latency_ps;
        let (task, baton) = world.add(start);
        Some(Self {
            me: Me { world, task },
            baton,
            started: Arc::new(Barrier::new(2)),
        })
    }

    pub(super) fn task(&self) -> usize {
        self.me.task
    }

    pub(super) fn started(&self) -> Arc<Barrier> {
        self.started.clone()
    }

    /// Runs `body` as the task.
    pub(super) fn live<T>(self, body: impl FnOnce() -> T) -> Result<T> {
        self.baton.adopt();
        self.started.wait();
        self.me.live(&self.baton, body)
    }
}

/// Starts a thread.
///
/// # Panics
/// The system starts no thread.
pub fn spawn<F, T>(body: F) -> JoinHandle<T>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    Builder::new()
        .spawn(body)
        .expect("the system starts threads, as for `std`")
}

/// As that of `std`.
#[derive(Default)]
pub struct Builder(Option<String>);

impl Builder {
    /// A builder for a thread without a name.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives the thread a name.
    pub fn name(self, name: String) -> Self {
        Self(Some(name))
    }

    pub(super) fn inner(self) -> std::thread::Builder {
        let inner = std::thread::Builder::new();
        match self.0 {
            Some(name) => inner.name(name),
            None => inner,
        }
    }

    /// Starts the thread.
    ///
    /// # Errors
    /// The system starts no thread.
    pub fn spawn<F, T>(self, body: F) -> io::Result<JoinHandle<T>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let Some(birth) = Birth::new() else {
            let inner = self.inner().spawn(move || Ok(body()))?;
            return Ok(JoinHandle { inner, task: None });
        };
        let (task, started) = (Some(birth.task()), birth.started());
        let inner = self.inner().spawn(move || birth.live(body))?;
        started.wait();
        Ok(JoinHandle { inner, task })
    }

    /// Starts a thread that borrows.
    ///
    /// # Errors
    /// The system starts no thread.
    pub fn spawn_scoped<'scope, 'env, F, T>(
        self,
        scope: &'scope Scope<'scope, 'env>,
        body: F,
    ) -> io::Result<ScopedJoinHandle<'scope, T>>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        scope.start(self, body)
    }
}

/// Sleeps, in virtual time if the calling thread is simulated.
pub fn sleep(time: Duration) {
    match Me::get() {
        Some(me) => me
            .world
            .sleep(me.task, clamp_u64(time.as_nanos().saturating_mul(1000))),
        None => std::thread::sleep(time),
    }
}

/// Lets other threads run.
pub fn yield_now() {
    match Me::get() {
        Some(me) => me.world.yield_now(me.task),
        None => std::thread::yield_now(),
    }
}
