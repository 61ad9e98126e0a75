//! Entries and values in an area, shared by both forms, and the form in the inode.

use super::{
    ENTRY_BYTES, NameIndex, VALUE_MAX_BYTES, Xattr, XattrName, XattrSet, XattrValue, entry_bytes,
    value_bytes,
};
use crate::bytes::{
    get_u8, get_u16, get_u32, part, put_slice, put_u8, put_u16, put_u32, rest, rest_mut,
};
use crate::{Corrupt, CorruptKind, DamageLocation, Full, InodeNr};
use std::ops::Range;
use uext4_num::{clamp_u8, clamp_u16, clamp_u32, usize_of};

/// First four bytes of the area in an inode.
pub const IBODY_MAGIC: u32 = 0xEA02_0000;

/// Whether the area of an inode has the magic number.
pub fn has_ibody_magic(area: &[u8]) -> bool {
    get_u32(area, 0) == IBODY_MAGIC
}

/// Writes the magic number of the area of an inode.
pub fn set_ibody_magic(area: &mut [u8]) {
    put_u32(area, 0, IBODY_MAGIC);
}
/// Bytes of zeroes after the last entry.
pub(super) const END_BYTES: usize = 4;
pub(super) const MAGIC_BYTES: usize = 4;

/// Bytes for entries and values in an inode's area of `area_len` bytes (which starts after the
/// extra fields): compare with [`XattrSet::area_bytes`].
pub const fn ibody_capacity_bytes(area_len: usize) -> usize {
    area_len.saturating_sub(MAGIC_BYTES + END_BYTES)
}

/// Reads the area after the extra fields of an inode. Without the magic it is empty.
pub fn decode_ibody(area: &[u8], place: DamageLocation) -> Result<XattrSet, Corrupt> {
    if area.len() < MAGIC_BYTES + END_BYTES || get_u32(area, 0) != IBODY_MAGIC {
        return Ok(XattrSet::new());
    }
    parse(rest(area, MAGIC_BYTES), 0, place)
}

/// Writes the area after the extra fields of an inode. An empty set writes only zeroes. If the set
/// does not fit, the area is unchanged.
pub fn encode_ibody(area: &mut [u8], set: &XattrSet) -> Result<(), Full> {
    if set.is_empty() {
        area.fill(0);
        return Ok(());
    }
    if set.area_bytes() > ibody_capacity_bytes(area.len()) {
        return Err(Full);
    }
    area.fill(0);
    put_u32(area, 0, IBODY_MAGIC);
    let area = rest_mut(area, MAGIC_BYTES);
    for (at, entry) in write(area, 0, set.iter()) {
        if let XattrValue::Inode { entry_hash, .. } = entry.value {
            set_hash(area, at, entry_hash);
        }
    }
    Ok(())
}

/// Reads the entries of `area` from byte `first` on; value offsets count from the start of `area`.
pub(super) fn parse(area: &[u8], first: usize, place: DamageLocation) -> Result<XattrSet, Corrupt> {
    let bad = |problem| Corrupt::new(place, "extended attribute", problem);
    let mut at = first;
    let mut spans = Vec::new();
    while let Some(next) = entry_end(area, at).map_err(bad)? {
        spans.push(at);
        at = next;
    }
    check_values(area, &spans, at.saturating_add(END_BYTES)).map_err(bad)?;
    spans
        .iter()
        .map(|&at| entry(area, at).map_err(bad))
        .collect()
}

/// The end of the entry at `at`; `None` at the zeroes after the last one.
fn entry_end(area: &[u8], at: usize) -> Result<Option<usize>, CorruptKind> {
    if rest(area, at).len() < END_BYTES {
        return Err(CorruptKind::EntriesEnd);
    }
    if get_u32(area, at) == 0 {
        return Ok(None);
    }
    let end = Fixed::read(area, at).end(at);
    if end > area.len() {
        return Err(CorruptKind::EntryLong);
    }
    Ok(Some(end))
}

/// Checks that values lie after the entries, inside the area, without overlap. So their total size
/// is bounded by the area.
fn check_values(area: &[u8], entries: &[usize], start: usize) -> Result<(), CorruptKind> {
    let mut values: Vec<(usize, usize)> = Vec::new();
    for &at in entries {
        let fixed = Fixed::read(area, at);
        if usize_of(fixed.size) > VALUE_MAX_BYTES {
            return Err(CorruptKind::ValueLong { bytes: fixed.size });
        }
        if fixed.size > 0 && fixed.inode == 0 {
            let value = fixed.padded_value();
            values.push((value.start, value.end));
        }
    }
    values.sort_unstable();
    if values.first().is_some_and(|value| value.0 < start) {
        return Err(CorruptKind::ValueInEntries);
    }
    if values.iter().any(|value| value.1 > area.len()) {
        return Err(CorruptKind::ValuePastEnd);
    }
    if !values.is_sorted_by(|before, after| before.1 <= after.0) {
        return Err(CorruptKind::ValuesOverlap);
    }
    Ok(())
}

