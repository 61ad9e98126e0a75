//! A leaf of a directory, read and edited in place.

use super::iter::{DirEntries, DirEntry};
use super::search::{Findings, Spot, search, walk};
use super::{DirEntryType, LeafTail, NewEntry, encode_rec_len, space_needed, tail};
use crate::bytes::{clear, get_u8, get_u32, put_u8, put_u16, put_u32, rest, rest_mut, upto};
use crate::{Corrupt, DamageLocation, Full, InodeNr, Seed};
use std::ops::Range;

/// The records of a block (or of another area with the same layout), with the parameters to read
/// them.
#[derive(Clone, Copy, Debug)]
pub struct DirLeaf<B> {
    bytes: B,
    tail: LeafTail,
    place: DamageLocation,
}

/// Result of [`DirLeaf::insert`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Insertion {
    /// Inserted at this byte offset.
    Done(usize),
    /// The name exists and refers to this file; nothing was changed.
    Exists(InodeNr, DirEntryType),
    /// No gap is large enough; nothing was changed.
    Full,
}

/// Result of a check for a new name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// An entry has the name already.
    Exists,
    /// This gap is large enough.
    Gap(Gap),
    /// No gap is large enough.
    Full,
}

/// A gap found by [`DirLeaf::fits`]; valid until the leaf changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap(pub(super) Spot);

impl Gap {
    /// The bytes that an entry of `len` bytes may change.
    pub fn bytes(&self, len: usize) -> Range<usize> {
        self.0.offset..self.0.used_end().saturating_add(len)
    }
}

/// An entry found by [`DirLeaf::locate`]; valid until the leaf changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// The inode that the entry names.
    pub inode: InodeNr,
    /// Its type, if entries have one.
    pub kind: DirEntryType,
    before: Option<Spot>,
    pub(super) spot: Spot,
}

impl Location {
    /// The entry at `spot`, after the record `before`.
    pub(super) fn new(bytes: &[u8], before: Option<Spot>, spot: Spot) -> Self {
        let (inode, kind) = inode_and_type(bytes, spot);
        Self {
            inode,
            kind,
            before,
            spot,
        }
    }
}

/// How much of a leaf is used and free; see [`DirLeaf::space`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeafSpace {
    /// The number of records with an inode.
    pub entries: usize,
    /// Bytes of these entries.
    pub used_bytes: usize,
    /// The largest gap that a new entry could take, in bytes.
    pub largest_gap_bytes: usize,
}

/// Inode and type of the entry at `spot`.
fn inode_and_type(bytes: &[u8], spot: Spot) -> (InodeNr, DirEntryType) {
    let record = rest(bytes, spot.offset);
    let inode = InodeNr(get_u32(record, 0));
    let kind = DirEntryType::from_code(get_u8(record, 7));
    (inode, kind)
}

impl<B: AsRef<[u8]>> DirLeaf<B> {
    /// A view of `bytes`, a whole leaf. Checks nothing; `place` is for errors.
    pub fn new(bytes: B, tail: LeafTail, place: DamageLocation) -> Self {
        Self { bytes, tail, place }
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.as_ref()
    }

    fn block_size(&self) -> usize {
        self.bytes.as_ref().len()
    }

    /// Returns the bytes of the leaf, with all changes.
    pub fn into_bytes(self) -> B {
        self.bytes
    }

    /// Bytes that records may fill.
    pub fn area_bytes(&self) -> usize {
        self.block_size().saturating_sub(self.tail.bytes())
    }

