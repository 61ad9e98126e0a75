//! Parts of a pass on trial: threads check parts of the file system, and one thread takes their
//! results over in order.
//!
//! A thread has a [`Check`] of its own that changes nothing but a [`Trial`]: the list of what the
//! part would record. A part that is sound by itself, and fits to what was recorded before it, is
//! taken over; any other one is checked once more by the thread that collects, as if there were no
//! other threads. So findings and their order do not depend on the number of threads.
//!
//! Invariants: what threads read does not change during a pass. Parts in work are bounded.

use crate::ahead::Turn;
use crate::links::Links;
use crate::part::{BYTES_MAX, Trial};
use crate::policies::Policies;
use crate::report::{Limits, Pass};
use crate::state::{Check, Step};
use crate::subject::Subject;
use crate::usages::Usages;
use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;
use uext4_format::{GroupDescriptor, GroupNr, InodeNr};
use uext4_num::{clamp_usize, u64_of};
use uext4_sync::{Arc, mpsc, thread};

/// Results that a thread may be ahead.
const AHEAD_MAX: usize = 2;

/// Results of a thread at a time: those ahead, one that is made, and one that is taken over.
const RESULTS_MAX: usize = AHEAD_MAX + 2;

/// Memory of a thread: its buffers and its results.
const BYTES_PER_THREAD: u64 = u64_of(RESULTS_MAX * BYTES_MAX) + (1 << 20);

/// What the threads of a pass share.
pub(crate) struct Basis<'a> {
    subject: &'a Subject,
    /// Those of a thread.
    limits: Limits,
    started: Duration,
    assumed: Arc<BTreeMap<GroupNr, Option<GroupDescriptor>>>,
    descriptors: Arc<Vec<Option<GroupDescriptor>>>,
    metadata: Arc<Vec<Range<u64>>>,
    orphans: Arc<BTreeSet<u32>>,
    links: Links,
    hasher: RandomState,
    policies: Arc<Policies>,
}

impl Basis<'_> {
    /// A check for parts on trial.
    fn check(&self) -> Check<'_> {
        let mut check = Check::new(self.subject, &self.limits);
        check.started = self.started;
        check.assumed = Arc::clone(&self.assumed);
        check.descriptors = Arc::clone(&self.descriptors);
        check.metadata = Arc::clone(&self.metadata);
        check.orphans = Arc::clone(&self.orphans);
        check.links = self.links.of_kinds();
        check.names.hasher = self.hasher.clone();
        check.policies = Arc::clone(&self.policies);
        check
    }
}

