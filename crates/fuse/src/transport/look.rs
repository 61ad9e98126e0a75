//! Looking for the next request for a moment before going to sleep.
//!
//! Waking a thread on an idle core costs about 20 µs on a virtual machine, several times what a
//! request costs. At most two threads of a mount look at the same time; an idle mount uses no
//! processor time. One would not do: it may look on another core than the caller's, which sleeps
//! meanwhile and must be woken. On a core that others keep busy nobody looks for a while: who looks
//! gives the core away, and has it back when they have had their turn.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::yield_now;
use std::time::{Duration, Instant};

/// How long a thread looks before it sleeps: about two wake-ups.
const LOOK: Duration = Duration::from_micros(50);
/// Threads of a mount that look at the same time.
const LOOKERS_MAX: usize = 2;
/// A look that took longer had to wait for its core.
const HELD_UP: Duration = Duration::from_micros(250);
/// Looks left out after one that was held up.
const RESTS: usize = 4000;
/// More threads than ever look.
const NEVER: usize = usize::MAX / 2;

/// The threads of a mount that look for requests.
#[derive(Default)]
pub(super) struct Lookers {
    n_looking: AtomicUsize,
    /// Looks to leave out.
    rests: AtomicUsize,
}

impl Lookers {
    /// Calls `find` until it finds something; `None` when nothing came, when others look, or
    /// where cores are busy.
    pub(super) fn look<T>(&self, find: impl FnMut() -> Option<T>) -> Option<T> {
        let one_less = |rests: usize| rests.checked_sub(1);
        if update(&self.rests, one_less).is_ok() {
            return None;
        }
        let one_more = |n_looking| (n_looking < LOOKERS_MAX).then_some(n_looking + 1);
        update(&self.n_looking, one_more).ok()?;
        let start = Instant::now();
        let found = look_for_long(start, find);
        self.n_looking.fetch_sub(1, Ordering::Relaxed);
        if start.elapsed() > HELD_UP {
            self.rests.store(RESTS, Ordering::Relaxed);
        }
        found
    }

    /// From now on nobody looks.
    pub(super) fn never(&self) {
        self.n_looking.store(NEVER, Ordering::Relaxed);
    }
}

fn update(number: &AtomicUsize, how: impl FnMut(usize) -> Option<usize>) -> Result<usize, usize> {
    number.fetch_update(Ordering::Relaxed, Ordering::Relaxed, how)
}

fn look_for_long<T>(start: Instant, mut find: impl FnMut() -> Option<T>) -> Option<T> {
    while start.elapsed() < LOOK {
        if let Some(found) = find() {
            return Some(found);
        }
        // Whoever asks next may need this very core.
        yield_now();
    }
    None
}
