//! Versions of each unit of the file that a read may return.
//!
//! Every word of a unit holds the unit's number and the version of its last write. A write counts
//! the version as begun before the call and as done after it. A read may return, for each word
//! independently, any version from the one done before the read to the one begun by its end.
//!
//! Locking: a writer holds the lock of each page it writes, so writes of one page never overlap:
//! concurrent writes of one page by different layers have no defined result on Linux. Readers take
//! no lock.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard};

use anyhow::{Result, ensure};

/// Bytes of a unit, which has its own version: the smallest direct write.
pub(super) const UNIT_BYTES: usize = 512;
pub(super) const PAGE_BYTES: usize = 4096;
pub(super) const UNITS_PER_PAGE: usize = PAGE_BYTES / UNIT_BYTES;
/// Few pages, so that all users collide on them.
pub(super) const PAGES: usize = 12;
const VERSION_BITS: u32 = 48;

#[derive(Default)]
struct Unit {
    begun: AtomicU64,
    done: AtomicU64,
}

/// Begun and done versions of the file; see the module.
pub(super) struct Model {
    units: Vec<Unit>,
    pages: Vec<Mutex<()>>,
    /// The page written last: reads of it race with a write.
    hot: AtomicUsize,
}

/// Consecutive units of one page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Units {
    pub(super) first: usize,
    pub(super) count: usize,
}

impl Units {
    pub(super) fn of_page(page: usize) -> Self {
        let (first, count) = (page * UNITS_PER_PAGE, UNITS_PER_PAGE);
        Self { first, count }
    }

    pub(super) fn offset_bytes(self) -> usize {
        self.first * UNIT_BYTES
    }

    pub(super) fn len_bytes(self) -> usize {
        self.count * UNIT_BYTES
    }

    fn numbers(self) -> std::ops::Range<usize> {
        self.first..self.first + self.count
    }
}

impl Model {
    /// A file whose units all have version 0.
    pub(super) fn new() -> Self {
        let units = (0..PAGES * UNITS_PER_PAGE).map(|_| Unit::default());
        let pages = (0..PAGES).map(|_| Mutex::new(()));
        Self {
            units: units.collect(),
            pages: pages.collect(),
            hot: AtomicUsize::new(0),
        }
    }

    /// The right to write to a page; `None` while another writer holds it.
    pub(super) fn try_own(&self, page: usize) -> Option<MutexGuard<'_, ()>> {
        self.pages[page].try_lock().ok()
    }

    /// The page of the write that began last.
    pub(super) fn hot_page(&self) -> usize {
        self.hot.load(SeqCst)
    }

    /// Begins the next version of each unit, whose page the caller owns, and fills in the bytes.
    pub(super) fn begin(&self, units: Units, out: &mut [u8]) {
        self.hot.store(units.first / UNITS_PER_PAGE, SeqCst);
        for (unit, bytes) in units.numbers().zip(out.chunks_exact_mut(UNIT_BYTES)) {
            let version = self.units[unit].begun.fetch_add(1, SeqCst) + 1;
            put(unit, version, bytes);
        }
    }

    /// Marks the begun versions as done.
    pub(super) fn end(&self, units: Units) {
        for unit in units.numbers() {
            let begun = self.units[unit].begun.load(SeqCst);
            self.units[unit].done.store(begun, SeqCst);
        }
    }

    /// The present bytes of the units; the caller owns their page.
    pub(super) fn bytes(&self, units: Units) -> Vec<u8> {
        let mut bytes = vec![0; units.len_bytes()];
        for (unit, bytes) in units.numbers().zip(bytes.chunks_exact_mut(UNIT_BYTES)) {
            put(unit, self.units[unit].done.load(SeqCst), bytes);
        }
        bytes
    }

    /// The versions done before a read.
    pub(super) fn before(&self, units: Units) -> Vec<u64> {
        units
            .numbers()
            .map(|unit| self.units[unit].done.load(SeqCst))
            .collect()
    }

    /// Checks the result of a read that began when [`Self::before`] answered `before`.
    pub(super) fn judge(&self, units: Units, before: &[u64], read: &[u8]) -> Result<()> {
        ensure!(read.len() == units.len_bytes(), "{} bytes", read.len());
        let parts = units.numbers().zip(read.chunks_exact(UNIT_BYTES));
        for ((unit, bytes), &oldest) in parts.zip(before) {
            let newest = self.units[unit].begun.load(SeqCst);
            for (index, word) in bytes.chunks_exact(8).enumerate() {
                let word = u64::from_le_bytes(word.try_into()?);
                let (of, version) = (word >> VERSION_BITS, word & ((1 << VERSION_BITS) - 1));
                let (page, at) = (unit / UNITS_PER_PAGE, unit * UNIT_BYTES + 8 * index);
                ensure!(of == unit as u64, "page {page}, byte {at}: of unit {of}");
                ensure!(
                    (oldest..=newest).contains(&version),
                    "page {page}, byte {at}: version {version}, allowed {oldest} to {newest}"
                );
            }
        }
        Ok(())
    }
}

fn put(unit: usize, version: u64, out: &mut [u8]) {
    let word = (unit as u64) << VERSION_BITS | version;
    for bytes in out.chunks_exact_mut(8) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_that_were_replaced_before_a_read_are_not_allowed() {
        let model = Model::new();
        let units = Units { first: 9, count: 2 };
        let old = model.bytes(units);
        let mut new = old.clone();
        let early = model.before(units);
        model.begin(units, &mut new);
        let during = model.before(units);
        for read in [&old, &new] {
            model
                .judge(units, &during, read)
                .expect("the write is on its way");
        }
        model.end(units);
        let after = model.before(units);
        model
            .judge(units, &early, &old)
            .expect("the read began before");
        model.judge(units, &after, &new).expect("it is the newest");
        assert!(model.judge(units, &after, &old).is_err());
        let elsewhere = Units { first: 8, count: 2 };
        assert!(
            model
                .judge(elsewhere, &model.before(elsewhere), &new)
                .is_err()
        );
    }
}
