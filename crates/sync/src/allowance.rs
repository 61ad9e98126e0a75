//! What the operation that a thread is in may still spend.
//!
//! Invariants: one allowance per thread; an operation inside another spends the outer one's.

use crate::backend;
use std::cell::Cell;
use std::time::Duration;

/// What is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Steps, in whatever the spender counts.
    pub steps: u64,
    /// The end, by the clock that the spender asks.
    pub until: Duration,
}

backend::thread_local! {
    static LEFT: Cell<Option<Allowance>> = const { Cell::new(None) };
}

/// An allowance that holds while this lives.
#[derive(Debug)]
pub struct Spending(());

impl Allowance {
    /// Lets the calling thread spend this; `None` when it is spending another already.
    pub fn begin(self) -> Option<Spending> {
        let is_free = LEFT.with(|left| left.get().is_none());
        is_free.then(|| LEFT.with(|left| left.set(Some(self))))?;
        Some(Spending(()))
    }

    /// Takes a step; answers what was left before it, `None` where nobody counts.
    pub fn step() -> Option<Self> {
        LEFT.with(|left| {
            let before = left.get();
            let after = |before: Self| Self {
                steps: before.steps.saturating_sub(1),
                ..before
            };
            left.set(before.map(after));
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
        let outer = of(2).begin().expect("nobody spends yet");
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
