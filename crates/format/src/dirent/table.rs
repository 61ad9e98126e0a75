//! Fingerprint table of one leaf, so that a lookup touches one record only.
//!
//! A walk over a cold leaf reads all of its cache lines. The table has one contiguous fingerprint
//! byte per record, which selects the few candidates of a name. Their offsets and sizes are in a
//! second array, so most lookups of absent names do not read the leaf.
//! Layout: [`Rows`] holds both arrays, in block order. A record's fingerprint (`print`) is 16 bits
//! of a hash of its name, in two bytes; free records have size 0, which no name has. The caller
//! chooses the hash; with a keyed one an image cannot have leaves of equal fingerprints.
//! Invariants: the records of the bytes are sound and the same as when the table was built or last
//! updated. Code that changes the bytes otherwise drops the table. A stale table gives wrong
//! answers, never a panic.
//! Locking: the table is protected by the lock of the bytes.

use super::edit::{Gap, Location};
use super::rows::{Record, Rows, UNIT_BYTES, Whole};
use super::search::Spot;
use super::{DirEntryType, DirLeaf, FIXED_BYTES, Fit, Insertion, LeafTail, NewEntry, space_needed};
use crate::bytes::{get_u8, rest};
use crate::{Corrupt, DamageLocation, InodeNr};
use uext4_num::{clamp_u8, clamp_u16, clamp_u32, usize_of};

/// The table of one leaf. See the module.
#[derive(Clone, Debug)]
pub struct LeafTable {
    rows: Rows,
}

/// Fingerprint of a name, with the length of its entry.
#[derive(Clone, Copy, Default)]
struct Print {
    first: u8,
    second: u8,
    used: u8,
}

impl Print {
    fn new(name: &[u8], print: u16) -> Self {
        let [second, first] = print.to_le_bytes();
        let used = clamp_u8(units(space_needed(name.len())));
        Self {
            first,
            second,
            used,
        }
    }

    /// The record of an entry with this fingerprint.
    fn record(self, offset: usize) -> Record {
        Record {
            at: units(offset),
            used: self.used,
            print: self.second,
        }
    }
}

/// Bytes of a leaf in units.
fn units(bytes: usize) -> u16 {
    clamp_u16(bytes / UNIT_BYTES)
}

impl LeafTable {
    /// The table of a leaf; `print_of` computes fingerprints.
    ///
    /// # Errors
    /// A damaged record: every one is checked.
    pub fn build<B: AsRef<[u8]>>(
        leaf: &DirLeaf<B>,
        print_of: impl Fn(&[u8]) -> u16,
    ) -> Result<Self, Corrupt> {
        let mut records = 0u16;
        leaf.walk(|_, _| records = records.saturating_add(1))?;
        let whole = Whole {
            area: units(leaf.area_bytes()),
            used: 0,
            roomy: records.saturating_sub(1),
        };
        let rows = Rows::with_room(records.into(), whole);
        let mut table = Self { rows };
        leaf.walk(|spot, name| {
            let print = match spot.used {
                0 => Print::default(),
                _ => Print::new(name, print_of(name)),
            };
            table.add(spot, print);
        })?;
        Ok(table)
    }

    fn add(&mut self, spot: Spot, print: Print) {
        self.rows.push(print.first, print.record(spot.offset));
        self.rows.whole.add(units(spot.used));
    }

    /// True if this table equals a fresh one of the leaf `bytes`, apart from fingerprints.
    pub fn is_of(&self, bytes: &[u8]) -> bool {
        let leaf = DirLeaf::new(bytes, self.tail_in(bytes), DamageLocation::Superblock);
        Self::build(&leaf, |_| 0).is_ok_and(|fresh| {
            fresh.rows.places().eq(self.rows.places()) && fresh.used_bytes() == self.used_bytes()
        })
    }

    /// All bytes of the rows.
    pub fn rows(&self) -> &[u8] {
        self.rows.all()
    }

