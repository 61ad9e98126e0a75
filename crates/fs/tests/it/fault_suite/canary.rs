//! Self-test of the fault suite: with a lying device, the judge must report the losses.

use super::plan::{End, Pattern, Plan};
use super::run::{E2fsck, Outcome, Run};
use super::storage::Kind;
use std::ops::RangeInclusive;
use uext4::device::{Cause, Operation, When};

/// The device lies on every access of an operation from the first one on, or on one of them.
const ALWAYS: (Pattern, When) = (Pattern::Lasting, When::Always);
const ONCE: (Pattern, When) = (
    Pattern::Single,
    When::Counted {
        after: 10,
        count: 1,
    },
);

/// A run whose other parameters are drawn from a seed.
struct Case {
    operation: Operation,
    lies: (Pattern, When),
    has_journal: bool,
    end: End,
}

impl Case {
    fn run(&self, seed: u64, kind: Kind) -> Outcome {
        let mut run = Run::new(seed);
        run.plan = Plan {
            has_journal: self.has_journal,
            fast_commits: false,
            operation: self.operation,
            cause: Cause::Lie,
            pattern: self.lies.0,
            when: self.lies.1.clone(),
            end: self.end,
            ..run.plan
        };
        run.go(kind, E2fsck::LeftOut)
    }

    /// Number of runs with a lie, and of those in which the judge reported a loss.
    fn found(&self, seeds: RangeInclusive<u64>, kind: Kind) -> (u64, u64) {
        let outcomes = seeds.map(|seed| self.run(seed, kind));
        let lied = outcomes.filter(|outcome| outcome.injected > 0);
        lied.fold((0, 0), |(lied, found), outcome| {
            let is_found = outcome.failed.iter().any(|said| tells_of_a_loss(said));
            (lied + 1, found + u64::from(is_found))
        })
    }
}

/// True for a message about a loss: acknowledged bytes, a name, or the next mount.
fn tells_of_a_loss(said: &str) -> bool {
    ["block ", "no such file", "the next mount"]
        .iter()
        .any(|words| said.contains(words))
}

fn cases(lies: &(Pattern, When), end: End) -> impl Iterator<Item = Case> {
    [Operation::Flush, Operation::Write]
        .into_iter()
        .flat_map(move |operation| {
            [true, false].map(|has_journal| Case {
                operation,
                lies: lies.clone(),
                has_journal,
                end,
            })
        })
}

/// Flushes that lose the cache and are acknowledged, and writes that are discarded.
#[test]
fn a_device_that_always_lies_is_found_out_every_time() {
    for end in [End::Cut, End::Unmount, End::Healthy] {
        for case in cases(&ALWAYS, end) {
            let (operation, has_journal) = (case.operation, case.has_journal);
            for (kind, seeds) in [(Kind::Memory, 4), (Kind::File, 2)] {
                let (lied, found) = case.found(1..=seeds, kind);
                let said = format!("{kind:?}, {operation:?}, journal {has_journal}, {end:?}");
                assert_eq!((lied, found), (seeds, seeds), "{said}");
            }
        }
    }
}

/// A single lie does not always affect acknowledged data.
#[test]
fn a_device_that_lies_once_is_found_out_sometimes() {
    let (mut lied, mut found) = (0, 0);
    for case in cases(&ONCE, End::Healthy) {
        let some = case.found(1..=20, Kind::Memory);
        (lied, found) = (lied + some.0, found + some.1);
    }
    assert!(lied > 60 && found > 3, "{found} of {lied}");
}

/// A failed flush that neither an `fsync` nor the unmount reports, as in a file system that ignores
/// the error.
#[test]
fn a_lost_flush_that_is_not_reported_is_found_out() {
    for case in cases(&ONCE, End::Healthy).filter(|case| case.operation == Operation::Flush) {
        let outcome = case.run(1, Kind::Memory);
        let told = outcome
            .failed
            .iter()
            .any(|said| said.contains("says nothing"));
        assert!(told, "journal {}: {:?}", case.has_journal, outcome.failed);
    }
}
