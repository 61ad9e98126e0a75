//! Retries before ENOSPC: a request fails only after freed space was committed and preallocations
//! were discarded. While space is scarce, an early commit returns freed space ahead of that.
//!
//! Locking: a caller that waits for a commit holds no handle and no live object.

use super::Space;
use super::blocks::Want;
use crate::state::base::{Base, Retries};
use crate::types::error::{Error, Result};
use std::time::Duration;
use uext4_alloc::Run;
use uext4_format::Tid;
use uext4_journal::Handle;
use uext4_sync::atomic::{AtomicU32, Ordering};
use uext4_sync::{Sequence, Sharded};

/// Waiting time for a thread that takes preallocations or trims them.
const WAIT: Duration = Duration::from_millis(4);

/// Frees between two checks of pending clusters by a thread; large frees always check. The sum over
/// all threads touches all their cache lines.
const FREES_PER_LOOK: u32 = 16;
const LARGE_CLUSTERS: u32 = 4096;

/// Early commits because space is scarce.
pub(super) struct EarlyCommits {
    frees: Sharded<AtomicU32>,
    /// Tid of the last requested commit.
    asked: AtomicU32,
}

impl Default for EarlyCommits {
    fn default() -> Self {
        Self {
            frees: Sharded::new(|_| AtomicU32::new(0)),
            asked: AtomicU32::new(0),
        }
    }
}

impl EarlyCommits {
    fn is_scan_due(&self, clusters: u32) -> bool {
        let before = self.frees.local().fetch_add(1, Ordering::Relaxed);
        clusters >= LARGE_CLUSTERS || before.is_multiple_of(FREES_PER_LOOK)
    }
}

impl Space {
    /// Requests the commit of the handle's transaction, once, if more clusters wait for commits
    /// than are available. Other threads continue meanwhile, and need not wait for space later.
    pub(super) fn request_early_commit(&self, handle: &Handle<'_>, freed: Run) {
        if !self.claims.is_scarce() || !self.early_commits.is_scan_due(freed.len) {
            return;
        }
        let Tid(tid) = handle.tid();
        let asked = self.early_commits.asked.load(Ordering::Relaxed) == tid;
        if !asked && self.engine.pending().clusters() > self.claims.available() {
            self.early_commits.asked.store(tid, Ordering::Relaxed);
            handle.mark_sync();
        }
    }

    /// Runs `reserve`; while it finds no space and freed clusters wait for a commit, commits and
    /// retries. The caller holds no handle and no live object.
    pub(crate) fn with_commits<T>(
        &self,
        base: &Base,
        mut reserve: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        let mut retries = Retries::default();
        loop {
            let before = self.returns.sample();
            match reserve() {
                Err(Error::NoSpace)
                    if retries.may_retry() && self.may_return_since(base, before)? => {}
                other => return other,
            }
        }
    }

    /// The count of returns, to be sampled before a request that may find no space.
    pub(crate) fn returns(&self) -> Sequence {
        self.returns.sample()
    }

    /// Whether a retry may find more: clusters returned since the sample `before`, or were pending
    /// and are waited for. The caller holds no handle and no live object.
    ///
    /// For example, a commit returns the last pending clusters: `finish_return` has taken them off
    /// the pending ones, and `claims` does not have them yet. A request that fails in between sees
    /// neither; without `returns` it would report `NoSpace` though they are about to be available.
    pub(crate) fn may_return_since(&self, base: &Base, before: Sequence) -> Result<bool> {
        let now = self.returns.sample();
        // The last of the clusters that a commit returns are no longer pending.
        if self.engine.pending().clusters() > 0 || now.is_changing() {
            base.journal.commit_running()?;
            return Ok(true);
        }
        Ok(now != before)
    }

    /// Takes up to `len` clusters from the engine. The claim guarantees that they exist. If the
    /// engine finds none, they are preallocated, and preallocations are discarded; or other threads
    /// took clusters ahead of the search and freed some behind it, and it is repeated. Retries are
    /// here, because a caller with a handle can neither fail nor start over: writeback must not run
    /// out of space that was claimed by a write.
    ///
    /// For example, thread A's search has passed group 1, which is full. Thread B returns a cluster
    /// there, and thread C claims one and takes the last of group 5, before A comes to it. A finds
    /// none, though one was free for its claim at each moment.
    ///
    /// A bitmap that the search finds unreadable or damaged is recorded and only makes its group
    /// full: freed space of another group may be enough after a commit.
    pub(super) fn take(&self, base: &Base, want: &Want, len: u32, min: u32) -> Result<Run> {
        let mut retries = Retries::default();
        loop {
            match self.take_once(base, want, len, min) {
                Ok(run) => return Ok(run),
                Err(Error::NoSpace) => {}
                Err(error) => return Err(error),
            }
            let are_held = self.preallocations.clusters() > 0;
            if !are_held && min > 1 || !retries.may_retry() {
                return Err(Error::NoSpace);
            }
            match self.discard_preallocations() {
                // Another thread is taking or trimming them right now.
                0 if are_held => uext4_sync::thread::sleep(WAIT),
                _ => uext4_sync::thread::yield_now(),
            }
        }
    }
}
