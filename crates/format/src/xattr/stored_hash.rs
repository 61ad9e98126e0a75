//! The hashes that stand with entries, for a check: a reader needs none of them.

use super::area::MAGIC_BYTES;
use super::hash::{entry_hash, signed_entry_hash};
use super::{BLOCK_HEADER_BYTES, ENTRY_BYTES, entry_bytes, value_bytes};
use crate::bytes::{get_u8, get_u16, get_u32};

/// Where entries stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    /// Behind the extra fields of an inode; a hash of 0 says nothing there.
    InInode,
    /// In a block of their own.
    InBlock,
}

/// True when every entry of `area` whose value stands there, too, has the hash of its name and
/// value. The entries were decoded before; values in inodes are not looked at.
pub fn hashes_match(bytes: &[u8], area: Area) -> bool {
    let (entries, first) = match area {
        Area::InInode => (bytes.get(MAGIC_BYTES..).unwrap_or_default(), 0),
        Area::InBlock => (bytes, BLOCK_HEADER_BYTES),
    };
    let mut at = first;
    while at + ENTRY_BYTES <= entries.len() && get_u32(entries, at) != 0 {
        if !matches(entries, at, area) {
            return false;
        }
        at += entry_bytes(usize::from(get_u8(entries, at)));
    }
    true
}

fn matches(entries: &[u8], at: usize, area: Area) -> bool {
    let stored = get_u32(entries, at + 12);
    if get_u32(entries, at + 4) != 0 || (stored == 0 && area == Area::InInode) {
        return true;
    }
    let name_at = at + ENTRY_BYTES;
    let name = entries.get(name_at..name_at + usize::from(get_u8(entries, at)));
    let size = get_u32(entries, at + 8) as usize;
    let value_at = if size == 0 {
        0
    } else {
        usize::from(get_u16(entries, at + 2))
    };
    // The bytes that fill the last word count as well.
    let value = entries.get(value_at..value_at.saturating_add(value_bytes(size)));
    let (Some(name), Some(value)) = (name, value) else {
        return false;
    };
    stored == entry_hash(name, value) || stored == signed_entry_hash(name, value)
}
