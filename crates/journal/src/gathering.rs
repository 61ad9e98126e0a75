//! Gathering of callers for one commit, as jbd2 does with its batch time.
//!
//! Callers that a commit has served often come back soon, with the next change. If the next commit
//! began without them, two groups of callers would take turns, and each call would take the time of
//! two commits. So a leader waits for as many callers as were there when the last commit ended, but
//! at most for the mean time of a commit, and for [`crate::Config::max_batch`].
//!
//! Locking: all of it is under the lock of [`Progress`].

use crate::Threads;
use crate::engine::Engine;
use crate::progress::Progress;
use std::time::Duration;
use uext4_sync::MutexGuard;

/// Weight of the last commit in the mean time is one of this many parts.
const PARTS: u32 = 8;

/// How many callers come with the next commit, and how long its leader waits for them.
#[derive(Default)]
pub(crate) struct Gathering {
    /// Callers of the last commit that ended, and those that waited for the next one then.
    expected: usize,
    /// When the last commit closed.
    closed_at: Duration,
    mean: Duration,
    /// Upper limit of a wait.
    max: Duration,
}

impl Gathering {
    pub(crate) fn new(max: Duration) -> Self {
        Self {
            max,
            ..Self::default()
        }
    }

    pub(crate) fn set_max(&mut self, max: Duration) {
        self.max = max;
    }

    /// How long the leader of the next commit waits at most.
    fn patience(&self) -> Duration {
        if self.expected < 2 || self.max.is_zero() {
            return Duration::ZERO;
        }
        self.mean.min(self.max)
    }

    pub(crate) fn close(&mut self, now: Duration) {
        self.closed_at = now;
    }

    /// Callers that the next commit is likely to have.
    pub(crate) fn expected(&self) -> usize {
        self.expected
    }

    /// A commit ends with this many callers, the waiters of the next one included.
    pub(crate) fn end(&mut self, callers: usize, now: Duration) {
        let took = now.saturating_sub(self.closed_at);
        self.expected = callers;
        self.mean = if self.mean.is_zero() {
            took
        } else {
            (self.mean * (PARTS - 1) + took) / PARTS
        };
    }
}

impl Engine {
    /// Waits for the callers that the commit of this number is likely to get; the caller leads it.
    pub(crate) fn gather(&self, progress: &mut MutexGuard<'_, Progress>, number: u64) {
        // The model checker has no time.
        if cfg!(shuttle) || self.threads == Threads::Inline {
            return;
        }
        let patience = progress.gathering().patience();
        if patience.is_zero() {
            return;
        }
        let until = self.now().saturating_add(patience);
        while number > progress.closed() && progress.lacks_callers(number) {
            let left = until.saturating_sub(self.now());
            if self.gate.check().is_err() {
                return;
            }
            if left.is_zero() || self.gathered.wait_for(progress, left) {
                return;
            }
        }
    }

    /// Wakes the leader of the commit of this number if it has its callers.
    pub(crate) fn wake_gatherer(&self, progress: &mut MutexGuard<'_, Progress>, number: u64) {
        if progress.is_led_as(number) && !progress.lacks_callers(number) {
            self.gathered.notify_one();
        }
    }

    pub(crate) fn now(&self) -> Duration {
        self.clock.monotonic()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: Duration = Duration::from_millis(15);

    fn after(callers: usize, took: Duration) -> Gathering {
        let mut gathering = Gathering::new(MAX);
        gathering.end(callers, took);
        gathering
    }

    #[test]
    fn a_leader_waits_as_long_as_a_commit_and_no_longer_than_the_limit() {
        let ms = Duration::from_millis;
        assert_eq!(Gathering::new(MAX).patience(), Duration::ZERO);
        assert_eq!(after(1, ms(2)).patience(), Duration::ZERO, "it is alone");
        assert_eq!(after(2, ms(2)).patience(), ms(2));
        assert_eq!(after(2, ms(200)).patience(), MAX);
        let mut never = after(2, ms(2));
        never.set_max(Duration::ZERO);
        assert_eq!(never.patience(), Duration::ZERO);
    }
}