    /// Heap memory of the table, in bytes.
    pub fn heap_bytes(&self) -> usize {
        self.rows.heap_bytes()
    }

    /// The kind of tail of the leaf `bytes`, which this table describes.
    fn tail_in(&self, bytes: &[u8]) -> LeafTail {
        if self.area_bytes() < bytes.len() {
            LeafTail::Checksum
        } else {
            LeafTail::None
        }
    }

    /// Bytes that records may fill.
    pub fn area_bytes(&self) -> usize {
        usize::from(self.rows.whole.area) * UNIT_BYTES
    }

    /// Bytes used by entries.
    pub fn used_bytes(&self) -> usize {
        usize::from(self.rows.whole.used) * UNIT_BYTES
    }

    /// The end of record `at`.
    fn end(&self, at: usize) -> usize {
        let next = self.rows.get(at.saturating_add(1));
        next.map_or(self.area_bytes(), |next| next.offset())
    }

    fn spot(&self, at: usize) -> Option<Spot> {
        let record = self.rows.get(at)?;
        Some(Spot {
            nr: clamp_u32(at),
            offset: record.offset(),
            rec_len: self.end(at).saturating_sub(record.offset()),
            used: record.used_bytes(),
        })
    }

    /// The index of the record of `name`.
    fn position(&self, bytes: &[u8], name: &[u8], print: u16) -> Option<usize> {
        let print = Print::new(name, print);
        memchr::memchr_iter(print.first, self.rows.prints()).find(|at| {
            self.rows.get(*at).is_some_and(|record| {
                record.print == print.second
                    && record.used == print.used
                    && is_named(bytes, record.offset(), name)
            })
        })
    }

    /// A record with this much slack.
    fn gap(&self, needed: usize) -> Option<Spot> {
        let is_enough = |spot: &Spot| spot.rec_len.saturating_sub(spot.used) >= needed;
        if let Some(spot) = self.spot(self.rows.whole.roomy.into()).filter(is_enough) {
            return Some(spot);
        }
        if self.area_bytes() < self.used_bytes().saturating_add(needed) {
            return None;
        }
        (0..self.rows.len())
            .filter_map(|at| self.spot(at))
            .find(is_enough)
    }

    /// Updates the table for [`DirLeaf::insert_at`].
    fn update_for_insert(&mut self, gap: Spot, print: Print) {
        let record = print.record(gap.used_end());
        let mut at = usize_of(gap.nr);
        if gap.used == 0 {
            self.rows.set(at, print.first, record);
        } else {
            at = at.saturating_add(1);
            self.rows.insert(at, print.first, record);
        }
        self.rows.whole.roomy = clamp_u16(at);
        self.rows.whole.add(record.used.into());
    }

    /// Updates the table for [`DirLeaf::remove_at`].
    fn update_for_removal(&mut self, at: usize) {
        let Some(record) = self.rows.get(at) else {
            return;
        };
        let whole = &mut self.rows.whole;
        whole.used = whole.used.saturating_sub(record.used.into());
        whole.roomy = clamp_u16(at.saturating_sub(1));
        if at == 0 {
            self.rows.set(at, 0, Record::default());
        } else {
            self.rows.remove(at);
        }
    }
}

/// True when the record at `offset` has this name.
fn is_named(bytes: &[u8], offset: usize, name: &[u8]) -> bool {
    let Some(record) = bytes.get(offset..) else {
        return false;
    };
    usize::from(get_u8(record, 6)) == name.len() && rest(record, FIXED_BYTES).starts_with(name)
}

/// A leaf with its table.
#[derive(Clone, Copy, Debug)]
pub struct KnownLeaf<'a> {
    bytes: &'a [u8],
    table: &'a LeafTable,
}

impl<'a> KnownLeaf<'a> {
    /// The leaf `bytes` and its table.
    pub fn new(bytes: &'a [u8], table: &'a LeafTable) -> Self {
        Self { bytes, table }
    }

