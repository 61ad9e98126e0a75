//! Consistency checks of fields that readers do not need: hashes, and offsets of empty values.

use super::area::{Fixed, IBODY_MAGIC, MAGIC_BYTES};
use super::hash::{entry_hash, signed_entry_hash};
use super::{BLOCK_HEADER_BYTES, ENTRY_BYTES};
use crate::bytes::{get_u32, rest};

/// The kind of area that holds the entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    /// After the extra fields of an inode; a hash of 0 means none there.
    InInode,
    /// In a separate block (`i_file_acl`).
    InBlock,
}

/// True if every entry of `area` with its value in the same area has the hash of its name and
/// value. The entries were decoded before; values in inodes are not checked.
pub fn hashes_match(bytes: &[u8], area: Area) -> bool {
    all(bytes, area, |entries, at| matches(entries, at, area))
}

/// True if no entry of `area` has a value offset past the end of the area. An empty value has no
/// place, yet e2fsck rejects such an entry in a block, and with inline data.
pub fn offsets_fit(bytes: &[u8], area: Area) -> bool {
    all(bytes, area, |entries, at| {
        let entry = Fixed::read(entries, at);
        entry.inode != 0 || usize::from(entry.value_at) <= entries.len()
    })
}

/// Whether `fits` holds for all entries of `area`. `fits` gets the base of the value offsets and
/// the offset of the entry in it.
fn all(bytes: &[u8], area: Area, fits: impl Fn(&[u8], usize) -> bool) -> bool {
    entries_of(bytes, area).all(|(entries, at)| fits(entries, at))
}

/// The entries of `area`: the base of its offsets, and the offset of each. An inode area without
/// the magic has none.
pub(super) fn entries_of(bytes: &[u8], area: Area) -> impl Iterator<Item = (&[u8], usize)> {
    let (entries, first) = match area {
        Area::InInode if bytes.len() < MAGIC_BYTES || get_u32(bytes, 0) != IBODY_MAGIC => {
            (Default::default(), 0)
        }
        Area::InInode => (rest(bytes, MAGIC_BYTES), 0),
        Area::InBlock => (bytes, BLOCK_HEADER_BYTES),
    };
    let mut next = first;
    std::iter::from_fn(move || {
        let at = next;
        let is_entry = rest(entries, at).len() >= ENTRY_BYTES && get_u32(entries, at) != 0;
        next = Fixed::read(entries, at).end(at);
        is_entry.then_some((entries, at))
    })
}

/// Whether the entry at byte `at` has the hash of its name and value. True without a hash, and for
/// a value in an inode.
pub(super) fn matches(entries: &[u8], at: usize, area: Area) -> bool {
    let entry = Fixed::read(entries, at);
    let stored = entry.hash;
    if entry.inode != 0 || (stored == 0 && area == Area::InInode) {
        return true;
    }
    let name = entry.name(entries, at);
    // The padding of the last word counts as well.
    let value = entries.get(entry.padded_value());
    let (Some(name), Some(value)) = (name, value) else {
        return false;
    };
    stored == entry_hash(name, value) || stored == signed_entry_hash(name, value)
}
