//! Sparse array of numbers: a page of them takes memory from the first change on in which they
//! differ. So memory grows with what a file system has in use, not with its size.
//!
//! When memory is short ([`Paged::make_room`]), pages of equal numbers become one number, and the
//! others move to a temporary file, where new pages are from then on.

use std::ops::Range;
use uext4_device::{SCRATCH_PAGE_BYTES as PAGE_BYTES, Scratch, prefetch};
use uext4_num::{clamp_usize, u64_of};
use uext4_sync::Arc;

/// Numbers of an array.
pub(crate) trait Number: Copy + Default + PartialEq {
    type Bytes: AsRef<[u8]> + AsMut<[u8]> + Default;

    fn bytes(self) -> Self::Bytes;
    fn of(bytes: Self::Bytes) -> Self;
}

impl Number for u8 {
    type Bytes = [u8; 1];

    fn bytes(self) -> [u8; 1] {
        [self]
    }
    fn of([number]: [u8; 1]) -> Self {
        number
    }
}

impl Number for u64 {
    type Bytes = [u8; 8];

    fn bytes(self) -> [u8; 8] {
        self.to_ne_bytes()
    }
    fn of(bytes: [u8; 8]) -> Self {
        Self::from_ne_bytes(bytes)
    }
}

/// See the module. Numbers are zero until they are changed.
pub(crate) struct Paged<T> {
    pages: Vec<Page<T>>,
    len: u64,
    /// Where pages of numbers are; all are in memory without it.
    scratch: Option<Arc<Scratch>>,
    /// Whether new pages are in memory, as the file cannot grow.
    is_full: bool,
}

enum Page<T> {
    /// All numbers are this one.
    Same(T),
    Memory(Box<[T]>),
    /// At this offset of the file.
    File(u64),
}

impl<T> Default for Paged<T> {
    fn default() -> Self {
        Self {
            pages: Vec::new(),
            len: 0,
            scratch: None,
            is_full: false,
        }
    }
}

impl<T: Number> Clone for Paged<T> {
    /// A copy in memory.
    fn clone(&self) -> Self {
        let pages = self.pages.iter().map(|page| match page {
            Page::Same(all) => Page::Same(*all),
            Page::Memory(page) => Page::Memory(page.clone()),
            Page::File(start) => {
                let numbers = 0..PAGE_BYTES / size_of::<T>();
                Page::Memory(numbers.map(|at| self.in_file(*start, at)).collect())
            }
        });
        Self {
            pages: pages.collect(),
            len: self.len,
            scratch: None,
            is_full: false,
        }
    }
}

impl<T: Number> Paged<T> {
    const PER_PAGE: u64 = u64_of(PAGE_BYTES / size_of::<T>());

    /// Numbers at the places below `len`.
    pub(crate) fn new(len: u64) -> Self {
        let pages = clamp_usize(len.div_ceil(Self::PER_PAGE));
        Self {
            pages: (0..pages).map(|_| Page::Same(T::default())).collect(),
            len,
            ..Self::default()
        }
    }

    /// Memory of an array without changes, in bytes.
    pub(crate) fn empty_bytes(len: u64) -> u64 {
        len.div_ceil(Self::PER_PAGE) * u64_of(size_of::<Page<T>>())
    }

    /// Memory that changes at these places take in addition, in bytes.
    pub(crate) fn more_bytes(&self, places: Range<u64>) -> u64 {
        if self.scratch.is_some() && !self.is_full {
            return 0;
        }
        let same = self.pages_of(places).iter();
        let same = same.filter(|page| matches!(page, Page::Same(_)));
        u64_of(same.count() * PAGE_BYTES)
    }

    /// Whether any number at these places may be other than zero.
    pub(crate) fn may_have(&self, places: Range<u64>) -> bool {
        self.pages_of(places).iter().any(Self::is_used)
    }

    fn is_used(page: &Page<T>) -> bool {
        !matches!(page, Page::Same(all) if *all == T::default())
    }

    fn pages_of(&self, places: Range<u64>) -> &[Page<T>] {
        let places = places.start..places.end.min(self.len);
        if places.is_empty() {
            return &[];
        }
        let first = clamp_usize(places.start / Self::PER_PAGE);
        let last = clamp_usize((places.end - 1) / Self::PER_PAGE);
        self.pages.get(first..=last).unwrap_or_default()
    }

    pub(crate) fn get(&self, at: u64) -> T {
        let place = clamp_usize(at % Self::PER_PAGE);
        match self.pages.get(clamp_usize(at / Self::PER_PAGE)) {
            None => T::default(),
            Some(Page::Same(all)) => *all,
            Some(Page::Memory(page)) => page.get(place).copied().unwrap_or_default(),
            Some(Page::File(start)) => self.in_file(*start, place),
        }
    }

    fn in_file(&self, start: u64, place: usize) -> T {
        let mut bytes = T::Bytes::default();
        if let Some(scratch) = &self.scratch {
            scratch.read(start + u64_of(place * size_of::<T>()), bytes.as_mut());
        }
        T::of(bytes)
    }

    /// Has a number ready in the cache of the processor soon.
    pub(crate) fn prefetch(&self, at: u64) {
        if let Some(Page::Memory(page)) = self.pages.get(clamp_usize(at / Self::PER_PAGE))
            && let Some(value) = page.get(clamp_usize(at % Self::PER_PAGE))
        {
            prefetch(std::ptr::from_ref(value).cast(), 1);
        }
    }