impl<'a> Check<'a> {
    /// Has `n_parts` parts of a pass checked, each by `part`, on as many threads as there may be.
    pub(crate) fn by_parts(
        &mut self,
        pass: Pass,
        n_parts: usize,
        part: impl Fn(&mut Check<'_>, Turn) -> Step + Sync,
    ) -> Step {
        let n_threads = self.limits.threads.min(n_parts).min(self.affordable());
        if n_threads < 2 {
            return self.in_order(pass, n_parts, part);
        }
        let basis = Basis {
            subject: self.subject,
            limits: Limits {
                memory_bytes: BYTES_PER_THREAD,
                watch: None,
                spill: None,
                ..self.limits.clone()
            },
            started: self.started,
            assumed: Arc::clone(&self.assumed),
            descriptors: Arc::clone(&self.descriptors),
            metadata: Arc::clone(&self.metadata),
            orphans: Arc::clone(&self.orphans),
            links: self.links.of_kinds(),
            hasher: self.names.hasher.clone(),
            policies: Arc::clone(&self.policies),
        };
        let (basis, part) = (&basis, &part);
        thread::scope(|scope| {
            let mut results = Vec::with_capacity(n_threads);
            let mut n_started = 0;
            for first in 0..n_threads {
                let (sender, receiver) = mpsc::sync_channel(AHEAD_MAX);
                results.push(receiver);
                // Without the thread nothing is sent, and this one checks its parts.
                let started = start(scope, move || {
                    let mut check = basis.check();
                    for nr in (first..n_parts).step_by(n_threads) {
                        let next = Some(nr + n_threads).filter(|next| *next < n_parts);
                        let trial = check.on_trial(|check| part(check, Turn { nr, next }));
                        // The other side ends at the first error.
                        if sender.send(trial).is_err() {
                            break;
                        }
                    }
                });
                n_started += usize::from(started.is_ok());
            }
            if n_started == 0 {
                return self.in_order(pass, n_parts, part);
            }
            (0..n_parts).try_for_each(|nr| {
                self.advance(pass, nr, n_parts);
                let trial = results[nr % n_threads].recv().ok().flatten();
                match trial.map(|trial| self.accept(trial)).transpose()? {
                    Some(true) => Ok(()),
                    _ => part(self, Turn { nr, next: None }),
                }
            })
        })
    }

    /// Checks the parts by this thread alone.
    fn in_order(
        &mut self,
        pass: Pass,
        n_parts: usize,
        part: impl Fn(&mut Check<'_>, Turn) -> Step,
    ) -> Step {
        (0..n_parts).try_for_each(|nr| {
            self.advance(pass, nr, n_parts);
            let next = Some(nr + 1).filter(|next| *next < n_parts);
            part(self, Turn { nr, next })
        })
    }

    /// How many threads there is memory for: theirs comes on top of the limit, so that the result
    /// does not depend on their number, and is a small part of it.
    fn affordable(&self) -> usize {
        clamp_usize(self.limits.memory_bytes / 8 / BYTES_PER_THREAD)
    }

    /// The result of a part; `None` if it is not sound, or needs what another part may record.
    fn on_trial(&mut self, part: impl FnOnce(&mut Self) -> Step) -> Option<Trial> {
        self.trial = Some(Trial::default());
        self.names.clear();
        let done = part(self);
        let report = std::mem::take(&mut self.report);
        let is_whole = self.values.is_empty() && self.shared.is_empty();
        (self.values, self.shared) = Default::default();
        self.memory_bytes = 0;
        let usages = std::mem::replace(&mut self.usages, Usages::of(self.superblock));
        let mut trial = self.trial.take()?;
        trial.usages = usages;
        trial.has_large_files = std::mem::take(&mut self.has_large_files);
        trial.names.extend(self.names.beyond_leaf());
        let is_sound = done.is_ok() && report.is_clean() && is_whole;
        (is_sound && trial.merge_claims()).then_some(trial)
    }

    /// Takes a result over; false, without a change, if it does not fit.
    fn accept(&mut self, trial: Trial) -> Step<bool> {
        let mut claims = trial.claims.iter();
        let fits = claims.all(|run| self.claimed.has_none(run))
            && !trial.names.iter().any(|name| self.names.has(*name))
            && self.adopt_all(&trial.children);
        if !fits {
            return Ok(false);
        }
        for run in trial.claims {
            self.claim(run)?;
        }
        for inode in trial.inodes {
            self.put_inode(inode)?;
        }
        for (nr, policy) in trial.policies {
            self.put_policy(nr, policy)?;
        }
        for nr in trial.counted {
            self.count_link(nr)?;
        }
        for (nr, up) in trial.ups {
            self.set_up(nr, up);
        }
        for nr in trial.large {
            self.put_large(nr)?;
        }
        for name in trial.names {
            self.put_name(name)?;
        }
        self.has_large_files |= trial.has_large_files;
        let n_new = self.usages.add_all(&trial.usages);
        self.take_owners(n_new)?;
        Ok(true)
    }

    fn adopt_all(&mut self, children: &[(InodeNr, InodeNr)]) -> bool {
        for (at, (nr, parent)) in children.iter().enumerate() {
            if !self.adopt(*nr, *parent) {
                for (nr, _) in &children[..at] {
                    self.links.abandon(*nr);
                }
                return false;
            }
        }
        true
    }
}

/// Starts a thread, if the system has one more.
fn start<'scope, 'env>(
    scope: &'scope thread::Scope<'scope, 'env>,
    work: impl FnOnce() + Send + 'scope,
) -> std::io::Result<()> {
    #[cfg(test)]
    tests::count_start()?;
    thread::spawn_scoped(scope, work)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::io;

    const N_PARTS: usize = 100;

    thread_local! {
        /// Threads that the system has left for this one.
        static LEFT: Cell<usize> = const { Cell::new(usize::MAX) };
    }

    pub(super) fn count_start() -> io::Result<()> {
        let left = LEFT.get().checked_sub(1);
        LEFT.set(left.ok_or(io::ErrorKind::WouldBlock)?);
        Ok(())
    }

    /// The parts in the order in which their results are taken over.
    fn taken_over(n_started: usize) -> Vec<u64> {
        let subject = Subject::of_new_image();
        let limits = Limits {
            threads: 4,
            ..Limits::default()
        };
        let mut check = Check::new(&subject, &limits);
        let numbers = u64_of(N_PARTS) * 2;
        check.claimed = crate::bits::Bits::new(numbers);
        LEFT.set(n_started);
        let done = check.by_parts(Pass::Inodes, N_PARTS, |check, turn| {
            let at = u64_of(turn.nr) * 2;
            check.claim(at..at + 1).map(|_| ())
        });
        LEFT.set(usize::MAX);
        done.expect("all parts are checked");
        let claims = check.claimed.runs_in(&(0..numbers));
        claims.into_iter().map(|run| run.start / 2).collect()
    }

    #[test]
    fn a_check_goes_on_with_the_threads_that_start() {
        let all: Vec<_> = (0..u64_of(N_PARTS)).collect();
        for n_started in 0..=4 {
            assert_eq!(taken_over(n_started), all, "{n_started} threads");
        }
    }
}
