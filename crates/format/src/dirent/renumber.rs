//! Other inode numbers in the entries of a block, whatever its kind.
//!
//! The root of an index begins with the records "." and "..", its nodes and the tail of a leaf are
//! free records. So one walk over all of a block finds each entry.

use super::DirEntries;
use crate::bytes::{put_u32, rest_mut};
use crate::{Corrupt, DamageLocation, InodeNr};

/// Replaces the inode of each entry for which `new` has a number; returns how many. `block_size`
/// says how lengths are stored, and `bytes` are a block of a directory, or an area of an inline
/// one. The caller writes the checksum.
///
/// # Errors
/// [`Corrupt`], with nothing changed, if a record is damaged.
pub fn renumber(
    bytes: &mut [u8],
    block_size: usize,
    place: DamageLocation,
    mut new: impl FnMut(InodeNr) -> Option<InodeNr>,
) -> Result<usize, Corrupt> {
    let mut changes = Vec::new();
    for record in DirEntries::new(bytes, 0, block_size, place) {
        let record = record?;
        if !record.is_free() {
            changes.extend(new(record.inode).map(|inode| (record.offset, inode)));
        }
    }
    for (offset, inode) in &changes {
        put_u32(rest_mut(bytes, *offset), 0, inode.0);
    }
    Ok(changes.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LogicalBlock;
    use crate::dirent::{DirEntryType, DirLeaf, Insertion, LeafTail, NewEntry, init_first_block};
    use crate::hash::HashVersion;
    use crate::htree::{DxNode, init_root};

    const PLACE: DamageLocation = DamageLocation::Superblock;

    fn first_block(tail: LeafTail) -> Vec<u8> {
        let mut block = vec![0; 1024];
        let kind = DirEntryType::Directory;
        init_first_block(&mut block, tail, InodeNr(12), InodeNr(2), kind);
        block
    }

    fn moved(nr: InodeNr) -> Option<InodeNr> {
        (nr.0 > 10).then_some(InodeNr(nr.0 + 1000))
    }

    fn numbers(block: &[u8]) -> Vec<u32> {
        let records = DirEntries::new(block, 0, block.len(), PLACE);
        let used = records
            .map(Result::unwrap)
            .filter(|record| !record.is_free());
        used.map(|record| record.inode.0).collect()
    }

    #[test]
    fn entries_of_leaves_and_roots_change() {
        for tail in [LeafTail::None, LeafTail::Checksum] {
            let mut block = first_block(tail);
            let entry = NewEntry {
                inode: InodeNr(99),
                name: b"a name",
                kind: DirEntryType::Regular,
            };
            let inserted = DirLeaf::new(&mut block[..], tail, PLACE).insert(&entry);
            assert!(matches!(inserted, Ok(Insertion::Done(_))));
            assert_eq!(renumber(&mut block, 1024, PLACE, moved), Ok(2));
            assert_eq!(numbers(&block), [1012, 2, 1099]);
        }
        let mut root = first_block(LeafTail::None);
        init_root(
            &mut root,
            HashVersion::HalfMd4,
            LeafTail::Checksum,
            LogicalBlock(1),
        );
        assert_eq!(renumber(&mut root, 1024, PLACE, moved), Ok(1));
        assert_eq!(numbers(&root), [1012, 2]);
    }

    #[test]
    fn nodes_have_no_entries() {
        let mut node = vec![0; 1024];
        DxNode::init_node(&mut node[..], LeafTail::Checksum, LogicalBlock(1));
        assert_eq!(renumber(&mut node, 1024, PLACE, moved), Ok(0));
    }

    #[test]
    fn a_damaged_block_stays() {
        let mut block = first_block(LeafTail::None);
        block[16..18].copy_from_slice(&[1, 0]);
        let before = block.clone();
        assert!(renumber(&mut block, 1024, PLACE, moved).is_err());
        assert_eq!(block, before);
    }
}
