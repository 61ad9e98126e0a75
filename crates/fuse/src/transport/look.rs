//! Looking for the next request for a moment before going to sleep.
//!
//! Waking a thread on an idle core costs about 20 µs on a virtual machine, several times what a
//! request costs. At most two threads of a mount look at the same time; an idle mount uses no
//! processor time. One would not do: it may look on another core than the caller's, which sleeps
//! meanwhile and must be woken.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::yield_now;
use std::time::{Duration, Instant};

/// How long a thread looks before it sleeps: about two wake-ups.
const LOOK: Duration = Duration::from_micros(50);
/// Threads of a mount that look at the same time.
const LOOKERS_MAX: usize = 2;
/// More threads than ever look.
const NEVER: usize = usize::MAX / 2;

/// The threads of a mount that look for requests.
#[derive(Default)]
pub(super) struct Lookers(AtomicUsize);

impl Lookers {
    /// Calls `find` until it finds something; `None` when nothing came, or when others look.
    pub(super) fn look<T>(&self, find: impl FnMut() -> Option<T>) -> Option<T> {
        let one_more = |n_lookers| (n_lookers < LOOKERS_MAX).then_some(n_lookers + 1);
        self.0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more)
            .ok()?;
        let found = look_for_long(find);
        self.0.fetch_sub(1, Ordering::Relaxed);
        found
    }

    /// From now on nobody looks.
    pub(super) fn never(&self) {
        self.0.store(NEVER, Ordering::Relaxed);
    }
}

fn look_for_long<T>(mut find: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    while start.elapsed() < LOOK {
        if let Some(found) = find() {
            return Some(found);
        }
        // Whoever asks next may need this very core.
        yield_now();
    }
    None
}
