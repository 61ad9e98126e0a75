//! Busy polling for the next request before a thread sleeps.
//!
//! Waking a thread on an idle core costs about 20 µs on a virtual machine, several times the cost
//! of a request. At most two threads of a mount poll at a time, and an idle mount uses no CPU. One
//! is not enough: it may poll on another core than the caller's, whose thread would sleep.
//! On a busy core a thread suspends polling: a polling thread yields its core and waits until the
//! other tasks have had their turn.

use std::time::{Duration, Instant};
use uext4_sync::atomic::{AtomicUsize, Ordering};
use uext4_sync::thread::yield_now;

/// Polling time before sleep: about two wake-ups.
const LOOK: Duration = Duration::from_micros(50);
/// Maximum number of polling threads of a mount.
const LOOKERS_MAX: usize = 2;
/// A longer poll was preempted.
const HELD_UP: Duration = Duration::from_micros(250);
/// Polls to skip after one that was preempted.
const RESTS: usize = 4000;
/// Count above [`LOOKERS_MAX`] that disables polling.
const NEVER: usize = usize::MAX / 2;

/// Busy-polling threads of a mount.
#[derive(Default)]
pub(super) struct Lookers {
    n_looking: AtomicUsize,
}

/// Number of polls that a thread still skips.
#[derive(Default)]
pub(crate) struct Rests(usize);

impl Rests {
    /// Whether a poll must be skipped.
    fn are_due(&self) -> bool {
        self.0 > 0
    }
}

impl Lookers {
    /// Calls `find` until it returns something. `None` when no request came, when other threads
    /// poll, or when the thread's core is busy.
    pub(super) fn look<T>(&self, rests: &mut Rests, find: impl FnMut() -> Option<T>) -> Option<T> {
        if rests.are_due() {
            rests.0 -= 1;
            return None;
        }
        let one_more = |n_looking| (n_looking < LOOKERS_MAX).then_some(n_looking + 1);
        let looking = &self.n_looking;
        looking
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more)
            .ok()?;
        let start = Instant::now();
        let found = look_for_long(start, find);
        self.n_looking.fetch_sub(1, Ordering::Relaxed);
        if start.elapsed() > HELD_UP {
            rests.0 = RESTS;
        }
        found
    }

    /// Disables polling for good.
    pub(super) fn never(&self) {
        self.n_looking.store(NEVER, Ordering::Relaxed);
    }
}

fn look_for_long<T>(start: Instant, mut find: impl FnMut() -> Option<T>) -> Option<T> {
    while start.elapsed() < LOOK {
        if let Some(found) = find() {
            return Some(found);
        }
        // The next caller may need this core.
        yield_now();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::scope;

    /// Polls until `work` was called: on a busy machine the polling time may be over before.
    fn looks(work: impl Fn(&Lookers)) -> (Lookers, Rests) {
        loop {
            let (lookers, mut rests) = (Lookers::default(), Rests::default());
            let looked = lookers.look(&mut rests, || {
                work(&lookers);
                Some(())
            });
            if looked.is_some() {
                return (lookers, rests);
            }
        }
    }

    /// Polls without skipping.
    fn look<T>(lookers: &Lookers, find: impl FnMut() -> Option<T>) -> Option<T> {
        lookers.look(&mut Rests::default(), find)
    }

    fn looks_at_once(lookers: &Lookers) -> usize {
        let mut deepest = 0;
        // Each level polls inside the one before it.
        fn deeper(lookers: &Lookers, depth: usize, deepest: &mut usize) {
            *deepest = depth.max(*deepest);
            look(lookers, || {
                deeper(lookers, depth + 1, deepest);
                Some(())
            });
        }
        deeper(lookers, 0, &mut deepest);
        deepest
    }

    fn deepest_of_many(lookers: &Lookers) -> usize {
        let tries = (0..1000).map(|_| looks_at_once(lookers));
        tries.max().expect("there are some")
    }

    #[test]
    fn no_more_look_than_may_and_each_gives_its_place_back() {
        let lookers = Lookers::default();
        assert_eq!(deepest_of_many(&lookers), LOOKERS_MAX);
        assert_eq!(lookers.n_looking.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn many_threads_keep_to_it() {
        let (lookers, inside, most) =
            (Lookers::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        let look_once = || {
            look(&lookers, || {
                let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(now, Ordering::SeqCst);
                yield_now();
                inside.fetch_sub(1, Ordering::SeqCst);
                Some(())
            })
        };
        scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..2000).for_each(|_| look_once().unwrap_or_default()));
            }
        });
        let most = most.load(Ordering::SeqCst);
        assert!((1..=LOOKERS_MAX).contains(&most), "{most} looked at once");
        assert_eq!(lookers.n_looking.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn who_was_held_up_rests_and_others_look() {
        let (lookers, mut rests) = looks(|_| {
            let start = Instant::now();
            while start.elapsed() <= HELD_UP {
                yield_now();
            }
        });
        for _ in 0..RESTS {
            assert!(rests.are_due());
            assert_eq!(
                lookers.look(&mut rests, || -> Option<()> { panic!("it rests") }),
                None
            );
        }
        assert!(!rests.are_due());
        assert_eq!(deepest_of_many(&lookers), LOOKERS_MAX);
    }

    #[test]
    fn nobody_looks_in_vain_for_long() {
        let start = Instant::now();
        assert_eq!(look(&Lookers::default(), || None::<()>), None);
        assert!(start.elapsed() >= LOOK);
    }

    #[test]
    fn never_is_for_good_also_for_who_looks_then() {
        let (lookers, _) = looks(Lookers::never);
        for _ in 0..100 {
            assert!(look(&lookers, || Some(())).is_none());
        }
    }
}
