//! Threads that borrow: as those of `std`, and simulated beside a simulated thread.

use super::threads::{Birth, Builder, await_end};
use std::io;
use std::thread::Result;

/// As that of `std`.
pub struct Scope<'scope, 'env> {
    inner: &'scope std::thread::Scope<'scope, 'env>,
    tasks: parking_lot::Mutex<Vec<Option<usize>>>,
}

/// As that of `std`.
pub struct ScopedJoinHandle<'scope, T> {
    inner: std::thread::ScopedJoinHandle<'scope, Result<T>>,
    task: Option<usize>,
}

impl<'scope> Scope<'scope, '_> {
    /// Starts a thread.
    ///
    /// # Panics
    /// The system starts no thread.
    pub fn spawn<F, T>(&'scope self, body: F) -> ScopedJoinHandle<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        self.start(Builder::new(), body)
            .expect("the system starts threads, as for `std`")
    }

    pub(super) fn start<F, T>(
        &'scope self,
        builder: Builder,
        body: F,
    ) -> io::Result<ScopedJoinHandle<'scope, T>>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        let builder = builder.inner();
        let Some(birth) = Birth::new() else {
            let inner = builder.spawn_scoped(self.inner, move || Ok(body()))?;
            return Ok(ScopedJoinHandle { inner, task: None });
        };
        let (task, started) = (Some(birth.task()), birth.started());
        let inner = builder.spawn_scoped(self.inner, move || birth.live(body))?;
        started.wait();
        self.tasks.lock().push(task);
        Ok(ScopedJoinHandle { inner, task })
    }
}

impl<T> ScopedJoinHandle<'_, T> {
    /// Waits until the thread ends.
    ///
    /// # Errors
    /// The thread panicked.
    pub fn join(self) -> Result<T> {
        await_end(self.task);
        self.inner.join()?
    }
}

/// Runs `body`, which may start threads that borrow; all have ended when it returns.
///
/// Leaks a few bytes: without `unsafe`, only what is never freed lives as long as `'scope`.
pub fn scope<'env, F, T>(body: F) -> T
where
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    std::thread::scope(|inner| {
        let tasks = parking_lot::Mutex::default();
        let scope: &Scope<'_, '_> = Box::leak(Box::new(Scope { inner, tasks }));
        let value = body(scope);
        let tasks = std::mem::take(&mut *scope.tasks.lock());
        tasks.into_iter().for_each(await_end);
        value
    })
}