    /// The entry with this name and fingerprint, to be removed with [`KnownLeafMut::remove_at`].
    pub fn locate(&self, name: &[u8], print: u16) -> Option<Location> {
        let at = self.table.position(self.bytes, name, print)?;
        let before = at.checked_sub(1).and_then(|before| self.table.spot(before));
        let spot = self.table.spot(at)?;
        Some(Location::new(self.bytes, before, spot))
    }

    /// The result that [`KnownLeafMut::insert`] would have for `name` now.
    pub fn fits(&self, name: &[u8], print: u16) -> Fit {
        if self.table.position(self.bytes, name, print).is_some() {
            return Fit::Exists;
        }
        let gap = self.table.gap(space_needed(name.len()));
        gap.map_or(Fit::Full, |gap| Fit::Gap(Gap(gap)))
    }

    /// Bytes used by entries.
    pub fn used_bytes(&self) -> usize {
        self.table.used_bytes()
    }

    /// Bytes that records may fill.
    pub fn area_bytes(&self) -> usize {
        self.table.area_bytes()
    }
}

/// A mutable leaf with its table.
#[derive(Debug)]
pub struct KnownLeafMut<'a> {
    bytes: &'a mut [u8],
    table: &'a mut LeafTable,
}

impl<'a> KnownLeafMut<'a> {
    /// The leaf `bytes` and its table.
    pub fn new(bytes: &'a mut [u8], table: &'a mut LeafTable) -> Self {
        Self { bytes, table }
    }

    /// A read-only view of the same.
    pub fn known(&self) -> KnownLeaf<'_> {
        KnownLeaf::new(self.bytes, self.table)
    }

    fn leaf(&mut self) -> DirLeaf<&mut [u8]> {
        DirLeaf::new(
            self.bytes,
            self.table.tail_in(self.bytes),
            DamageLocation::Superblock,
        )
    }

    /// As [`DirLeaf::insert`], with the fingerprint of the name.
    pub fn insert(&mut self, new: &NewEntry<'_>, print: u16) -> Insertion {
        if let Some(Location { inode, kind, .. }) = self.known().locate(new.name, print) {
            return Insertion::Exists(inode, kind);
        }
        match self.table.gap(new.space_needed()) {
            Some(gap) => {
                self.insert_at(Gap(gap), new, print);
                Insertion::Done(gap.used_end())
            }
            None => Insertion::Full,
        }
    }

    /// Inserts an entry into a gap that [`KnownLeaf::fits`] found for its name. The leaf must not
    /// have changed since.
    pub fn insert_at(&mut self, gap: Gap, new: &NewEntry<'_>, print: u16) {
        self.leaf().insert_at(gap, new);
        self.table
            .update_for_insert(gap.0, Print::new(new.name, print));
    }

    /// Removes an entry that [`KnownLeaf::locate`] found. The leaf must not have changed since.
    pub fn remove_at(&mut self, at: Location) {
        self.leaf().remove_at(at);
        self.table.update_for_removal(usize_of(at.spot.nr));
    }

    /// Changes the inode of an entry that was found.
    pub fn retarget_at(&mut self, at: Location, inode: InodeNr, kind: DirEntryType) {
        self.leaf().retarget_at(at.spot, inode, kind);
    }

    /// The kind of tail of the leaf.
    pub fn tail(&self) -> LeafTail {
        self.table.tail_in(self.bytes)
    }

    /// Bytes used by entries.
    pub fn used_bytes(&self) -> usize {
        self.table.used_bytes()
    }

    /// Bytes that records may fill.
    pub fn area_bytes(&self) -> usize {
        self.table.area_bytes()
    }

    /// True when the leaf is one free record.
    pub fn is_blank(&self) -> bool {
        self.table.used_bytes() == 0 && self.table.rows.len() == 1
    }
}

#[cfg(test)]
mod tests;
