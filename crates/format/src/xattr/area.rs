//! Entries and values in an area, shared by both forms, and the form in the inode.

use super::{
    ENTRY_BYTES, NameIndex, VALUE_MAX_BYTES, Xattr, XattrName, XattrSet, XattrValue, entry_bytes,
    value_bytes,
};
use crate::bytes::{get_u8, get_u16, get_u32, put_slice, put_u8, put_u16, put_u32};
use crate::{Corrupt, InodeNr, NoRoom, Place};

/// First four bytes of the area in an inode.
pub const IBODY_MAGIC: u32 = 0xEA02_0000;
/// Bytes of zeroes after the last entry.
pub(super) const END_BYTES: usize = 4;
pub(super) const MAGIC_BYTES: usize = 4;

/// Bytes for entries and values in an inode's area of `area_len` bytes (which starts after the
/// extra fields): compare with [`XattrSet::area_bytes`].
pub const fn ibody_capacity_bytes(area_len: usize) -> usize {
    area_len.saturating_sub(MAGIC_BYTES + END_BYTES)
}

/// Reads the area after the extra fields of an inode. Without the magic it is empty.
pub fn decode_ibody(area: &[u8], place: Place) -> Result<XattrSet, Corrupt> {
    if area.len() < MAGIC_BYTES + END_BYTES || get_u32(area, 0) != IBODY_MAGIC {
        return Ok(XattrSet::new());
    }
    parse(&area[MAGIC_BYTES..], 0, place)
}

/// Writes the area after the extra fields of an inode. An empty set writes only zeroes. If the set
/// does not fit, the area is unchanged.
pub fn encode_ibody(area: &mut [u8], set: &XattrSet) -> Result<(), NoRoom> {
    if set.is_empty() {
        area.fill(0);
        return Ok(());
    }
    if set.area_bytes() > ibody_capacity_bytes(area.len()) {
        return Err(NoRoom);
    }
    area.fill(0);
    put_u32(area, 0, IBODY_MAGIC);
    for (at, entry) in write(&mut area[MAGIC_BYTES..], 0, set.iter()) {
        if let XattrValue::Inode { entry_hash, .. } = entry.value {
            put_u32(&mut area[MAGIC_BYTES..], at + 12, entry_hash);
        }
    }
    Ok(())
}

/// Reads the entries of `area` from byte `first` on; value offsets count from the start of `area`.
pub(super) fn parse(area: &[u8], first: usize, place: Place) -> Result<XattrSet, Corrupt> {
    let bad = |problem| Corrupt::new(place, "extended attribute", problem);
    let mut at = first;
    let mut spans = Vec::new();
    while let Some(next) = entry_end(area, at).map_err(bad)? {
        spans.push(at);
        at = next;
    }
    check_values(area, &spans, at + END_BYTES).map_err(bad)?;
    spans
        .iter()
        .map(|&at| entry(area, at).map_err(bad))
        .collect()
}

/// The end of the entry at `at`; `None` at the zeroes after the last one.
fn entry_end(area: &[u8], at: usize) -> Result<Option<usize>, &'static str> {
    if at + END_BYTES > area.len() {
        return Err("no end of the entries");
    }
    if get_u32(area, at) == 0 {
        return Ok(None);
    }
    let end = at + entry_bytes(usize::from(get_u8(area, at)));
    if end > area.len() {
        return Err("entry goes past the end");
    }
    Ok(Some(end))
}

/// Checks that values lie after the entries, inside the area, without overlap. So their total size
/// is bounded by the area.
fn check_values(area: &[u8], entries: &[usize], start: usize) -> Result<(), &'static str> {
    let mut values: Vec<(usize, usize)> = Vec::new();
    for &at in entries {
        let size = get_u32(area, at + 8) as usize;
        if size > VALUE_MAX_BYTES {
            return Err("value too long");
        }
        if size > 0 && get_u32(area, at + 4) == 0 {
            let value_at = usize::from(get_u16(area, at + 2));
            values.push((value_at, value_at + value_bytes(size)));
        }
    }
    values.sort_unstable();
    if values.first().is_some_and(|value| value.0 < start) {
        return Err("value overlaps the entries");
    }
    if values.iter().any(|value| value.1 > area.len()) {
        return Err("value goes past the end");
    }
    if values.windows(2).any(|pair| pair[0].1 > pair[1].0) {
        return Err("values overlap");
    }
    Ok(())
}

/// Reads an entry whose value was checked.
fn entry(area: &[u8], at: usize) -> Result<Xattr, &'static str> {
    let name_at = at + ENTRY_BYTES;
    let rest = area[name_at..name_at + usize::from(get_u8(area, at))].to_vec();
    if rest.contains(&0) {
        return Err("zero byte in the name");
    }
    let name = XattrName {
        index: NameIndex(get_u8(area, at + 1)),
        rest,
    };
    let (inode, size) = (get_u32(area, at + 4), get_u32(area, at + 8));
    let value = if inode != 0 {
        let entry_hash = get_u32(area, at + 12);
        XattrValue::Inode {
            inode: InodeNr(inode),
            size,
            entry_hash,
        }
    } else {
        // The offset of an empty value has no meaning.
        let value_at = if size == 0 {
            0
        } else {
            usize::from(get_u16(area, at + 2))
        };
        XattrValue::Here(area[value_at..value_at + size as usize].to_vec())
    };
    Ok(Xattr { name, value })
}

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
        let rest = &entry.name.rest;
        put_u8(area, at, rest.len() as u8);
        put_u8(area, at + 1, entry.name.index.0);
        put_u32(area, at + 8, entry.value.len() as u32);
        put_slice(area, at + ENTRY_BYTES, rest);
        match &entry.value {
            XattrValue::Here(value) if value.is_empty() => {}
            XattrValue::Here(value) => {
                values -= value_bytes(value.len());
                put_u16(area, at + 2, values as u16);
                put_slice(area, values, value);
            }
            XattrValue::Inode { inode, .. } => put_u32(area, at + 4, inode.0),
        }
        placed.push((at, entry));
        at += entry_bytes(rest.len());
    }
    placed
}
