//! Seqlock over N words: one writer at a time, readers without a lock.
//!
//! Invariants: those of [`SequenceCount`]. If a read overlaps a change, the reader gets `None` and
//! reads under the writer's lock. A change of one word is whole at any moment: no reader waits for
//! its end, but one that overlaps the next change as well is told so.

use crate::SequenceCount;
use crate::atomic::{AtomicU64, Ordering::SeqCst};
use crossbeam_utils::CachePadded;

/// `N` words that readers copy without a lock.
pub struct SeqLock<const N: usize>(CachePadded<Inner<N>>);

struct Inner<const N: usize> {
    sequence: SequenceCount,
    words: [AtomicU64; N],
}

impl<const N: usize> SeqLock<N> {
    /// A seqlock over these words.
    pub fn new(words: [u64; N]) -> Self {
        Self(CachePadded::new(Inner {
            sequence: SequenceCount::new(),
            words: words.map(AtomicU64::new),
        }))
    }

    /// The words; `None` if a change overlaps the read.
    pub fn read(&self) -> Option<[u64; N]> {
        let before = self.0.sequence.sample();
        let words = self.words();
        (!before.is_changing() && self.0.sequence.is_still(before)).then_some(words)
    }

    /// Replaces the words that differ: readers have the cache line, too. One caller at a time.
    pub fn publish(&self, words: [u64; N]) {
        let store = |(place, word): (&AtomicU64, u64)| place.store(word, SeqCst);
        let new = || {
            self.0
                .words
                .iter()
                .zip(words)
                .filter(|(place, word)| place.load(SeqCst) != *word)
        };
        match new().count() {
            0 => {}
            1 => {
                new().for_each(store);
                self.0.sequence.count_whole();
            }
            _ => {
                self.0.sequence.begin();
                new().for_each(store);
                self.0.sequence.end();
            }
        }
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
