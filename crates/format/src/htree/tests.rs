use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::dirent::{DirEntryType, DirLeaf, LeafTail, init_first_block};
use crate::hash::HashVersion;
use crate::{BlockNr, DamageLocation, InodeNr, LogicalBlock, Seed};

const PLACE: DamageLocation = DamageLocation::Block(BlockNr(3));
const TAIL: LeafTail = LeafTail::Checksum;

fn new_root(block_size: usize, tail: LeafTail) -> Vec<u8> {
    let mut block = vec![0; block_size];
    init_first_block(
        &mut block,
        tail,
        InodeNr(12),
        InodeNr(2),
        DirEntryType::Directory,
    );
    init_root(&mut block, HashVersion::Tea, tail, LogicalBlock(1));
    block
}

fn entry(hash: u32, block: u32) -> DxEntry {
    DxEntry {
        hash,
        block: LogicalBlock(block),
    }
}

#[test]
fn a_new_root_parses_and_still_looks_like_a_directory() {
    for size in [1024, 4096, 65_536] {
        let block = new_root(size, TAIL);
        let info = RootInfo::parse(&block, MaxLevels::Two, PLACE).unwrap();
        assert_eq!(
            info,
            RootInfo {
                hash_version: HashVersion::Tea,
                indirect_levels: 0
            }
        );
        let root = DxNode::parse_root(&block[..], TAIL, PLACE).unwrap();
        assert_eq!((root.count(), root.limit()), (1, (size - 40) / 8));
        assert_eq!(root.entry(0), Some(entry(0, 1)));
        assert!(DxNode::parse_root(&block[..], LeafTail::None, PLACE).is_err());
        let plain = DirLeaf::new(&block[..], LeafTail::None, PLACE);
        let names: Vec<_> = plain
            .entries()
            .map(|entry| entry.unwrap().name.to_vec())
            .collect();
        assert_eq!(names, [b".".to_vec(), b"..".to_vec()]);
    }
}

#[test]
fn search_and_continuation() {
    let mut block = new_root(1024, TAIL);
    let mut root = DxNode::root(&mut block[..]);
    for (at, hash) in [10, 20, 21, 40].into_iter().enumerate() {
        root.insert(at + 1, entry(hash, at as u32 + 2)).unwrap();
    }
    let found: Vec<_> = [0, 9, 10, 18, 20, 22, 40, u32::MAX]
        .map(|hash| root.search(hash))
        .to_vec();
    assert_eq!(found, [0, 0, 1, 1, 2, 3, 4, 4]);
    assert!(root.continues(3, 20));
    assert!(!root.continues(2, 20) && !root.continues(4, 40) && !root.continues(9, 40));
    root.remove(0);
    assert_eq!(root.entry(0), Some(entry(0, 2)));
    assert_eq!(root.count(), 4);
}

#[test]
fn growing_and_splitting_keeps_every_entry() {
    let mut block = new_root(1024, TAIL);
    let mut root = DxNode::root(&mut block[..]);
    while !root.is_full() {
        let at = root.count();
        root.insert(at, entry(at as u32 * 2, at as u32 + 1))
            .unwrap();
    }
    assert!(root.insert(1, entry(1, 1)).is_err());
    let all: Vec<_> = root.entries().collect();
    let (mut left, mut right) = (vec![1; 1024], vec![1; 1024]);
    root.push_down(&mut left, LogicalBlock(200), TAIL);
    assert_eq!(root.entries().collect::<Vec<_>>(), [entry(0, 200)]);
    let mut node = DxNode::parse_node(&mut left[..], TAIL, PLACE).unwrap();
    let separator = node.split_to(50, &mut right, TAIL).unwrap();
    assert_eq!(separator, all[50].hash);
    root.insert(1, entry(separator, 201)).unwrap();
    let other = DxNode::parse_node(&right[..], TAIL, PLACE).unwrap();
    let blocks = node
        .entries()
        .chain(other.entries())
        .map(|entry| entry.block);
    assert!(blocks.eq(all.iter().map(|entry| entry.block)));
    RootInfo::set_indirect_levels(&mut block, 1);
    assert_eq!(
        RootInfo::parse(&block, MaxLevels::Two, PLACE)
            .unwrap()
            .indirect_levels,
        1
    );
    RootInfo::set_indirect_levels(&mut block, 2);
    assert!(RootInfo::parse(&block, MaxLevels::Two, PLACE).is_err());
    assert!(RootInfo::parse(&block, MaxLevels::Three, PLACE).is_ok());
}

#[test]
fn the_checksum_covers_used_entries_only() {
    let mut block = new_root(1024, TAIL);
    let mut root = DxNode::root(&mut block[..]);
    root.insert(1, entry(8, 3)).unwrap();
    root.update_checksum(Seed(9));
    root.verify_checksum(Seed(9), TAIL, PLACE).unwrap();
    root.verify_checksum(Seed(8), LeafTail::None, PLACE)
        .unwrap();
    let mut unused = block.clone();
    unused[ROOT_START + 16] = 1;
    DxNode::root(&unused[..])
        .verify_checksum(Seed(9), TAIL, PLACE)
        .unwrap();
    block[ROOT_START + 8] ^= 4;
    assert!(
        DxNode::root(&block[..])
            .verify_checksum(Seed(9), TAIL, PLACE)
            .is_err()
    );
}

proptest! {
    #[test]
    fn a_node_follows_a_map(steps in prop::collection::vec((any::<bool>(), 1..150_u32), 0..400)) {
        let mut node = DxNode::init_node(vec![0; 1024], TAIL, LogicalBlock(1));
        let mut model = BTreeMap::from([(0, 1)]);
        for (insert, number) in steps {
            let hash = number * 2;
            let at = node.search(hash);
            let there = node.entry(at).unwrap().hash == hash;
            prop_assert_eq!(there, model.contains_key(&hash));
            if insert && !there {
                let done = node.insert(at + 1, entry(hash, number)).is_ok();
                prop_assert_eq!(done, model.len() < 126);
                if done {
                    model.insert(hash, number);
                }
            } else if !insert && there {
                node.remove(at);
                model.remove(&hash);
            }
            let model = model.iter().map(|(&hash, &block)| entry(hash, block));
            prop_assert!(node.entries().eq(model));
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300), hash: u32) {
        let _ = RootInfo::parse(&bytes, MaxLevels::Three, PLACE);
        for node in [DxNode::root(&bytes[..]), DxNode::node(&bytes[..])] {
            let _ = (node.search(hash), node.entries().count(), node.continues(3, hash));
            let _ = node.verify_checksum(Seed(0), TAIL, PLACE);
        }
        let _ = DxNode::parse_root(&bytes[..], TAIL, PLACE);
        let _ = DxNode::parse_node(&bytes[..], TAIL, PLACE);
    }
}