    /// All records, free ones included. Ends after the first error.
    pub fn records(&self) -> DirEntries<'_> {
        self.records_from(0)
    }

    fn area(&self) -> &[u8] {
        upto(self.bytes.as_ref(), self.area_bytes())
    }

    fn records_from(&self, offset: usize) -> DirEntries<'_> {
        DirEntries::new(self.area(), offset, self.block_size(), self.place)
    }

    /// The entries in use. Ends after the first error.
    pub fn entries(&self) -> impl Iterator<Item = Result<DirEntry<'_>, Corrupt>> {
        self.records()
            .filter(|record| record.as_ref().map_or(true, |entry| !entry.is_free()))
    }

    /// Checks the length, name and alignment of every record.
    pub fn validate(&self) -> Result<(), Corrupt> {
        self.records().try_for_each(|record| record.map(drop))
    }

    /// The entry with this name.
    pub fn find(&self, name: &[u8]) -> Result<Option<DirEntry<'_>>, Corrupt> {
        match self.search(name, usize::MAX)?.entry {
            Some(spot) => self.records_from(spot.offset).next().transpose(),
            None => Ok(None),
        }
    }

    /// The entry with this name, to be removed with [`Self::remove_at`].
    pub fn locate(&self, name: &[u8]) -> Result<Option<Location>, Corrupt> {
        let Findings { entry, before, .. } = self.search(name, usize::MAX)?;
        Ok(entry.map(|spot| Location::new(self.bytes.as_ref(), before, spot)))
    }

    fn inode_and_type(&self, spot: Spot) -> (InodeNr, DirEntryType) {
        inode_and_type(self.bytes.as_ref(), spot)
    }

    /// The result that [`Self::insert`] would have for `name` now.
    pub fn fits(&self, name: &[u8]) -> Result<Fit, Corrupt> {
        let found = self.search(name, space_needed(name.len()))?;
        Ok(match found {
            Findings { entry: Some(_), .. } => Fit::Exists,
            Findings { gap: Some(gap), .. } => Fit::Gap(Gap(gap)),
            Findings { .. } => Fit::Full,
        })
    }

    /// Visits every record, free ones included, with the bytes of its name.
    pub(super) fn walk(&self, visit: impl FnMut(Spot, &[u8])) -> Result<(), Corrupt> {
        walk(self.area(), self.block_size(), self.place, visit)
    }

    fn search(&self, name: &[u8], needed: usize) -> Result<Findings, Corrupt> {
        search(self.area(), self.block_size(), self.place, name, needed)
    }

    /// True when only "." and ".." are left (or nothing at all).
    pub fn is_empty(&self) -> Result<bool, Corrupt> {
        for entry in self.entries() {
            if !matches!(entry?.name, b"." | b"..") {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The space in the leaf, for decisions about splits and merges.
    pub fn space(&self) -> Result<LeafSpace, Corrupt> {
        let mut space = LeafSpace::default();
        for record in self.records() {
            let record = record?;
            let entries = usize::from(!record.is_free());
            space.entries = space.entries.saturating_add(entries);
            space.used_bytes = space.used_bytes.saturating_add(record.used_bytes());
            space.largest_gap_bytes = space.largest_gap_bytes.max(record.slack_bytes());
        }
        Ok(space)
    }

    /// Checks shape and checksum of the tail; succeeds without one. `seed` is the inode's.
    pub fn verify_checksum(&self, seed: Seed) -> Result<(), Corrupt> {
        match self.tail {
            LeafTail::None => Ok(()),
            LeafTail::Checksum => tail::verify(self.bytes.as_ref(), seed, self.place),
        }
    }
}

impl<B: AsRef<[u8]> + AsMut<[u8]>> DirLeaf<B> {
    /// Makes an empty leaf: one free record over the whole area, and a tail without checksum.
    pub fn init(mut bytes: B, tail: LeafTail, place: DamageLocation) -> Self {
        let raw = bytes.as_mut();
        let (block_size, area) = (raw.len(), raw.len().saturating_sub(tail.bytes()));
        raw.fill(0);
        put_u16(raw, 4, encode_rec_len(area, block_size));
        if tail == LeafTail::Checksum {
            tail::init(raw);
        }
        Self { bytes, tail, place }
    }

    /// Inserts an entry into the first gap that is large enough, unless the name exists. One walk
    /// does both; the errors are those of a damaged record.
    pub fn insert(&mut self, new: &NewEntry<'_>) -> Result<Insertion, Corrupt> {
        let found = self.search(new.name, new.space_needed())?;
        if let Some(spot) = found.entry {
            let (inode, kind) = self.inode_and_type(spot);
            return Ok(Insertion::Exists(inode, kind));
        }
        Ok(found
            .gap
            .map_or(Insertion::Full, |gap| Insertion::Done(self.fill(gap, new))))
    }

    /// Inserts an entry into a gap that [`Self::fits`] found for its name. The leaf must not have
    /// changed since.
    pub fn insert_at(&mut self, gap: Gap, new: &NewEntry<'_>) {
        self.fill(gap.0, new);
    }

    /// Removes an entry that [`Self::locate`] found. The leaf must not have changed since.
    pub fn remove_at(&mut self, at: Location) {
        self.release(at.before, at.spot);
    }

    /// Uses the slack of `gap` for `new`; returns the offset of the entry.
    fn fill(&mut self, gap: Spot, new: &NewEntry<'_>) -> usize {
        let block_size = self.block_size();
        let bytes = self.bytes.as_mut();
        if gap.used > 0 {
            set_rec_len(bytes, gap.offset, gap.used, block_size);
        }
        let offset = gap.used_end();
        new.write(bytes, offset, gap.slack(), block_size);
        offset
    }

    /// Removes the entry `name` and returns its inode and type; `None` if it does not exist.
    pub fn remove(&mut self, name: &[u8]) -> Result<Option<(InodeNr, DirEntryType)>, Corrupt> {
        let found = self.search(name, usize::MAX)?;
        Ok(found.entry.map(|spot| {
            let meaning = self.inode_and_type(spot);
            self.release(found.before, spot);
            meaning
        }))
    }

    /// Merges the record into the one before it; the first of the block becomes a free record.
    fn release(&mut self, before: Option<Spot>, spot: Spot) {
        let block_size = self.block_size();
        let bytes = self.bytes.as_mut();
        match before {
            Some(before) => {
                let merged = before.rec_len.saturating_add(spot.rec_len);
                set_rec_len(bytes, before.offset, merged, block_size);
                clear(bytes, spot.offset..spot.used_end());
            }
            None => {
                put_u32(bytes, spot.offset, 0);
                clear(bytes, spot.offset.saturating_add(6)..spot.used_end());
            }
        }
    }

    /// Changes the inode of the entry `name` (rename over it, a new ".."). False if it does not
    /// exist.
    pub fn retarget(
        &mut self,
        name: &[u8],
        inode: InodeNr,
        kind: DirEntryType,
    ) -> Result<bool, Corrupt> {
        let found = self.search(name, usize::MAX)?.entry;
        if let Some(spot) = found {
            self.retarget_at(spot, inode, kind);
        }
        Ok(found.is_some())
    }

    /// Changes the inode of the entry at `spot`.
    pub(super) fn retarget_at(&mut self, spot: Spot, inode: InodeNr, kind: DirEntryType) {
        let bytes = self.bytes.as_mut();
        let record = rest_mut(bytes, spot.offset);
        put_u32(record, 0, inode.0);
        put_u8(record, 7, kind.code());
    }

    /// Replaces all entries by `entries`, packed from the start in the given order; the last one
    /// gets the rest of the area. If they do not fit, nothing is changed.
    pub fn pack<'a, I>(&mut self, entries: I) -> Result<(), Full>
    where
        I: IntoIterator<Item = NewEntry<'a>>,
        I::IntoIter: Clone,
    {
        let entries = entries.into_iter();
        let area = self.area_bytes();
        if entries
            .clone()
            .map(|entry| entry.space_needed())
            .sum::<usize>()
            > area
        {
            return Err(Full);
        }
        let (tail, place, block_size) = (self.tail, self.place, self.block_size());
        DirLeaf::init(self.bytes.as_mut(), tail, place);
        let bytes = self.bytes.as_mut();
        let mut at = 0_usize;
        let mut entries = entries.peekable();
        while let Some(entry) = entries.next() {
            let last = entries.peek().is_none();
            let rec_len = if last {
                area.saturating_sub(at)
            } else {
                entry.space_needed()
            };
            entry.write(bytes, at, rec_len, block_size);
            at = at.saturating_add(rec_len);
        }
        Ok(())
    }

    /// Writes the checksum into the tail, if there is one. `seed` is the inode's.
    pub fn update_checksum(&mut self, seed: Seed) {
        if self.tail == LeafTail::Checksum {
            tail::update(self.bytes.as_mut(), seed);
        }
    }
}

/// Makes the first block of a new directory: "." and "..". `kind` is the directory type or, without
/// the feature `filetype`, unknown. The caller writes the checksum.
pub fn init_first_block(
    bytes: &mut [u8],
    tail: LeafTail,
    inode: InodeNr,
    parent: InodeNr,
    kind: DirEntryType,
) {
    let dots = [
        NewEntry {
            inode,
            name: b".",
            kind,
        },
        NewEntry {
            inode: parent,
            name: b"..",
            kind,
        },
    ];
    let mut leaf = DirLeaf::init(bytes, tail, DamageLocation::Inode(inode));
    let packed = leaf.pack(dots);
    assert!(
        packed.is_ok(),
        "a block has space for two records of 12 bytes"
    );
}

/// Changes the length of the record at byte `at`.
fn set_rec_len(bytes: &mut [u8], at: usize, rec_len: usize, block_size: usize) {
    put_u16(rest_mut(bytes, at), 4, encode_rec_len(rec_len, block_size));
}
