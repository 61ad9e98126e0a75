//! Which files may have lost data with a flush that failed, on a mount that goes on after it.
//!
//! Layout: a word per file. A file is *settled* while all its data are known to be durable, and
//! *exposed* from its first write to the device after that until an `fsync` that succeeds. An
//! exposed file remembers the number of failed flushes when it became so: if that differs from the
//! number at an `fsync`, data may be lost. A file that comes from the disk is exposed from the
//! mount on, since what is known of a file goes when it leaves memory.
//!
//! Invariants: a loss is answered by each `fsync` until the file is written again. From then on its
//! new data count, and the loss is told as a failure to write out ([`super::WriteErrors`]), once to
//! each open file that was not told.
//! Not here: mounts that stop writing after a failed flush, where each `fsync` fails.

use uext4_sync::atomic::{AtomicU64, Ordering};

/// The data are durable.
const SETTLED: u64 = 1 << 31;
/// A loss was noted as a failure to write out.
const NOTED: u64 = 1 << 30;
/// Failed flushes when the file became exposed.
const FAILED_MASK: u64 = NOTED - 1;
/// Above all these: writes, counted.
const WRITE: u64 = 1 << 32;
const STATE_MASK: u64 = WRITE - 1;

/// See the module.
#[derive(Default)]
pub(crate) struct Exposure(AtomicU64);

/// The exposure of a file at a moment without a write in progress.
#[derive(Clone, Copy)]
pub(crate) struct Sample(u64);

fn is_lost(word: u64, failed: u64) -> bool {
    word & SETTLED == 0 && word & FAILED_MASK != failed & FAILED_MASK
}

impl Exposure {
    fn update(&self, change: impl Fn(u64) -> u64) -> u64 {
        let order = Ordering::AcqRel;
        let changed = self
            .0
            .fetch_update(order, Ordering::Acquire, |word| Some(change(word)));
        changed.unwrap_or_else(|word| word)
    }

    /// A write to the device begins; `failed` flushes have failed. True when a loss is to be noted:
    /// the file counts as written again.
    pub(crate) fn begin_write(&self, failed: u64) -> bool {
        let before = self.update(|word| {
            let starts_over = word & SETTLED != 0 || is_lost(word, failed);
            let state = match starts_over {
                true => failed & FAILED_MASK,
                false => word & STATE_MASK,
            };
            (word & !STATE_MASK).wrapping_add(WRITE) | state
        });
        is_lost(before, failed) && before & NOTED == 0
    }

    /// For [`Self::settle`]. No write of the file is in progress.
    pub(crate) fn sample(&self) -> Sample {
        Sample(self.0.load(Ordering::Acquire))
    }

    /// Whether data may be lost.
    pub(crate) fn is_lost(&self, failed: u64) -> bool {
        is_lost(self.0.load(Ordering::Acquire), failed)
    }

    /// The loss is answered to an `fsync`; true when it is to be noted.
    pub(crate) fn note(&self, failed: u64) -> bool {
        let note = |word| {
            if is_lost(word, failed) {
                word | NOTED
            } else {
                word
            }
        };
        let before = self.update(note);
        is_lost(before, failed) && before & NOTED == 0
    }

    /// What was written before the sample is durable. A write since then keeps the file exposed.
    pub(crate) fn settle(&self, sample: Sample) {
        let settled = sample.0 & !STATE_MASK | SETTLED;
        let order = Ordering::AcqRel;
        let _written_since = self
            .0
            .compare_exchange(sample.0, settled, order, Ordering::Acquire);
    }

    /// The inode is another one, without data.
    pub(crate) fn reset(&self) {
        self.0.store(SETTLED, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loss_is_answered_until_the_file_is_written_again() {
        let file = Exposure::default();
        file.reset();
        assert!(!file.is_lost(3));
        assert!(!file.begin_write(3) && !file.is_lost(3));
        assert!(file.is_lost(4) && file.note(4));
        assert!(file.is_lost(4) && !file.note(4));
        assert!(!file.begin_write(4), "it was noted");
        assert!(!file.is_lost(4) && file.is_lost(5));
        assert!(file.begin_write(5), "nothing noted it");
    }

    #[test]
    fn durable_data_stay_so_and_later_ones_do_not() {
        let file = Exposure::default();
        assert!(file.is_lost(1), "nothing is known of it");
        assert!(!file.is_lost(0));
        let sample = file.sample();
        file.settle(sample);
        assert!(!file.is_lost(1));
        file.begin_write(1);
        let sample = file.sample();
        file.begin_write(1);
        file.settle(sample);
        assert!(file.is_lost(2), "written after the sample");
    }
}
