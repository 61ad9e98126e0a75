//! Per-thread budget of the running operation: steps and a deadline.
//!
//! Invariants: one budget per thread; a nested operation spends the budget of the outer one.

use crate::backend;
use std::cell::Cell;
use std::time::Duration;

/// The remaining budget of steps and time of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Steps, in the unit of the spender.
    pub steps: u64,
    /// The deadline, on the clock of the spender.
    pub until: Duration,
}

backend::thread_local! {
    static LEFT: Cell<Option<Allowance>> = const { Cell::new(None) };
}

/// The thread's budget is in force while this lives.
#[derive(Debug)]
pub struct Spending(());

impl Allowance {
    /// Gives the calling thread this budget; `None` when it has one already.
    pub fn begin(self) -> Option<Spending> {
        let is_free = LEFT.with(|left| left.get().is_none());
        is_free.then(|| LEFT.with(|left| left.set(Some(self))))?;
        Some(Spending(()))
    }

    /// Spends a step; returns the budget before it, or `None` if the thread has none.
    pub fn step() -> Option<Self> {
        LEFT.with(|left| {
            let before = left.get();
            left.set(before.map(|before| Self {
                steps: before.steps.saturating_sub(1),
                ..before
            }));
            before
        })
    }
}

impl Drop for Spending {
    fn drop(&mut self) {
        LEFT.with(|left| left.set(None));
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn an_inner_operation_spends_what_the_outer_may() {
        let of = |steps| Allowance {
            steps,
            until: Duration::ZERO,
        };
        assert_eq!(Allowance::step(), None);
        let outer = of(2).begin().expect("nothing is spent yet");
        assert!(of(9).begin().is_none());
        let left: Vec<u64> = (0..4)
            .filter_map(|_| Allowance::step())
            .map(|left| left.steps)
            .collect();
        assert_eq!(left, [2, 1, 0, 0]);
        std::thread::spawn(|| assert_eq!(Allowance::step(), None))
            .join()
            .expect("it is its own");
        drop(outer);
        assert_eq!(Allowance::step(), None);
        assert!(of(1).begin().is_some());
    }
}
