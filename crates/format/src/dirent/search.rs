//! Fast walk over a leaf: finds a name and a gap in one pass.
//!
//! It makes the checks of the plain walk ([`super::DirEntries`]) without building an entry per
//! record: lookups and inserts in large directories spend most of their time here.

use super::{DirEntries, FIXED_BYTES, MIN_RECORD_BYTES, decode_rec_len, space_needed};
use crate::bytes::{rest, upto};
use crate::{Corrupt, CorruptKind, DamageLocation};
use uext4_num::{low_u8, low_u16, low_u32};

/// Location of a record in the leaf, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spot {
    /// Number of records before it.
    pub(super) nr: u32,
    pub(super) offset: usize,
    pub(super) rec_len: usize,
    /// Bytes of the entry itself; 0 if the record is free.
    pub(super) used: usize,
}

impl Spot {
    /// Bytes after the entry. A record was checked to hold its entry.
    #[inline]
    pub(super) fn slack(self) -> usize {
        self.rec_len.wrapping_sub(self.used)
    }

    /// The end of the entry; saturating, hence past the end of any leaf.
    #[inline]
    pub(super) fn used_end(self) -> usize {
        self.offset.saturating_add(self.used)
    }

    /// Offset and number of the next record. A record ends in the block, and a block has fewer
    /// than 2^32 records, so that neither wraps.
    #[inline]
    fn next(self) -> (usize, u32) {
        (
            self.offset.wrapping_add(self.rec_len),
            self.nr.wrapping_add(1),
        )
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Findings {
    /// The entry with the name; the walk ends there.
    pub(super) entry: Option<Spot>,
    /// The record before `entry`, which takes its space on removal.
    pub(super) before: Option<Spot>,
    /// The first record with enough slack.
    pub(super) gap: Option<Spot>,
}

/// Walks `area`, part of a block of `block_size` bytes, for the entry `name` and for a gap of
/// `needed` bytes.
pub(super) fn search(
    area: &[u8],
    block_size: usize,
    place: DamageLocation,
    name: &[u8],
    needed: usize,
) -> Result<Findings, Corrupt> {
    let wanted = Wanted::new(name);
    let mut findings = Findings::default();
    let mut before = None;
    let (mut at, mut nr) = (0_usize, 0_u32);
    while let Some(left) = area.get(at..).filter(|left| !left.is_empty()) {
        let Some((spot, name_len)) = read(left, (nr, at), block_size) else {
            return Err(damage(area, at, block_size, place));
        };
        if spot.used > 0 && name_len == name.len() && wanted.is(rest(left, FIXED_BYTES)) {
            (findings.entry, findings.before) = (Some(spot), before);
            return Ok(findings);
        }
        if findings.gap.is_none() && spot.slack() >= needed {
            findings.gap = Some(spot);
        }
        before = Some(spot);
        (at, nr) = spot.next();
    }
    Ok(findings)
}

/// Visits every record with the bytes of its name.
pub(super) fn walk(
    area: &[u8],
    block_size: usize,
    place: DamageLocation,
    mut visit: impl FnMut(Spot, &[u8]),
) -> Result<(), Corrupt> {
    let (mut at, mut nr) = (0_usize, 0_u32);
    while let Some(left) = area.get(at..).filter(|left| !left.is_empty()) {
        let Some((spot, name_len)) = read(left, (nr, at), block_size) else {
            return Err(damage(area, at, block_size, place));
        };
        visit(spot, upto(rest(left, FIXED_BYTES), name_len));
        (at, nr) = spot.next();
    }
    Ok(())
}

/// The problem of the record at byte `at`, found by the plain walk.
fn damage(area: &[u8], at: usize, block_size: usize, place: DamageLocation) -> Corrupt {
    let damage = DirEntries::new(area, at, block_size, place).find_map(Result::err);
    damage.unwrap_or(Corrupt::new(place, "directory entry", CorruptKind::Damaged))
}

/// The record at the start of `left`, and the length of its name; `None` if it is damaged.
#[inline]
fn read(left: &[u8], (nr, at): (u32, usize), block_size: usize) -> Option<(Spot, usize)> {
    let head = u64::from_le_bytes(*left.first_chunk()?);
    let rec_len = decode_rec_len(low_u16(head >> 32), block_size);
    let name_len = usize::from(low_u8(head >> 48));
    let in_use = low_u32(head) != 0;
    let needed = space_needed(name_len);
    let sound = rec_len >= needed.max(MIN_RECORD_BYTES)
        && rec_len <= left.len()
        && rec_len.is_multiple_of(4)
        && !(in_use && name_len == 0);
    let used = if in_use { needed } else { 0 };
    sound.then_some((
        Spot {
            nr,
            offset: at,
            rec_len,
            used,
        },
        name_len,
    ))
}

/// A name to compare with. Names in one directory often share a prefix, so the end is compared
/// first.
struct Wanted<'a> {
    name: &'a [u8],
    end: u64,
}

impl<'a> Wanted<'a> {
    fn new(name: &'a [u8]) -> Self {
        Self {
            name,
            end: name.last_chunk().map_or(0, |end| u64::from_le_bytes(*end)),
        }
    }

    /// True when `bytes`, which are at least as long, begin with the name.
    #[inline]
    fn is(&self, bytes: &[u8]) -> bool {
        let Some(bytes) = bytes.get(..self.name.len()) else {
            return false;
        };
        match bytes.last_chunk() {
            Some(end) if u64::from_le_bytes(*end) != self.end => false,
            _ => bytes == self.name,
        }
    }
}
