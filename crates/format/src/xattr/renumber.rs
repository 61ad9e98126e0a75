//! Other inode numbers in entries whose values are in inodes (`ea_inode`).

use super::area::{Fixed, MAGIC_BYTES};
use super::stored_hash::{Area, entries_of};
use crate::InodeNr;
use crate::bytes::{put_u32, rest_mut};

/// Offset of the number of the inode in an entry.
const INODE_AT: usize = 4;

/// Replaces the inode of each value for which `new` has a number; returns how many. Hashes do not
/// depend on it. `bytes` were decoded before; the caller writes the checksum.
pub fn renumber_values(
    bytes: &mut [u8],
    area: Area,
    mut new: impl FnMut(InodeNr) -> Option<InodeNr>,
) -> usize {
    let base = match area {
        Area::InInode => MAGIC_BYTES,
        Area::InBlock => 0,
    };
    let mut changes = Vec::new();
    for (entries, at) in entries_of(bytes, area) {
        let inode = InodeNr(Fixed::read(entries, at).inode);
        if inode.0 != 0 {
            let field = base.saturating_add(at).saturating_add(INODE_AT);
            changes.extend(new(inode).map(|inode| (field, inode)));
        }
    }
    for (field, inode) in &changes {
        put_u32(rest_mut(bytes, *field), 0, inode.0);
    }
    changes.len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DamageLocation;
    use crate::xattr::{
        NameIndex, XattrName, XattrSet, XattrValue, decode_block, decode_ibody, encode_block,
        encode_ibody,
    };

    fn set(inode: u32) -> XattrSet {
        let mut set = XattrSet::new();
        let name = |text: &[u8]| XattrName::new(NameIndex(1), text);
        set.set(name(b"here"), XattrValue::Here(b"value".to_vec()));
        let value = XattrValue::Inode {
            inode: InodeNr(inode),
            size: 5000,
            entry_hash: 77,
        };
        set.set(name(b"there"), value);
        set
    }

    fn moved(nr: InodeNr) -> Option<InodeNr> {
        (nr.0 == 50).then_some(InodeNr(60))
    }

    #[test]
    fn values_in_inodes_get_other_numbers() {
        let (mut block, mut ibody) = (vec![0; 1024], vec![0; 96]);
        encode_block(&mut block, &set(50)).unwrap();
        encode_ibody(&mut ibody, &set(50)).unwrap();
        assert_eq!(renumber_values(&mut block, Area::InBlock, moved), 1);
        assert_eq!(renumber_values(&mut ibody, Area::InInode, moved), 1);
        assert_eq!(
            decode_ibody(&ibody, DamageLocation::Superblock),
            Ok(set(60))
        );
        let (mut expected, place) = (vec![0; 1024], DamageLocation::Superblock);
        encode_block(&mut expected, &set(60)).unwrap();
        assert!(decode_block(&block, place).is_ok());
        assert_eq!(block, expected);
        assert_eq!(renumber_values(&mut block, Area::InBlock, moved), 0);
    }

    #[test]
    fn an_area_without_attributes_stays() {
        let mut empty = [0; 96];
        assert_eq!(renumber_values(&mut empty, Area::InInode, moved), 0);
        assert_eq!(renumber_values(&mut [], Area::InBlock, moved), 0);
    }
}
