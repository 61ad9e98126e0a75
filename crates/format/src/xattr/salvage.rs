//! Attributes of an area with damage.

use super::area::{Fixed, entry};
use super::stored_hash::{Area, entries_of, matches};
use super::{BLOCK_HEADER_BYTES, VALUE_MAX_BYTES, Xattr, XattrSet, block_capacity_bytes};
use super::{ENTRY_BYTES, ibody_capacity_bytes};
use std::ops::Range;
use uext4_num::usize_of;

/// The attributes that can be believed: their values are inside of the area and apart from each
/// other, and have the hash of their entry, if that has one. All of them fit into the area. An area
/// in an inode has its magic.
pub fn salvage(bytes: &[u8], area: Area) -> XattrSet {
    let (capacity, first) = match area {
        Area::InInode => (ibody_capacity_bytes(bytes.len()), 0),
        Area::InBlock => (block_capacity_bytes(bytes.len()), BLOCK_HEADER_BYTES),
    };
    let mut kept: Vec<Xattr> = Vec::new();
    let mut values: Vec<Range<usize>> = Vec::new();
    let mut room = capacity;
    for (entries, at) in entries_of(bytes, area) {
        let fixed = Fixed::read(entries, at);
        let value = fixed.padded_value();
        let is_here = fixed.inode == 0 && !value.is_empty();
        let lies_apart = values
            .iter()
            .all(|other| value.end <= other.start || other.end <= value.start);
        let is_inside = fixed.end(at) <= entries.len()
            && usize_of(fixed.size) <= VALUE_MAX_BYTES
            && (!is_here
                || (value.start >= first.saturating_add(ENTRY_BYTES)
                    && value.end <= entries.len()
                    && lies_apart));
        if !is_inside || !matches(entries, at, area) {
            continue;
        }
        let Ok(found) = entry(entries, at) else {
            continue;
        };
        let is_new = kept.iter().all(|other| other.name != found.name);
        if let Some(rest) = room.checked_sub(found.area_bytes()).filter(|_| is_new) {
            room = rest;
            kept.push(found);
            values.extend(is_here.then_some(value));
        }
    }
    kept.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xattr::{NameIndex, XattrName, XattrValue, encode_block, encode_ibody};
    use proptest::prelude::*;

    fn set(n: u8) -> XattrSet {
        let attribute = |at: u8| Xattr {
            name: XattrName::new(NameIndex::USER, format!("name{at}").as_bytes()),
            value: XattrValue::Here(vec![at + 1; 30]),
        };
        (0..n).map(attribute).collect()
    }

    fn without(set: &XattrSet, at: u8) -> XattrSet {
        let mut set = set.clone();
        set.remove(&XattrName::new(
            NameIndex::USER,
            format!("name{at}").as_bytes(),
        ));
        set
    }

    /// Entries take 24 bytes each.
    #[test]
    fn entries_without_damage_stay() {
        let set = set(5);
        let mut block = vec![0; 1024];
        encode_block(&mut block, &set).unwrap();
        assert_eq!(salvage(&block, Area::InBlock), set);
        let second = BLOCK_HEADER_BYTES + 24;
        for (at, byte) in [(2, 0xF0), (2, 8), (8, 0xFF), (12, 1), (16, b'x')] {
            let mut bad = block.clone();
            bad[second + at] ^= byte;
            assert_eq!(salvage(&bad, Area::InBlock), without(&set, 1), "{at}");
        }
        let mut area = vec![0; 400];
        encode_ibody(&mut area, &set).unwrap();
        assert_eq!(salvage(&area, Area::InInode), set);
        area[4 + 24 + 3] = 0xFF;
        assert_eq!(salvage(&area, Area::InInode), without(&set, 1));
    }

    #[test]
    fn one_value_has_one_entry() {
        let set = set(3);
        let mut area = vec![0; 400];
        encode_ibody(&mut area, &set).unwrap();
        area.copy_within(4 + 2..4 + 4, 4 + 24 + 2);
        assert_eq!(salvage(&area, Area::InInode), without(&set, 1));
    }

    proptest! {
        /// Whatever the bytes are, what is kept can be encoded again.
        #[test]
        fn all_that_stays_fits(
            mut bytes in prop::collection::vec(0_u8..40, 0..300), in_block: bool
        ) {
            let area = if in_block { Area::InBlock } else { Area::InInode };
            if let (false, Some(magic)) = (in_block, bytes.get_mut(..4)) {
                magic.copy_from_slice(&crate::xattr::IBODY_MAGIC.to_le_bytes());
            }
            let set = salvage(&bytes, area);
            let fits = match area {
                Area::InInode => encode_ibody(&mut bytes, &set).is_ok(),
                Area::InBlock => set.is_empty() || encode_block(&mut bytes, &set).is_ok(),
            };
            prop_assert!(fits);
        }
    }
}