    /// Changes a number; false out of bounds.
    pub(crate) fn set(&mut self, at: u64, number: T) -> bool {
        if at >= self.len {
            return false;
        }
        let place = clamp_usize(at % Self::PER_PAGE);
        let nr = clamp_usize(at / Self::PER_PAGE);
        if let Some(Page::Same(all)) = self.pages.get(nr) {
            let all = *all;
            self.pages[nr] = self.page_of(vec![all; PAGE_BYTES / size_of::<T>()].into());
        }
        match self.pages.get_mut(nr) {
            Some(Page::Memory(page)) => page[place] = number,
            Some(Page::File(start)) => {
                if let Some(scratch) = &self.scratch {
                    let at = *start + u64_of(place * size_of::<T>());
                    scratch.write(at, number.bytes().as_ref());
                }
            }
            Some(Page::Same(_)) | None => {}
        }
        true
    }

    /// A page of numbers: in the file, as long as that can grow.
    fn page_of(&mut self, numbers: Box<[T]>) -> Page<T> {
        if let (Some(scratch), false) = (&self.scratch, self.is_full) {
            let mut bytes = [0; PAGE_BYTES];
            for (number, to) in numbers.iter().zip(bytes.chunks_exact_mut(size_of::<T>())) {
                to.copy_from_slice(number.bytes().as_ref());
            }
            match scratch.page(&bytes) {
                Ok(start) => return Page::File(start),
                Err(_full) => self.is_full = true,
            }
        }
        Page::Memory(numbers)
    }

    /// The places of all pages with numbers that may be other than zero, ascending.
    pub(crate) fn places(&self) -> impl Iterator<Item = u64> + use<T> {
        let used = self.pages.iter().enumerate();
        let used = used.filter(|(_, page)| Self::is_used(page));
        let pages: Vec<u64> = used.map(|(at, _)| u64_of(at)).collect();
        let len = self.len;
        pages
            .into_iter()
            .flat_map(move |page| page * Self::PER_PAGE..((page + 1) * Self::PER_PAGE).min(len))
    }

    /// Gives memory back, as the module says, to a file if there is one; returns how many bytes.
    pub(crate) fn make_room(&mut self, scratch: Option<&Arc<Scratch>>) -> u64 {
        if self.scratch.is_none() {
            self.scratch = scratch.cloned();
        }
        let mut n_freed = 0;
        for at in 0..self.pages.len() {
            let Page::Memory(numbers) = &mut self.pages[at] else {
                continue;
            };
            let first = numbers.first().copied().unwrap_or_default();
            let page = if numbers.iter().all(|number| *number == first) {
                Page::Same(first)
            } else {
                let numbers = std::mem::take(numbers);
                self.page_of(numbers)
            };
            n_freed += u64::from(!matches!(page, Page::Memory(_)));
            self.pages[at] = page;
        }
        n_freed * u64_of(PAGE_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_come_with_changes() {
        let mut paged = Paged::<u64>::new(1 << 20);
        assert!(Paged::<u64>::empty_bytes(1 << 20) <= 3 << 14);
        assert_eq!((paged.get(7), paged.get(u64::MAX)), (0, 0));
        assert_eq!(paged.more_bytes(500..600), 2 * 4096);
        assert!(paged.set(511, 3));
        assert_eq!(paged.more_bytes(500..600), 4096);
        assert!(!paged.set(1 << 20, 3));
        assert_eq!((paged.get(511), paged.get(512)), (3, 0));
        assert!(paged.may_have(0..1) && !paged.may_have(512..1 << 30));
        assert!(!paged.may_have(9..9));
        assert_eq!(
            paged.places().collect::<Vec<_>>(),
            (0..512).collect::<Vec<_>>()
        );
    }
    /// Three kinds of pages: of zeroes, of one other number, of several.
    fn filled() -> Paged<u8> {
        let mut paged = Paged::<u8>::new(5 * 4096);
        for at in 4096..2 * 4096 {
            assert!(paged.set(at, 7));
        }
        for at in [3 * 4096, 5 * 4096 - 1] {
            assert!(paged.set(at, 9));
        }
        paged
    }

    #[test]
    fn numbers_stay_when_their_memory_goes() {
        let scratch = Arc::new(Scratch::in_dir(&std::env::temp_dir()).unwrap());
        let numbers = |paged: &Paged<u8>| (0..5 * 4096).map(|at| paged.get(at)).collect::<Vec<_>>();
        let expected = numbers(&filled());
        for (to, n_pages) in [(None, 1), (Some(&scratch), 3)] {
            let mut paged = filled();
            assert_eq!(paged.make_room(to), n_pages * 4096);
            assert_eq!(paged.make_room(to), 0);
            assert_eq!(numbers(&paged), expected);
            assert_eq!(numbers(&paged.clone()), expected);
            assert!(paged.may_have(4096..4097) && !paged.may_have(0..4096));
            assert_eq!(paged.places().count(), 3 * 4096);
            let more = paged.more_bytes(0..2 * 4096);
            assert_eq!(more, if to.is_some() { 0 } else { 2 * 4096 });
            assert!(paged.set(5000, 8));
            assert!(paged.set(0, 1));
            assert_eq!((paged.get(4999), paged.get(5000)), (7, 8));
            assert_eq!((paged.get(0), paged.get(1)), (1, 0));
        }
    }

    #[test]
    fn pages_beyond_a_full_file_are_in_memory() {
        let scratch = Arc::new(Scratch::in_dir(&std::env::temp_dir()).unwrap());
        let mut paged = filled();
        paged.make_room(Some(&scratch));
        paged.is_full = true;
        assert_eq!(paged.more_bytes(0..1), 4096);
        assert!(paged.set(0, 1) && paged.set(3 * 4096, 2));
        assert_eq!((paged.get(0), paged.get(3 * 4096)), (1, 2));
        for at in 0..4096 {
            assert!(paged.set(at, 1));
        }
        assert_eq!(paged.make_room(Some(&scratch)), 4096);
    }
}
