//! Sparse array of numbers: a page of them takes memory from the first change on in which they
//! differ. So memory grows with what a file system has in use, not with its size.
//!
//! When memory is short ([`Paged::make_room`]), pages of equal numbers become one number, and the
//! others move to a temporary file, where new pages are from then on.

use std::ops::Range;
use std::path::Path;
use uext4_device::{Plain, Scratch, ScratchPage, prefetch};
use uext4_num::{clamp_usize, u64_of};

/// Size of a page in bytes.
const PAGE_BYTES: usize = 4096;

/// See the module. Numbers are zero until they are changed.
#[derive(Default)]
pub(crate) struct Paged<T> {
    pages: Vec<Page<T>>,
    len: u64,
    /// Where new pages are; in memory without it.
    scratch: Option<Scratch>,
}

enum Page<T> {
    /// All numbers are this one.
    Same(T),
    Memory(Box<[T]>),
    File(ScratchPage<T>),
}

impl<T: Plain + Default> Page<T> {
    fn numbers(&self) -> Option<&[T]> {
        match self {
            Self::Same(_) => None,
            Self::Memory(page) => Some(page),
            Self::File(page) => Some(page),
        }
    }

    fn get(&self, at: usize) -> T {
        match self {
            Self::Same(all) => *all,
            Self::Memory(page) => page.get(at).copied().unwrap_or_default(),
            Self::File(page) => page.get(at).copied().unwrap_or_default(),
        }
    }
}

impl<T: Plain + Default + PartialEq> Clone for Paged<T> {
    /// A copy in memory.
    fn clone(&self) -> Self {
        let pages = self.pages.iter().map(|page| match page {
            Page::Same(all) => Page::Same(*all),
            Page::Memory(page) => Page::Memory(page.clone()),
            Page::File(page) => Page::Memory(page.to_vec().into_boxed_slice()),
        });
        Self {
            pages: pages.collect(),
            len: self.len,
            scratch: None,
        }
    }
}

impl<T: Plain + Default + PartialEq> Paged<T> {
    const PER_PAGE: u64 = u64_of(PAGE_BYTES / size_of::<T>());

    /// Numbers at the places below `len`.
    pub(crate) fn new(len: u64) -> Self {
        let pages = clamp_usize(len.div_ceil(Self::PER_PAGE));
        Self {
            pages: (0..pages).map(|_| Page::Same(T::default())).collect(),
            len,
            scratch: None,
        }
    }

    /// Memory of an array without changes, in bytes.
    pub(crate) fn empty_bytes(len: u64) -> u64 {
        len.div_ceil(Self::PER_PAGE) * u64_of(size_of::<Page<T>>())
    }

    /// Memory that changes at these places take in addition, in bytes.
    pub(crate) fn more_bytes(&self, places: Range<u64>) -> u64 {
        if self.scratch.is_some() {
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
        let page = self.pages.get(clamp_usize(at / Self::PER_PAGE));
        page.map_or(T::default(), |page| {
            page.get(clamp_usize(at % Self::PER_PAGE))
        })
    }

    /// Has a number ready in the cache of the processor soon.
    pub(crate) fn prefetch(&self, at: u64) {
        let page = self.pages.get(clamp_usize(at / Self::PER_PAGE));
        let page = page.and_then(Page::numbers);
        if let Some(value) = page.and_then(|page| page.get(clamp_usize(at % Self::PER_PAGE))) {
            prefetch(std::ptr::from_ref(value).cast(), 1);
        }
    }

    /// A number to change; `None` out of bounds.
    pub(crate) fn get_mut(&mut self, at: u64) -> Option<&mut T> {
        if at >= self.len {
            return None;
        }
        let page = self.pages.get_mut(clamp_usize(at / Self::PER_PAGE))?;
        if let Page::Same(all) = page {
            let all = *all;
            *page = new_page(&mut self.scratch);
            if all != T::default() {
                numbers_mut(page).fill(all);
            }
        }
        numbers_mut(page).get_mut(clamp_usize(at % Self::PER_PAGE))
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

    /// Gives memory back, as the module says, for a file in `dir` if there is one; returns how
    /// many bytes.
    pub(crate) fn make_room(&mut self, dir: Option<&Path>) -> u64 {
        if self.scratch.is_none() {
            self.scratch = dir.and_then(|dir| Scratch::in_dir(dir).ok());
        }
        let mut n_freed = 0;
        for page in &mut self.pages {
            let Page::Memory(numbers) = page else {
                continue;
            };
            let first = numbers.first().copied().unwrap_or_default();
            if numbers.iter().all(|number| *number == first) {
                *page = Page::Same(first);
                n_freed += 1;
            } else if let Some(Ok(mut there)) = self.scratch.as_mut().map(Scratch::page) {
                there.copy_from_slice(numbers);
                *page = Page::File(there);
                n_freed += 1;
            }
        }
        n_freed * u64_of(PAGE_BYTES)
    }
}

/// A page of zeroes: in the file, as long as that can grow.
fn new_page<T: Plain + Default>(scratch: &mut Option<Scratch>) -> Page<T> {
    match scratch.as_mut().map(Scratch::page) {
        Some(Ok(page)) => return Page::File(page),
        Some(Err(_full)) => *scratch = None,
        None => {}
    }
    Page::Memory(vec![T::default(); PAGE_BYTES / size_of::<T>()].into_boxed_slice())
}

fn numbers_mut<T: Plain>(page: &mut Page<T>) -> &mut [T] {
    match page {
        Page::Same(_) => &mut [],
        Page::Memory(page) => page,
        Page::File(page) => page,
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
        *paged.get_mut(511).unwrap() = 3;
        assert_eq!(paged.more_bytes(500..600), 4096);
        assert!(paged.get_mut(1 << 20).is_none());
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
            *paged.get_mut(at).unwrap() = 7;
        }
        for at in [3 * 4096, 5 * 4096 - 1] {
            *paged.get_mut(at).unwrap() = 9;
        }
        paged
    }

    #[test]
    fn numbers_stay_when_their_memory_goes() {
        let dir = std::env::temp_dir();
        let numbers = |paged: &Paged<u8>| (0..5 * 4096).map(|at| paged.get(at)).collect::<Vec<_>>();
        let expected = numbers(&filled());
        for (dir, n_pages) in [(None, 1), (Some(&*dir), 3)] {
            let mut paged = filled();
            assert_eq!(paged.make_room(dir), n_pages * 4096);
            assert_eq!(paged.make_room(dir), 0);
            assert_eq!(numbers(&paged), expected);
            assert_eq!(numbers(&paged.clone()), expected);
            assert!(paged.may_have(4096..4097) && !paged.may_have(0..4096));
            assert_eq!(paged.places().count(), 3 * 4096);
            let more = paged.more_bytes(0..2 * 4096);
            assert_eq!(more, if dir.is_some() { 0 } else { 2 * 4096 });
            *paged.get_mut(5000).unwrap() = 8;
            *paged.get_mut(0).unwrap() = 1;
            assert_eq!((paged.get(4999), paged.get(5000)), (7, 8));
            assert_eq!((paged.get(0), paged.get(1)), (1, 0));
        }
    }

    #[test]
    fn without_a_file_pages_stay_in_memory() {
        let mut paged = filled();
        assert_eq!(paged.make_room(Some(Path::new("/nowhere"))), 4096);
        assert_eq!(paged.more_bytes(0..1), 4096);
    }
}
