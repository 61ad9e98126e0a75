//! The rows of a leaf table in one allocation, which saves a page access.
//!
//! Layout: the first bytes of all fingerprints (`print`), then four bytes for each record: its
//! offset in units (2), the units that its entry uses (1), the second byte of its fingerprint.
//! Not here: the meaning of rows (`table`).

use crate::bytes::{rest, upto};

/// Offsets of records and sizes of entries are multiples of this.
pub(super) const UNIT_BYTES: usize = 4;
const RECORD_BYTES: usize = 4;
/// Bytes of a row: the first byte of the fingerprint and the record.
const ROW_BYTES: usize = 1 + RECORD_BYTES;

/// Offset of a record and size of its entry, in units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) at: u16,
    pub(super) used: u8,
    pub(super) print: u8,
}

impl Record {
    /// Its offset, in bytes.
    pub(super) fn offset(self) -> usize {
        usize::from(self.at) * UNIT_BYTES
    }

    /// The size of its entry, in bytes.
    pub(super) fn used_bytes(self) -> usize {
        usize::from(self.used) * UNIT_BYTES
    }

    fn from_bytes([low, high, used, print]: [u8; RECORD_BYTES]) -> Self {
        let at = u16::from_le_bytes([low, high]);
        Self { at, used, print }
    }

    fn to_bytes(self) -> [u8; RECORD_BYTES] {
        let [low, high] = self.at.to_le_bytes();
        [low, high, self.used, self.print]
    }
}

/// The records of one leaf, ascending by offset.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    bytes: Box<[u8]>,
    len: u16,
    pub(super) whole: Whole,
}

/// Totals of the leaf. Stored with the rows because they fill the rest of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Whole {
    /// Units available for records.
    pub(super) area: u16,
    /// Units used by entries.
    pub(super) used: u16,
    /// The record whose slack is tried first.
    pub(super) roomy: u16,
}

impl Whole {
    /// Counts an entry of this many units.
    pub(super) fn add(&mut self, units: u16) {
        self.used = self.used.saturating_add(units);
    }
}

impl Rows {
    /// No rows, with capacity for this many.
    pub(super) fn with_room(rows: usize, whole: Whole) -> Self {
        Self {
            bytes: vec![0; rows.saturating_mul(ROW_BYTES)].into(),
            len: 0,
            whole,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len.into()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn all(&self) -> &[u8] {
        &self.bytes
    }

    fn room(&self) -> usize {
        self.bytes.len() / ROW_BYTES
    }

    /// First bytes of all fingerprints.
    #[inline]
    pub(super) fn prints(&self) -> &[u8] {
        upto(&self.bytes, self.len())
    }

    #[inline]
    pub(super) fn get(&self, at: usize) -> Option<Record> {
        let (records, _) = rest(&self.bytes, self.room()).as_chunks();
        let raw = records.get(at).filter(|_| at < self.len())?;
        Some(Record::from_bytes(*raw))
    }

    /// Offset and size of each record, in units.
    pub(super) fn places(&self) -> impl Iterator<Item = (u16, u8)> {
        let records = (0..self.len()).filter_map(|at| self.get(at));
        records.map(|record| (record.at, record.used))
    }

    /// Fingerprints and records, those that are not in use included.
    #[inline]
    fn columns(&mut self) -> (&mut [u8], &mut [[u8; RECORD_BYTES]]) {
        let room = self.room();
        let columns = self.bytes.split_at_mut_checked(room);
        let (prints, records) = columns.unwrap_or_default();
        (prints, records.as_chunks_mut().0)
    }

    /// Replaces row `at`, which exists.
    pub(super) fn set(&mut self, at: usize, print: u8, record: Record) {
        let (prints, records) = self.columns();
        if let (Some(old_print), Some(old)) = (prints.get_mut(at), records.get_mut(at)) {
            (*old_print, *old) = (print, record.to_bytes());
        }
    }

    /// Inserts a row before row `at`, or at the end.
    pub(super) fn insert(&mut self, at: usize, print: u8, record: Record) {
        if self.len() == self.room() {
            self.grow();
        }
        let len = self.len();
        let (prints, records) = self.columns();
        open(prints, at, len);
        open(records, at, len);
        self.len = self.len.saturating_add(1);
        self.set(at, print, record);
    }

    /// Appends a row; the capacity suffices.
    pub(super) fn push(&mut self, print: u8, record: Record) {
        let at = self.len();
        self.len = self.len.saturating_add(1);
        self.set(at, print, record);
    }

    pub(super) fn remove(&mut self, at: usize) {
        let len = self.len();
        let (prints, records) = self.columns();
        close(prints, at, len);
        close(records, at, len);
        self.len = self.len.saturating_sub(1);
    }

    fn grow(&mut self) {
        let len = self.len();
        let room = len.saturating_add(len / 2).saturating_add(8);
        let mut more = Self::with_room(room, self.whole);
        let (old_prints, old_records) = self.columns();
        let (prints, records) = more.columns();
        prints
            .iter_mut()
            .zip(old_prints)
            .for_each(|(new, old)| *new = *old);
        records
            .iter_mut()
            .zip(old_records)
            .for_each(|(new, old)| *new = *old);
        *self = Self {
            len: self.len,
            ..more
        };
    }
}

/// Moves the elements from `at` to `len` one place up.
#[inline]
fn open<T: Copy>(column: &mut [T], at: usize, len: usize) {
    if let Some(part) = column.get_mut(at..=len) {
        part.copy_within(..part.len().saturating_sub(1), 1);
    }
}

/// Moves the elements after `at` up to `len` one place down.
#[inline]
fn close<T: Copy>(column: &mut [T], at: usize, len: usize) {
    let part = column.get_mut(at..len).unwrap_or_default();
    if !part.is_empty() {
        part.copy_within(1.., 0);
    }
}
