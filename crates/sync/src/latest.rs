//! Value that is read all the time and replaced a few times.
//!
//! Layout: the first value lies in place beside the number of replacements, so that a read costs
//! one more word of the same lines. Each replacement is kept behind a pointer.
//! Invariants: a reader gets one whole value, the one before a replacement or the one behind it.
//! References stay valid, because no value is dropped before the owner.
//! Locking: none; callers of [`Latest::replace`] take turns.
//!
//! The number is an atomic of `std` in every build: a model or a simulation of each read of a value
//! that hardly ever changes would tell nothing.

use crate::{OnceLock, Segments};
use std::ops::Deref;
use std::sync::atomic::{AtomicU32, Ordering};

/// See the module. It dereferences to the latest value.
pub struct Latest<T> {
    replacements: AtomicU32,
    first: T,
    later: Box<Segments<OnceLock<T>, 32>>,
}

impl<T> Latest<T> {
    /// Makes a cell whose value is `first`.
    pub fn new(first: T) -> Self {
        Self {
            replacements: AtomicU32::new(0),
            first,
            later: Box::default(),
        }
    }

    /// Replaces the value; the one before stays in memory.
    ///
    /// # Panics
    /// If another thread does so at the same time.
    pub fn replace(&self, value: T) {
        let count = self.replacements.load(Ordering::Relaxed);
        let place = self.later.get_or_make(count);
        let set = place.map(|place| place.set(value).is_ok());
        assert_eq!(set, Some(true), "replacements take turns");
        self.replacements.store(count + 1, Ordering::Release);
    }
}

impl<T> Deref for Latest<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        match self.replacements.load(Ordering::Acquire) {
            0 => &self.first,
            count => self.replacement(count - 1),
        }
    }
}

impl<T> Latest<T> {
    #[cold]
    fn replacement(&self, at: u32) -> &T {
        let found = self.later.get(at).and_then(OnceLock::get);
        found.expect("a replacement is in place before it is counted")
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn the_last_value_counts_and_the_others_stay() {
        let latest = Latest::new([0; 2]);
        let values: Vec<&[u32; 2]> = (1..100)
            .map(|nr| {
                latest.replace([nr; 2]);
                &*latest
            })
            .collect();
        assert!(values.iter().zip(1..).all(|(value, nr)| **value == [nr; 2]));
        assert_eq!(latest.first, [0; 2]);
    }

    #[test]
    fn readers_get_whole_values_that_never_go_back() {
        let latest = Latest::new([0; 64]);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let mut before = 0;
                    while before < 200 {
                        let value = *latest;
                        assert!(value.iter().all(|word| *word == value[0]) && value[0] >= before);
                        before = value[0];
                    }
                });
            }
            (1..=200).for_each(|nr| latest.replace([nr; 64]));
        });
    }
}
