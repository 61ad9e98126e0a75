//! Directory blocks: leaves, nodes of the index, and directories in an inode.

use uext4_format::dirent::{DirEntryType, DirLeaf, Insertion, LeafTable, LeafTail, NewEntry};
use uext4_format::htree::{DxNode, MaxLevels, RootInfo};
use uext4_format::{InodeNr, LogicalBlock, DamageLocation, inline_data};

const PLACE: DamageLocation = DamageLocation::Superblock;

/// A leaf: a sound one takes a new entry, loses it again, and agrees with its table throughout.
pub fn leaf(data: &[u8]) {
    for tail in [LeafTail::None, LeafTail::Checksum] {
        let leaf = DirLeaf::new(data, tail, PLACE);
        assert_eq!(leaf.validate().is_ok(), LeafTable::build(&leaf, |_| 0).is_ok());
        // A search ends at its name, before damage that may follow.
        let found = leaf.find(b"\xFFnot there\xFF");
        let is_there = matches!(found, Ok(Some(_)));
        assert!(is_there || found.is_ok() == leaf.validate().is_ok());
        if leaf.validate().is_ok() && data.len().is_multiple_of(4) {
            change(data, tail);
        }
    }
    let _ = uext4_format::dirent::verify_block(data, uext4_format::Seed(1), PLACE);
}

fn change(data: &[u8], tail: LeafTail) {
    let mut copy = data.to_vec();
    let mut leaf = DirLeaf::new(&mut copy[..], tail, PLACE);
    let new = NewEntry {
        inode: InodeNr(77),
        name: b"a new name",
        kind: DirEntryType::Regular,
    };
    if let Ok(Insertion::Done(_)) = leaf.insert(&new) {
        leaf.validate().expect("an insert keeps it sound");
        let removed = leaf.remove(new.name).expect("it is sound");
        assert_eq!(removed.map(|removed| removed.0), Some(new.inode));
        leaf.validate().expect("a removal keeps it sound");
    }
}

/// A root and a node of the index.
pub fn index(data: &[u8]) {
    let _ = RootInfo::parse(data, MaxLevels::Three, PLACE);
    for tail in [LeafTail::None, LeafTail::Checksum] {
        let nodes = [
            DxNode::parse_root(data, tail, PLACE),
            DxNode::parse_node(data, tail, PLACE),
        ];
        for node in nodes.into_iter().flatten() {
            for (at, entry) in node.entries().enumerate() {
                let found = node.search(entry.hash);
                assert!(found >= at && node.entry(found).is_some());
            }
            let is_root = RootInfo::parse(data, MaxLevels::Three, PLACE).is_ok();
            split(data, is_root, tail);
        }
    }
}

fn split(data: &[u8], is_root: bool, tail: LeafTail) {
    let (mut copy, mut other) = (data.to_vec(), vec![0; data.len()]);
    let mut node = if is_root {
        DxNode::root(&mut copy[..])
    } else {
        DxNode::node(&mut copy[..])
    };
    if node.count() < 2 || node.count() > node.limit() || node.limit() > node.capacity(tail) {
        return;
    }
    let count = node.count();
    if node.split_to(count / 2, &mut other, tail).is_some() {
        assert_eq!(node.count() + DxNode::node(&other[..]).count(), count);
    }
    node.set_block(0, LogicalBlock(1));
}

/// A directory in an inode: 60 bytes, and the value of an attribute.
pub fn inline(data: &[u8]) {
    let Some((i_block, value)) = data.split_first_chunk::<60>() else {
        return;
    };
    let _ = inline_data::records(i_block, value, PLACE).count();
    let mut value = value.to_vec();
    let len = (value.len() + 12).next_multiple_of(4);
    let _ = inline_data::grow_value(&mut value, len, PLACE);
}
