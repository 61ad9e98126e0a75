//! Callers that wait for the end of a commit, and their wake-up.
//!
//! The end of a commit wakes [`FAN_OUT`] of its waiters, and each woken one as many of the others:
//! a broadcast tree, which wakes n threads in log(n) steps.
//!
//! Invariants: waiters of a commit with an odd number, and of one with an even number, use one
//! condition variable each. When a commit ends, no thread waits for the one after the next. Threads
//! whose commit has ended may be asleep for a while; each of them is woken by the end, or by a
//! thread that was woken, and a thread that gets a wake-up of another one passes it on.

use uext4_sync::Condvar;

/// Threads that a thread wakes.
const FAN_OUT: usize = 2;

/// The waiters for commits with odd, or with even numbers.
#[derive(Clone, Copy, Default)]
pub(crate) struct Waiters {
    /// Those whose commit has not ended.
    pub(crate) early: usize,
    /// Those whose commit has ended.
    pub(crate) served: usize,
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
    pub(crate) fn take_wakes(&mut self) -> usize {
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

    pub(crate) fn wake_all(&self) {
        self.0.iter().for_each(Condvar::notify_all);
    }
}
