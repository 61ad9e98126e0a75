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
const POLL_TIME: Duration = Duration::from_micros(50);
/// Maximum number of polling threads of a mount.
const POLLING_MAX: usize = 2;
/// A longer poll was preempted.
const PREEMPTED: Duration = Duration::from_micros(250);
/// Polls to skip after one that was preempted.
const SKIPS: usize = 4000;
/// Count above [`POLLING_MAX`] that disables polling.
const DISABLED: usize = usize::MAX / 2;

/// Busy-polling threads of a mount.
#[derive(Default)]
pub(super) struct BusyPolling {
    n_polling: AtomicUsize,
}

/// Number of polls that a thread still skips.
#[derive(Default)]
pub(crate) struct SkippedPolls(usize);

impl SkippedPolls {
    /// Whether a poll must be skipped.
    fn is_due(&self) -> bool {
        self.0 > 0
    }
}

impl BusyPolling {
    /// Calls `find` until it returns something. `None` when no request came, when other threads
    /// poll, or when the thread's core is busy.
    pub(super) fn poll<T>(
        &self,
        skipped: &mut SkippedPolls,
        find: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        if skipped.is_due() {
            skipped.0 -= 1;
            return None;
        }
        let n_polling = &self.n_polling;
        n_polling
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n_polling| {
                (n_polling < POLLING_MAX).then_some(n_polling + 1)
            })
            .ok()?;
        let start = Instant::now();
        let found = poll_for_long(start, find);
        self.n_polling.fetch_sub(1, Ordering::Relaxed);
        if start.elapsed() > PREEMPTED {
            skipped.0 = SKIPS;
        }
        found
    }

    /// Disables polling for good.
    pub(super) fn disable(&self) {
        self.n_polling.store(DISABLED, Ordering::Relaxed);
    }
}

fn poll_for_long<T>(start: Instant, mut find: impl FnMut() -> Option<T>) -> Option<T> {
    while start.elapsed() < POLL_TIME {
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
    fn polls(work: impl Fn(&BusyPolling)) -> (BusyPolling, SkippedPolls) {
        loop {
            let (polling, mut skipped) = (BusyPolling::default(), SkippedPolls::default());
            let polled = polling.poll(&mut skipped, || {
                work(&polling);
                Some(())
            });
            if polled.is_some() {
                return (polling, skipped);
            }
        }
    }

    /// Polls without skipping.
    fn poll<T>(polling: &BusyPolling, find: impl FnMut() -> Option<T>) -> Option<T> {
        polling.poll(&mut SkippedPolls::default(), find)
    }

    fn polls_at_once(polling: &BusyPolling) -> usize {
        let mut deepest = 0;
        // Each level polls inside the one before it.
        fn deeper(polling: &BusyPolling, depth: usize, deepest: &mut usize) {
            *deepest = depth.max(*deepest);
            poll(polling, || {
                deeper(polling, depth + 1, deepest);
                Some(())
            });
        }
        deeper(polling, 0, &mut deepest);
        deepest
    }

    fn deepest_of_many(polling: &BusyPolling) -> usize {
        let tries = (0..1000).map(|_| polls_at_once(polling));
        tries.max().expect("there are some")
    }

    #[test]
    fn the_number_of_polling_threads_is_limited() {
        let polling = BusyPolling::default();
        assert_eq!(deepest_of_many(&polling), POLLING_MAX);
        assert_eq!(polling.n_polling.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn many_threads_keep_to_it() {
        let (polling, inside, most) = (
            BusyPolling::default(),
            AtomicUsize::new(0),
            AtomicUsize::new(0),
        );
        let poll_once = || {
            poll(&polling, || {
                let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
                most.fetch_max(now, Ordering::SeqCst);
                yield_now();
                inside.fetch_sub(1, Ordering::SeqCst);
                Some(())
            })
        };
        scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..2000).for_each(|_| poll_once().unwrap_or_default()));
            }
        });
        let most = most.load(Ordering::SeqCst);
        assert!((1..=POLLING_MAX).contains(&most), "{most} polled at once");
        assert_eq!(polling.n_polling.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_preempted_thread_skips_polls_and_others_poll() {
        let (polling, mut skipped) = polls(|_| {
            let start = Instant::now();
            while start.elapsed() <= PREEMPTED {
                yield_now();
            }
        });
        for _ in 0..SKIPS {
            assert!(skipped.is_due());
            assert_eq!(
                polling.poll(&mut skipped, || -> Option<()> { panic!("it skipped") }),
                None
            );
        }
        assert!(!skipped.is_due());
        assert_eq!(deepest_of_many(&polling), POLLING_MAX);
    }

    #[test]
    fn polling_ends_after_its_time() {
        let start = Instant::now();
        assert_eq!(poll(&BusyPolling::default(), || None::<()>), None);
        assert!(start.elapsed() >= POLL_TIME);
    }

    #[test]
    fn disabled_polling_stays_disabled_also_while_a_thread_polls() {
        let (polling, _) = polls(BusyPolling::disable);
        for _ in 0..100 {
            assert!(poll(&polling, || Some(())).is_none());
        }
    }
}
