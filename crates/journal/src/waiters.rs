//! Callers that wait for the end of a commit, and their wake-up.
//!
//! The end of a commit wakes [`FAN_OUT`] of its waiters, and each woken one as many of the others:
//! a broadcast tree, which wakes n threads in log(n) steps.
//!
//! Invariants: waiters of a commit with an odd number, and of one with an even number, use one
//! condition variable each. When a commit ends, no thread waits for the one after the next. Threads
//! whose commit has ended may be asleep for a while; each of them is woken by the end, or by a
//! thread that was woken, and a thread that gets a wake-up of another one passes it on.

use crate::engine::Engine;
use crate::group_commit::Progress;
use uext4_sync::{Condvar, MutexGuard};

/// Threads that a thread wakes.
const FAN_OUT: usize = 2;

/// The waiters for commits with odd, or with even numbers.
#[derive(Clone, Copy, Default)]
pub(crate) struct Waiters {
    /// Those whose commit has not ended.
    pub(crate) early: usize,
    /// Those whose commit has ended.
    served: usize,
    /// Those of the latter that no thread has woken.
    asleep: usize,
}

impl Waiters {
    /// Their commit has ended.
    pub(crate) fn serve(&mut self) {
        self.asleep += self.early;
        self.served += std::mem::take(&mut self.early);
    }

    /// Takes the number of threads that the caller wakes.
    fn take_wakes(&mut self) -> usize {
        let wakes = self.asleep.min(FAN_OUT);
        self.asleep -= wakes;
        wakes
    }
}

/// Condition variables of the commits with even and with odd numbers.
pub(crate) struct Ends([Condvar; 2]);

impl Ends {
    pub(crate) fn new() -> Self {
        Self([Condvar::new(), Condvar::new()])
    }

    pub(crate) fn of(&self, number: u64) -> &Condvar {
        let [even, odd] = &self.0;
        if number.is_multiple_of(2) { even } else { odd }
    }

    /// Wakes all waiters.
    pub(crate) fn tell_all(&self) {
        self.0.iter().for_each(Condvar::notify_all);
    }
}

impl Progress {
    pub(crate) fn waiters(&mut self, number: u64) -> &mut Waiters {
        let [even, odd] = &mut self.waiters;
        if number.is_multiple_of(2) { even } else { odd }
    }
}

impl Engine {
    /// Waits for the end of this commit, or for the lead of it. Wake-ups may be spurious. A caller
    /// whose commit has ended calls [`Self::wake_more`] then.
    pub(crate) fn await_end(&self, progress: &mut MutexGuard<'_, Progress>, number: u64) {
        progress.waiters(number).early += 1;
        self.tell_gatherer(progress, number);
        self.ends.of(number).wait(progress);
        let is_over = number <= progress.ended;
        let waiters = progress.waiters(number);
        match is_over {
            true => waiters.served -= 1,
            false => waiters.early -= 1,
        }
        if !is_over && waiters.served > 0 {
            // Perhaps the wake-up of one of those.
            self.ends.of(number).notify_one();
        }
        if is_over && number.is_multiple_of(2) != progress.closed.is_multiple_of(2) {
            // Perhaps the call of the next leader, which uses the same condition variable.
            self.wake_leader(progress);
        }
    }

    /// Wakes some of those whose commit has ended, after the release of the lock.
    pub(crate) fn wake_more(&self, mut progress: MutexGuard<'_, Progress>, number: u64) {
        let wakes = progress.waiters(number).take_wakes();
        drop(progress);
        (0..wakes).for_each(|_| self.ends.of(number).notify_one());
    }
}
