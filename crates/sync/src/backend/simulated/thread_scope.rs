//! Threads that borrow: as those of `std`, and simulated beside a simulated thread.

use super::threads::{Birth, await_end};
use std::cell::RefCell;
use std::thread::Result;

/// As that of `std`.
pub struct Scope<'scope, 'env> {
    inner: &'scope std::thread::Scope<'scope, 'env>,
    tasks: RefCell<Vec<Option<usize>>>,
}

/// As that of `std`.
pub struct ScopedJoinHandle<'scope, T> {
    inner: std::thread::ScopedJoinHandle<'scope, Result<T>>,
    task: Option<usize>,
}

impl<'scope> Scope<'scope, '_> {
    /// Starts a thread.
    pub fn spawn<F, T>(&self, body: F) -> ScopedJoinHandle<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        let Some(birth) = Birth::new() else {
            let inner = self.inner.spawn(move || Ok(body()));
            return ScopedJoinHandle { inner, task: None };
        };
        let (task, started) = (Some(birth.task()), birth.started());
        let inner = self.inner.spawn(move || birth.live(body));
        started.wait();
        self.tasks.borrow_mut().push(task);
        ScopedJoinHandle { inner, task }
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
pub fn scope<'env, T>(body: impl for<'scope, 'a> FnOnce(&'a Scope<'scope, 'env>) -> T) -> T {
    std::thread::scope(|inner| {
        let tasks = RefCell::default();
        let scope = Scope { inner, tasks };
        let value = body(&scope);
        scope.tasks.into_inner().into_iter().for_each(await_end);
        value
    })
}
