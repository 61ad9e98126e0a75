//! Sequence counter (as `seqcount_t`): odd during a change, so a reader that samples it before and
//! after its reads knows whether a change overlapped them.
//!
//! Invariants: one writer at a time, which holds a lock of the caller. What it protects is stored
//! with `Release` and read with `Acquire` at least. A reader never waits for a writer, which may
//! have been preempted. A counter wraps after 2^31 changes, far more than overlap any read.
//! References: kernel documentation, `locking/seqlock`.

use crate::atomic::{AtomicU32, Ordering::SeqCst};

/// A sequence counter: odd while a change is under way.
#[derive(Default)]
pub struct SequenceCount(AtomicU32);

/// A value of a [`SequenceCount`]; it stays until a change begins or ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequence(u32);

impl Sequence {
    /// Whether a change was in progress.
    pub fn is_changing(self) -> bool {
        self.0 & 1 != 0
    }

    /// Number of changes that had ended.
    pub fn changes(self) -> u32 {
        self.0 >> 1
    }

    /// The value after the change in progress.
    pub fn after_change(self) -> Self {
        Self((self.0 | 1).wrapping_add(1))
    }
}

impl SequenceCount {
    /// A counter before its first change.
    pub const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// Loads the counter, before or after the reads of a reader.
    #[cfg_attr(simulated, track_caller)]
    pub fn sample(&self) -> Sequence {
        Sequence(self.0.load(SeqCst))
    }

    /// Whether no change has begun or ended since the sample.
    #[cfg_attr(simulated, track_caller)]
    pub fn is_still(&self, sample: Sequence) -> bool {
        self.sample() == sample
    }

    /// Begins a change. None is in progress.
    #[cfg_attr(simulated, track_caller)]
    pub fn begin(&self) {
        let now = self.sample();
        debug_assert!(!now.is_changing(), "one change at a time");
        self.0.store(now.0.wrapping_add(1), SeqCst);
    }

    /// Counts a change that was in progress at no moment, such as the store of one word.
    #[cfg_attr(simulated, track_caller)]
    pub fn count_whole(&self) {
        let now = self.sample();
        debug_assert!(!now.is_changing(), "one change at a time");
        self.0.store(now.0.wrapping_add(2), SeqCst);
    }

    /// Ends the change in progress.
    #[cfg_attr(simulated, track_caller)]
    pub fn end(&self) {
        let now = self.sample();
        debug_assert!(now.is_changing(), "a change was begun");
        self.0.store(now.0.wrapping_add(1), SeqCst);
    }
}
