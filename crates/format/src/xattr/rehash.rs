//! Other hashes in entries whose values are in inodes (`ea_inode`), for another seed.

use super::BLOCK_HEADER_BYTES;
use super::area::{Fixed, MAGIC_BYTES};
use super::hash::{block_hash, entry_hash_of_inode};
use super::stored_hash::{Area, entries_of};
use crate::InodeNr;
use crate::bytes::{put_u32, rest_mut};

/// Offset of the hash in an entry, and in the header of a block.
const HASH_AT: usize = 12;

/// Sets the hash of each entry for whose inode `new` has the hash of its value, and that of the
/// block. `bytes` were decoded before; the caller writes the checksum.
pub fn rehash_values(bytes: &mut [u8], area: Area, mut new: impl FnMut(InodeNr) -> Option<u32>) {
    let base = match area {
        Area::InInode => MAGIC_BYTES,
        Area::InBlock => 0,
    };
    let (mut changes, mut hashes) = (Vec::new(), Vec::new());
    for (entries, at) in entries_of(bytes, area) {
        let entry = Fixed::read(entries, at);
        let value = Some(InodeNr(entry.inode)).filter(|inode| inode.0 != 0);
        let hash = value.and_then(&mut new).zip(entry.name(entries, at));
        let hash = hash.map(|(value, name)| entry_hash_of_inode(name, value));
        if let Some(hash) = hash {
            changes.push((base.saturating_add(at).saturating_add(HASH_AT), hash));
        }
        hashes.push(hash.unwrap_or(entry.hash));
    }
    if changes.is_empty() {
        return;
    }
    for (field, hash) in changes {
        put_u32(rest_mut(bytes, field), 0, hash);
    }
    if area == Area::InBlock && bytes.len() >= BLOCK_HEADER_BYTES {
        put_u32(bytes, HASH_AT, block_hash(hashes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xattr::{NameIndex, XattrName, XattrSet, XattrValue, encode_block, encode_ibody};

    fn set(value_hash: u32) -> XattrSet {
        let mut set = XattrSet::new();
        let name = |text: &[u8]| XattrName::new(NameIndex(1), text);
        set.set(name(b"here"), XattrValue::Here(b"value".to_vec()));
        let value = XattrValue::Inode {
            inode: InodeNr(50),
            size: 5000,
            entry_hash: entry_hash_of_inode(b"there", value_hash),
        };
        set.set(name(b"there"), value);
        set
    }

    #[test]
    fn areas_are_as_if_encoded_with_the_new_hash() {
        let new = |nr: InodeNr| (nr.0 == 50).then_some(7);
        let (mut block, mut ibody) = (vec![0; 1024], vec![0; 96]);
        let (mut new_block, mut new_ibody) = (block.clone(), ibody.clone());
        encode_block(&mut block, &set(3)).unwrap();
        encode_ibody(&mut ibody, &set(3)).unwrap();
        encode_block(&mut new_block, &set(7)).unwrap();
        encode_ibody(&mut new_ibody, &set(7)).unwrap();
        let before = block.clone();
        rehash_values(&mut block, Area::InBlock, |_| None);
        assert_eq!(block, before);
        rehash_values(&mut block, Area::InBlock, new);
        rehash_values(&mut ibody, Area::InInode, new);
        assert!(block == new_block && ibody == new_ibody);
    }

    #[test]
    fn an_area_without_attributes_stays() {
        let mut empty = [0; 96];
        rehash_values(&mut empty, Area::InInode, |_| Some(7));
        rehash_values(&mut [], Area::InBlock, |_| Some(7));
        assert_eq!(empty, [0; 96]);
    }
}