/// The fields of an entry before its name.
pub(super) struct Fixed {
    name_len: u8,
    index: NameIndex,
    /// Offset of the value; without meaning for an empty one.
    pub(super) value_at: u16,
    /// Inode of the value; 0: in the area.
    pub(super) inode: u32,
    /// Bytes of the value.
    pub(super) size: u32,
    /// Hash of name and value.
    pub(super) hash: u32,
}

impl Fixed {
    /// The fields of the entry at byte `at`; zeroes past the end.
    pub(super) fn read(area: &[u8], at: usize) -> Self {
        let entry = rest(area, at);
        Self {
            name_len: get_u8(entry, 0),
            index: NameIndex(get_u8(entry, 1)),
            value_at: get_u16(entry, 2),
            inode: get_u32(entry, 4),
            size: get_u32(entry, 8),
            hash: get_u32(entry, 12),
        }
    }

    /// The end of the entry that starts at byte `at`.
    pub(super) fn end(&self, at: usize) -> usize {
        at.saturating_add(entry_bytes(self.name_len.into()))
    }

    /// The name of the entry that starts at byte `at`.
    pub(super) fn name<'a>(&self, area: &'a [u8], at: usize) -> Option<&'a [u8]> {
        rest(rest(area, at), ENTRY_BYTES).get(..self.name_len.into())
    }

    /// The place of a value in the area.
    fn value(&self) -> Range<usize> {
        let start = if self.size == 0 {
            0
        } else {
            usize::from(self.value_at)
        };
        start..start.saturating_add(usize_of(self.size))
    }

    /// The same with the padding to a multiple of 4.
    pub(super) fn padded_value(&self) -> Range<usize> {
        let value = self.value();
        value.start..value.start.saturating_add(value_bytes(value.len()))
    }
}

/// Writes the hash of the entry at byte `at`.
pub(super) fn set_hash(area: &mut [u8], at: usize, hash: u32) {
    put_u32(rest_mut(area, at), 12, hash);
}

/// Reads an entry whose value was checked.
pub(super) fn entry(area: &[u8], at: usize) -> Result<Xattr, CorruptKind> {
    let fixed = Fixed::read(area, at);
    let name = fixed.name(area, at).unwrap_or_default();
    if name.contains(&0) {
        return Err(CorruptKind::NameZero);
    }
    let name = XattrName::new(fixed.index, name);
    let value = match fixed.inode {
        0 => XattrValue::Here(part(area, fixed.value()).to_vec()),
        inode => XattrValue::Inode {
            inode: InodeNr(inode),
            size: fixed.size,
            entry_hash: fixed.hash,
        },
    };
    Ok(Xattr { name, value })
}

/// Offset in an entry without prefix, name and value in the area; not 0.
const OFFSET_OF_NAMELESS: u16 = 4;

/// Writes entries from byte `first` on and their values from the end of the zeroed `area` down.
/// They must fit. Returns the offset of each entry; the caller writes hashes.
pub(super) fn write<'a>(
    area: &mut [u8],
    first: usize,
    entries: impl Iterator<Item = &'a Xattr>,
) -> Vec<(usize, &'a Xattr)> {
    let (mut at, mut values) = (first, area.len());
    let mut placed = Vec::new();
    for entry in entries {
        let name = &entry.name.rest;
        let bytes = rest_mut(area, at);
        put_u8(bytes, 0, clamp_u8(name.len()));
        put_u8(bytes, 1, entry.name.index.0);
        put_u32(bytes, 8, clamp_u32(entry.value.len()));
        put_slice(bytes, ENTRY_BYTES, name);
        if name.is_empty() && entry.name.index.0 == 0 {
            // Without a value in the area any offset is right, but four zero bytes end the list.
            put_u16(bytes, 2, OFFSET_OF_NAMELESS);
        }
        match &entry.value {
            XattrValue::Here(value) if value.is_empty() => {}
            XattrValue::Here(value) => {
                values = values.saturating_sub(value_bytes(value.len()));
                put_u16(bytes, 2, clamp_u16(values));
                put_slice(area, values, value);
            }
            XattrValue::Inode { inode, .. } => put_u32(bytes, 4, inode.0),
        }
        placed.push((at, entry));
        at = at.saturating_add(entry_bytes(name.len()));
    }
    placed
}
