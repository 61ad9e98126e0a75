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

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::{scope, sleep};

    /// Looks until `work` was called: on a busy machine the time may be over before.
    fn looks(work: impl Fn(&Lookers)) -> Lookers {
        loop {
            let lookers = Lookers::default();
            let looked = lookers.look(|| {
                work(&lookers);
                Some(())
            });
            if looked.is_some() {
                return lookers;
            }
        }
    }

    fn looks_at_once(lookers: &Lookers) -> usize {
        let mut deepest = 0;
        // Each looks while the ones before it do.
        fn deeper(lookers: &Lookers, depth: usize, deepest: &mut usize) {
            *deepest = depth.max(*deepest);
            lookers.look(|| {
                deeper(lookers, depth + 1, deepest);
                Some(())
            });
        }
        deeper(lookers, 0, &mut deepest);
        deepest
    }

    /// Before any look that was held up.
    fn rested(lookers: &Lookers) -> &Lookers {
        lookers.rests.store(0, Ordering::Relaxed);
        lookers
    }

    fn deepest_of_many(lookers: &Lookers) -> usize {
        let tries = (0..1000).map(|_| looks_at_once(rested(lookers)));
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
        let look = || {
            rested(&lookers).look(|| {
                let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(now, Ordering::SeqCst);
                yield_now();
                inside.fetch_sub(1, Ordering::SeqCst);
                Some(())
            })
        };
        scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..2000).for_each(|_| look().unwrap_or_default()));
            }
        });
        let most = most.load(Ordering::SeqCst);
        assert!((1..=LOOKERS_MAX).contains(&most), "{most} looked at once");
        assert_eq!(lookers.n_looking.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn who_was_held_up_makes_others_rest() {
        let lookers = looks(|_| sleep(2 * HELD_UP));
        let mut looked = 0;
        for _ in 0..RESTS {
            let find = || {
                looked += 1;
                Some(looked)
            };
            assert!(lookers.look(find).is_none());
        }
        assert_eq!((looked, lookers.rests.load(Ordering::Relaxed)), (0, 0));
        assert_eq!(deepest_of_many(&lookers), LOOKERS_MAX);
    }

    #[test]
    fn nobody_looks_in_vain_for_long() {
        let lookers = Lookers::default();
        let start = Instant::now();
        assert_eq!(lookers.look(|| None::<()>), None);
        assert!(start.elapsed() >= LOOK);
    }

    #[test]
    fn never_is_for_good_also_for_who_looks_then() {
        let lookers = looks(Lookers::never);
        for _ in 0..100 {
            assert!(rested(&lookers).look(|| Some(())).is_none());
        }
    }
}
