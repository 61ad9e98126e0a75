//! Seqlock over N words: one writer at a time, readers without a lock.
//!
//! Invariants: the writer holds a lock of the caller; the version is odd while the words change. If
//! a read overlaps a change, the reader gets `None` and reads under the lock. A reader never waits
//! for a writer, which may have been preempted.
//! References: kernel documentation, `locking/seqlock`.

use crate::atomic::{AtomicU64, Ordering::SeqCst};
use crossbeam_utils::CachePadded;

/// See the module.
pub struct SeqLock<const N: usize>(CachePadded<Inner<N>>);

struct Inner<const N: usize> {
    version: AtomicU64,
    words: [AtomicU64; N],
}

impl<const N: usize> SeqLock<N> {
    /// A seqlock over these words.
    pub fn new(words: [u64; N]) -> Self {
        Self(CachePadded::new(Inner {
            version: AtomicU64::new(0),
            words: words.map(AtomicU64::new),
        }))
    }

    /// The words; `None` if a change overlaps the read.
    pub fn read(&self) -> Option<[u64; N]> {
        let version = self.0.version.load(SeqCst);
        let words = self.words();
        (version & 1 == 0 && self.0.version.load(SeqCst) == version).then_some(words)
    }

    /// Replaces the words; writes nothing if they are equal. One caller at a time.
    pub fn publish(&self, words: [u64; N]) {
        if self.words() == words {
            return;
        }
        let version = self.0.version.load(SeqCst);
        self.0.version.store(version + 1, SeqCst);
        for (place, word) in self.0.words.iter().zip(words) {
            place.store(word, SeqCst);
        }
        self.0.version.store(version + 2, SeqCst);
    }

    fn words(&self) -> [u64; N] {
        std::array::from_fn(|at| self.0.words[at].load(SeqCst))
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn words_of_different_times_are_never_seen_together() {
        let pair = SeqLock::new([0, 0]);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut last = 0;
                    while last < 20_000 {
                        if let Some([first, second]) = pair.read() {
                            assert_eq!(first, second);
                            assert!(first >= last);
                            last = first;
                        }
                    }
                });
            }
            (1..=20_000).for_each(|step| pair.publish([step, step]));
        });
    }
}
