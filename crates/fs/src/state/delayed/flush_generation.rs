//! Tracks files that may have lost data in a failed flush, on a mount that continues after it.
//!
//! Layout: one word per file. A file is *settled* while all its data are known to be durable, and
//! *exposed* from its next write to the device until a successful `fsync`. An exposed file stores
//! the number of failed flushes at its first write. If that number has changed at an `fsync`, data
//! may be lost. A file loaded from disk is exposed since the mount, because eviction loses its
//! state.
//!
//! Invariants: each `fsync` reports a loss until the file is written again. From then on only the
//! new data count; the loss becomes a writeback error ([`super::WriteErrors`]), which each open
//! file gets once.
//! Not here: mounts that stop writing after a failed flush, where each `fsync` fails.

use uext4_sync::atomic::{AtomicU64, Ordering};

/// Flag: the data are durable.
const SETTLED: u64 = 1 << 31;
/// The loss was recorded as a writeback error.
const NOTED: u64 = 1 << 30;
/// Failed flushes when the file became exposed.
const FAILED_MASK: u64 = NOTED - 1;
/// Unit of the write counter, in the bits above all these.
const WRITE: u64 = 1 << 32;
const STATE_MASK: u64 = WRITE - 1;

#[derive(Default)]
pub(crate) struct FlushGeneration(AtomicU64);

/// The generation of a file at a moment without a write in progress.
#[derive(Clone, Copy)]
pub(crate) struct Sample(u64);

fn is_lost(word: u64, failed: u64) -> bool {
    word & SETTLED == 0 && word & FAILED_MASK != failed & FAILED_MASK
}

impl FlushGeneration {
    fn update(&self, change: impl Fn(u64) -> u64) -> u64 {
        let order = Ordering::AcqRel;
        let changed = self
            .0
            .fetch_update(order, Ordering::Acquire, |word| Some(change(word)));
        changed.unwrap_or_else(|word| word)
    }

    /// Records the start of a write to the device; `failed` flushes have failed. True if a loss
    /// must be recorded as a writeback error, because the file counts as written again.
    pub(crate) fn begin_write(&self, failed: u64) -> bool {
        let before = self.update(|word| {
            let starts_over = word & SETTLED != 0 || is_lost(word, failed);
            let state = if starts_over {
                failed & FAILED_MASK
            } else {
                word & STATE_MASK
            };
            (word & !STATE_MASK).wrapping_add(WRITE) | state
        });
        is_lost(before, failed) && before & NOTED == 0
    }

    /// A sample for [`Self::mark_flushed`]. No write of the file is in progress.
    pub(crate) fn sample(&self) -> Sample {
        Sample(self.0.load(Ordering::Acquire))
    }

    /// Whether data may be lost.
    pub(crate) fn is_lost(&self, failed: u64) -> bool {
        is_lost(self.0.load(Ordering::Acquire), failed)
    }

    /// Marks the loss recorded, at an `fsync`; true if the caller must record it.
    pub(crate) fn mark_recorded(&self, failed: u64) -> bool {
        let before = self.update(|word| {
            if is_lost(word, failed) {
                word | NOTED
            } else {
                word
            }
        });
        is_lost(before, failed) && before & NOTED == 0
    }

    /// Settles the file after a flush, unless it was written since the sample.
    pub(crate) fn mark_flushed(&self, sample: Sample) {
        let settled = sample.0 & !STATE_MASK | SETTLED;
        let order = Ordering::AcqRel;
        let _written_since = self
            .0
            .compare_exchange(sample.0, settled, order, Ordering::Acquire);
    }

    /// Resets the state for a new inode, without data.
    pub(crate) fn reset(&self) {
        self.0.store(SETTLED, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_answered_until_the_file_is_written_again() {
        let file = FlushGeneration::default();
        file.reset();
        assert!(!file.is_lost(3));
        assert!(!file.begin_write(3) && !file.is_lost(3));
        assert!(file.is_lost(4) && file.mark_recorded(4));
        assert!(file.is_lost(4) && !file.mark_recorded(4));
        assert!(!file.begin_write(4), "it was noted");
        assert!(!file.is_lost(4) && file.is_lost(5));
        assert!(file.begin_write(5), "nothing noted it");
    }

    #[test]
    fn durable_data_stay_so_and_later_ones_do_not() {
        let file = FlushGeneration::default();
        assert!(file.is_lost(1), "nothing is known of it");
        assert!(!file.is_lost(0));
        let sample = file.sample();
        file.mark_flushed(sample);
        assert!(!file.is_lost(1));
        file.begin_write(1);
        let sample = file.sample();
        file.begin_write(1);
        file.mark_flushed(sample);
        assert!(file.is_lost(2), "written after the sample");
    }
}
