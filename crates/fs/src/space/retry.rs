//! When "no space" is believed: only after what was freed came back, and what is held in advance
//! was given up. Before it comes to that, a commit is asked for that brings back what was freed.
//!
//! Locking: whoever waits for a commit holds no handle and no live object.

use super::Space;
use super::blocks::Want;
use crate::{Error, Fs, Result};
use std::time::Duration;
use uext4_alloc::Run;
use uext4_format::Tid;
use uext4_journal::Handle;
use uext4_sync::Sharded;
use uext4_sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// How often a failed allocation waits for space that was freed.
const COMMITS_BEFORE_NO_SPACE: u32 = 64;

/// How often a failed allocation takes what is held in advance; others may hold some anew.
const DISCARDS_BEFORE_NO_SPACE: u32 = 256;

/// How often a search that found nothing is repeated though there must be something: others took
/// clusters ahead of it and gave some back behind it.
const SEARCHES_BEFORE_NO_SPACE: u32 = 16;
const WAIT: Duration = Duration::from_millis(1);

/// Counts the beginnings and ends of giving back what a transaction freed.
#[derive(Default)]
pub(super) struct Returns(AtomicU64);

impl Returns {
    /// Runs `give_back`. Commits do so one after the other.
    pub(super) fn count(&self, give_back: impl FnOnce()) {
        self.0.fetch_add(1, Ordering::SeqCst);
        give_back();
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn seen(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// A thread looks at what waits for commits at every so many frees, and at every one of so many
/// clusters: the sum over all threads costs their cache lines.
const FREES_PER_LOOK: u32 = 16;
const LARGE_CLUSTERS: u32 = 4096;

/// Commits that are asked for because space is scarce.
pub(super) struct Hurry {
    frees: Sharded<AtomicU32>,
    /// The transaction whose commit was asked for last.
    asked: AtomicU32,
}

impl Default for Hurry {
    fn default() -> Self {
        Self {
            frees: Sharded::new(|_| AtomicU32::new(0)),
            asked: AtomicU32::new(0),
        }
    }
}

impl Hurry {
    fn is_time_to_look(&self, clusters: u32) -> bool {
        let before = self.frees.local().fetch_add(1, Ordering::Relaxed);
        clusters >= LARGE_CLUSTERS || before.is_multiple_of(FREES_PER_LOOK)
    }
}

impl Space {
    /// Asks for the commit of the handle's transaction, once, when more waits for commits than is
    /// left: others go on meanwhile, and need not wait when nothing is left.
    pub(super) fn hurry_return(&self, handle: &Handle<'_>, freed: Run) {
        if !self.claims.is_scarce() || !self.hurry.is_time_to_look(freed.len) {
            return;
        }
        let Tid(tid) = handle.tid();
        let asked = self.hurry.asked.load(Ordering::Relaxed) == tid;
        if !asked && self.engine.pending().clusters() > self.claims.available() {
            self.hurry.asked.store(tid, Ordering::Relaxed);
            handle.mark_sync();
        }
    }

    /// Runs `reserve`; while it finds no space but something was freed, waits for that and runs
    /// it again. The caller holds no handle and no live object.
    pub(crate) fn with_commits<T>(
        &self,
        fs: &Fs,
        mut reserve: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        for _ in 0..COMMITS_BEFORE_NO_SPACE {
            let returns = self.returns.seen();
            match reserve() {
                Err(Error::NoSpace) if self.may_return_since(fs, returns)? => {}
                other => return other,
            }
        }
        reserve()
    }

    /// Waits for what was freed; false when nothing is, nor came back since `returns` was seen.
    fn may_return_since(&self, fs: &Fs, returns: u64) -> Result<bool> {
        if self.engine.pending().clusters() > 0 {
            fs.journal.commit_running()?;
            return Ok(true);
        }
        let now = self.returns.seen();
        if now % 2 == 1 {
            uext4_sync::thread::sleep(WAIT); // it is being given back at this moment
        }
        Ok(now % 2 == 1 || now != returns)
    }

    /// Takes up to `len` clusters from the engine. What was claimed is there: when the engine has
    /// nothing, it is held in advance, and that is given back; or it was overlooked.
    pub(super) fn take(&self, fs: &Fs, want: &Want, len: u32, min: u32) -> Result<Run> {
        let mut searches = 0;
        for _ in 0..DISCARDS_BEFORE_NO_SPACE {
            match self.take_once(fs, want, len, min) {
                Err(Error::NoSpace) if self.preallocations.clusters() > 0 => {
                    if self.discard_preallocations() == 0 {
                        // It is being taken, or trimmed, at this moment.
                        uext4_sync::thread::sleep(WAIT);
                    }
                }
                Err(Error::NoSpace) if min <= 1 && searches < SEARCHES_BEFORE_NO_SPACE => {
                    searches += 1;
                    uext4_sync::thread::yield_now();
                }
                other => return other,
            }
        }
        self.take_once(fs, want, len, min)
    }
}
