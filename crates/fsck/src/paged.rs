//! Sparse array of values by number: a page of them exists from its first change on. So memory
//! grows with what a file system has in use, not with its size.

use std::ops::Range;
use uext4_device::prefetch;
use uext4_num::{clamp_usize, u64_of};

/// Size of a page in bytes, about.
const PAGE_BYTES: usize = 4096;

/// See the module. Values are the default until they are changed.
#[derive(Clone, Default)]
pub(crate) struct Paged<T> {
    pages: Vec<Option<Box<[T]>>>,
    len: u64,
}

impl<T: Copy + Default> Paged<T> {
    const PER_PAGE: u64 = u64_of(PAGE_BYTES / size_of::<T>());

    /// Values of the numbers below `len`.
    pub(crate) fn new(len: u64) -> Self {
        let pages = clamp_usize(len.div_ceil(Self::PER_PAGE));
        Self {
            pages: vec![None; pages],
            len,
        }
    }

    /// Memory of an array without changes, in bytes.
    pub(crate) fn empty_bytes(len: u64) -> u64 {
        len.div_ceil(Self::PER_PAGE) * u64_of(size_of::<Option<Box<[T]>>>())
    }

    /// Memory that changes of these numbers take in addition, in bytes.
    pub(crate) fn more_bytes(&self, numbers: Range<u64>) -> u64 {
        let missing = self.pages_of(numbers).iter().filter(|page| page.is_none());
        u64_of(missing.count() * PAGE_BYTES)
    }

    /// Whether any of these numbers may have been changed.
    pub(crate) fn may_have(&self, numbers: Range<u64>) -> bool {
        self.pages_of(numbers).iter().any(Option::is_some)
    }

    fn pages_of(&self, numbers: Range<u64>) -> &[Option<Box<[T]>>] {
        let numbers = numbers.start..numbers.end.min(self.len);
        if numbers.is_empty() {
            return &[];
        }
        let first = clamp_usize(numbers.start / Self::PER_PAGE);
        let last = clamp_usize((numbers.end - 1) / Self::PER_PAGE);
        self.pages.get(first..=last).unwrap_or_default()
    }

    pub(crate) fn get(&self, at: u64) -> T {
        let page = self.pages.get(clamp_usize(at / Self::PER_PAGE));
        let page = page.and_then(Option::as_deref);
        let value = page.and_then(|page| page.get(clamp_usize(at % Self::PER_PAGE)));
        value.copied().unwrap_or_default()
    }

    /// Has a value ready in the cache of the processor soon.
    pub(crate) fn prefetch(&self, at: u64) {
        let page = self.pages.get(clamp_usize(at / Self::PER_PAGE));
        let page = page.and_then(Option::as_deref);
        if let Some(value) = page.and_then(|page| page.get(clamp_usize(at % Self::PER_PAGE))) {
            prefetch(std::ptr::from_ref(value).cast(), 1);
        }
    }

    /// A value to change; `None` out of bounds.
    pub(crate) fn get_mut(&mut self, at: u64) -> Option<&mut T> {
        if at >= self.len {
            return None;
        }
        let page = self.pages.get_mut(clamp_usize(at / Self::PER_PAGE))?;
        let page = page.get_or_insert_with(|| {
            vec![T::default(); clamp_usize(Self::PER_PAGE)].into_boxed_slice()
        });
        page.get_mut(clamp_usize(at % Self::PER_PAGE))
    }

    /// The numbers of all pages that exist, ascending.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u64> + use<T> {
        let there = self.pages.iter().enumerate();
        let there = there.filter(|(_, page)| page.is_some());
        let pages: Vec<u64> = there.map(|(at, _)| u64_of(at)).collect();
        let len = self.len;
        pages
            .into_iter()
            .flat_map(move |page| page * Self::PER_PAGE..((page + 1) * Self::PER_PAGE).min(len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_come_with_changes() {
        let mut paged = Paged::<u64>::new(1 << 20);
        assert!(Paged::<u64>::empty_bytes(1 << 20) <= 1 << 15);
        assert_eq!((paged.get(7), paged.get(u64::MAX)), (0, 0));
        assert_eq!(paged.more_bytes(500..600), 2 * 4096);
        *paged.get_mut(511).unwrap() = 3;
        assert_eq!(paged.more_bytes(500..600), 4096);
        assert!(paged.get_mut(1 << 20).is_none());
        assert_eq!((paged.get(511), paged.get(512)), (3, 0));
        assert!(paged.may_have(0..1) && !paged.may_have(512..1 << 30));
        assert!(!paged.may_have(9..9));
        assert_eq!(
            paged.numbers().collect::<Vec<_>>(),
            (0..512).collect::<Vec<_>>()
        );
    }
}
