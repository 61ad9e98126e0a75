//! Linear hashing: maps a name to a set of a table that grows in small steps.
//!
//! Each round splits the sets in order, some per step, until there are twice as many.
//!
//! Invariants: a step moves entries only from the sets that it splits to their new sets; all other
//! names keep their set.
//! Locking: none; the table's owner serializes steps.
//! References: W. Litwin, "Linear hashing" (VLDB 1980).

use std::ops::Range;
use uext4_num::low_u32;
use uext4_sync::atomic::{AtomicU32, Ordering::SeqCst};

/// Sets of the smallest table.
pub(super) const SETS_MIN: u32 = 8;
/// Sets of the largest table.
pub(super) const SETS_MAX: u32 = 1 << 24;
/// Most sets that a step splits.
const SETS_PER_STEP: u32 = 1024;

/// Size of a table, with the state of its present step.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct LinearHash {
    sets: u32,
    is_splitting: bool,
}

/// The next step of a table.
pub(super) struct Step {
    /// The sets to split, and the distance from each to its new set.
    pub(super) split: Range<u32>,
    pub(super) distance: u32,
    pub(super) next: LinearHash,
}

impl LinearHash {
    const fn of(sets: u32) -> Self {
        Self {
            sets,
            is_splitting: false,
        }
    }

    /// The set of a name whose hash is `place`, if there is any set.
    #[inline]
    pub(super) fn set_of(self, place: u64) -> Option<u32> {
        let before = 1 << self.sets.checked_ilog2()?;
        let wide = low_u32(place) & (2 * before - 1);
        Some(if wide < self.sets {
            wide
        } else {
            wide - before
        })
    }

    /// Sets that are in use.
    pub(super) fn sets(self) -> u32 {
        self.sets
    }

    /// Sets to allocate for the next step: those of its whole round, if it is the first.
    pub(super) fn wanted(self) -> u32 {
        let begins = self.sets == 0 || self.sets.is_power_of_two();
        if begins { self.sets.max(SETS_MIN) } else { 0 }
    }

    /// The next step; none when the table has its greatest size.
    pub(super) fn step(self) -> Option<Step> {
        let Some(log) = self.sets.checked_ilog2() else {
            return Some(Step {
                split: 0..0,
                distance: 0,
                next: Self::of(SETS_MIN),
            });
        };
        let (before, first) = (1 << log, self.sets - (1 << log));
        let split = first..before.min(first + SETS_PER_STEP);
        let next = Self::of(before + split.end);
        (next.sets <= SETS_MAX).then_some(Step {
            split,
            distance: before,
            next,
        })
    }

    /// Marks that the next step is in progress.
    pub(super) fn splitting(self) -> Self {
        Self {
            is_splitting: true,
            ..self
        }
    }

    /// Whether this set is being split.
    pub(super) fn splits(self, set: u32) -> bool {
        self.is_splitting && self.step().is_some_and(|step| step.split.contains(&set))
    }
}

/// Atomic [`LinearHash`]. All accesses are `SeqCst`, in one order with those of the entries.
#[derive(Default)]
pub(super) struct PublishedHash(AtomicU32);

impl PublishedHash {
    #[inline]
    pub(super) fn get(&self) -> LinearHash {
        let word = self.0.load(SeqCst);
        LinearHash {
            sets: word >> 1,
            is_splitting: word & 1 != 0,
        }
    }

    pub(super) fn set(&self, hash: LinearHash) {
        let word = hash.sets << 1 | u32::from(hash.is_splitting);
        self.0.store(word, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACES: u64 = 20_000;

    fn place(nr: u64) -> u64 {
        nr.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20
    }

    #[test]
    fn a_step_moves_names_from_the_sets_that_it_splits_and_from_no_others() {
        let mut at = PublishedHash::default().get();
        assert!(at.set_of(1).is_none() && at.wanted() == SETS_MIN);
        let (mut room, mut steps) = (0, 0);
        while at.sets() < 16 * SETS_PER_STEP {
            room += at.wanted();
            let step = at.step().unwrap();
            for place in (0..PLACES).map(place) {
                let (Some(old), Some(new)) = (at.set_of(place), step.next.set_of(place)) else {
                    continue;
                };
                let is_split = at.splitting().splits(old);
                assert_eq!(is_split, step.split.contains(&old));
                assert!(old == new || is_split && new == old + step.distance);
                assert!(new < step.next.sets() && step.next.sets() <= room);
            }
            at = step.next;
            steps += 1;
        }
        assert_eq!((at.sets(), room), (16 * SETS_PER_STEP, 16 * SETS_PER_STEP));
        assert_eq!(steps, 8 + 1 + 2 + 4 + 8, "to 1024 in rounds, then by 1024");
    }

    #[test]
    fn names_are_spread_over_all_sets() {
        let at = LinearHash::of(700);
        let mut counts = [0; 700];
        for set in (0..PLACES).filter_map(|nr| at.set_of(place(nr))) {
            counts[set as usize] += 1;
        }
        // Unsplit sets have twice as many names: of 1024 sets, 39 or 19.
        assert!(counts[..188].iter().all(|count| *count < 39));
        assert!(counts[188..512].iter().all(|count| *count > 19));
        assert!(counts[512..].iter().all(|count| (1..39).contains(count)));
    }

    #[test]
    fn a_table_has_an_end_and_what_is_published_is_read() {
        assert!(LinearHash::of(SETS_MAX).step().is_none());
        assert!(!LinearHash::of(SETS_MAX).splitting().splits(0));
        let published = PublishedHash::default();
        for hash in [LinearHash::of(8), LinearHash::of(SETS_MAX).splitting()] {
            published.set(hash);
            assert!(published.get() == hash);
        }
    }
}
