//! Waiting for a state that no event reports: polls it until a deadline.
//!
//! The only place where a test sleeps. A test that needs time to pass instead waits for what the
//! time is for: a thread that ended, a request that arrived, a clock that moved. A test that
//! nothing happens watches for it during a while, so that it can fail.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Limit of [`until`]: long enough for a busy machine.
const LIMIT: Duration = Duration::from_secs(60);
/// Pause between two polls.
const PAUSE: Duration = Duration::from_millis(1);

/// Polls until `state` returns a value.
///
/// # Panics
/// `what` did not come within a minute.
#[track_caller]
pub fn until<T>(what: &str, state: impl FnMut() -> Option<T>) -> T {
    within(LIMIT, state).unwrap_or_else(|| panic!("in a minute not: {what}"))
}

/// As [`until`], for a condition.
///
/// # Panics
/// As [`until`].
#[track_caller]
pub fn until_true(what: &str, mut state: impl FnMut() -> bool) {
    until(what, || state().then_some(()));
}

/// Polls until `state` returns a value, at least once and at most for `limit`.
pub fn within<T>(limit: Duration, mut state: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        let is_over = start.elapsed() >= limit;
        match state() {
            None if !is_over => std::thread::sleep(PAUSE),
            answer => return answer,
        }
    }
}

/// Whether `state` becomes true within `limit`.
pub fn is_true_within(limit: Duration, mut state: impl FnMut() -> bool) -> bool {
    within(limit, || state().then_some(())).is_some()
}

/// Waits until the clock that stamps files has passed now, so that a later change has a later time.
///
/// A stamp may be as late as the exact clock of its moment, and the coarse clock behind it by more
/// than a tick of a busy machine. So the coarse clock must pass the exact one.
pub fn clock_tick() {
    let exact = clock_gettime(ClockId::Realtime);
    until_true("a tick of the clock", || {
        let coarse = clock_gettime(ClockId::RealtimeCoarse);
        (coarse.tv_sec, coarse.tv_nsec) > (exact.tv_sec, exact.tv_nsec)
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_polled_until_it_comes_or_the_time_is_over() {
        let mut polls = 0;
        let third = until("the third poll", || {
            polls += 1;
            (polls == 3).then_some(polls)
        });
        assert_eq!(third, 3);
        let start = Instant::now();
        let limit = Duration::from_millis(20);
        assert!(!is_true_within(limit, || false));
        assert!(start.elapsed() >= limit);
        assert_eq!(within(Duration::ZERO, || Some(1)), Some(1));
    }
}
