//! Growing table with lock-free lookups: segments of doubling size.
//!
//! Layout: the first segment holds index 0, segment `k` the indices from 2^(k-1) up to 2^k. A
//! segment is allocated when the first of its entries is needed.
//! Invariants: entries never move before the table is dropped. A lookup costs two loads and waits
//! for no allocation.
//! Locking: none; of two threads that need the same new segment, one waits for the other.

use crate::OnceLock;
use uext4_num::usize_of;

/// See the module. `N` segments have 2^(N-1) entries.
pub struct Segments<T, const N: usize>([OnceLock<Box<[T]>>; N]);

impl<T, const N: usize> Default for Segments<T, N> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| OnceLock::new()))
    }
}

impl<T: Default, const N: usize> Segments<T, N> {
    /// The entry at this index, if its segment is allocated.
    #[inline]
    pub fn get(&self, at: u32) -> Option<&T> {
        let (segment, first) = segment_of(at);
        self.0.get(segment)?.get()?.get(usize_of(at - first))
    }

    /// The entry at this index; allocates its segment if needed. `None` past the end.
    pub fn get_or_make(&self, at: u32) -> Option<&T> {
        let (segment, first) = segment_of(at);
        let places = self
            .0
            .get(segment)?
            .get_or_init(|| (0..first.max(1)).map(|_| T::default()).collect());
        places.get(usize_of(at - first))
    }

    /// All entries of the allocated segments.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter().filter_map(OnceLock::get).flat_map(|s| &**s)
    }
}

/// The segment of an index, and the first index of that segment.
#[inline]
fn segment_of(at: u32) -> (usize, u32) {
    let segment = u32::BITS - at.leading_zeros();
    let first = if segment == 0 { 0 } else { 1 << (segment - 1) };
    (usize_of(segment), first)
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::atomic::{AtomicU32, Ordering::Relaxed};

    #[test]
    fn each_slot_is_separate_and_stays() {
        let table = Segments::<AtomicU32, 5>::default();
        assert!(table.get(0).is_none() && table.get(9).is_none());
        for at in [9, 0, 1, 15, 2, 8, 7, 3, 4, 5, 6, 10, 11, 12, 13, 14] {
            table.get_or_make(at).expect("inside").store(at, Relaxed);
        }
        let says = |at: u32| table.get(at).map(|place| place.load(Relaxed));
        assert!((0..16).all(|at| says(at) == Some(at)));
        assert!(table.get_or_make(16).is_none() && says(16).is_none() && says(u32::MAX).is_none());
        assert_eq!(
            table.iter().map(|place| place.load(Relaxed)).sum::<u32>(),
            120
        );
    }

    #[test]
    fn only_what_is_wanted_is_made() {
        let table = Segments::<AtomicU32, 17>::default();
        table.get_or_make(5).expect("inside");
        assert_eq!(table.iter().count(), 4);
        assert!(table.get(4).is_some() && table.get(3).is_none() && table.get(8).is_none());
    }
}
