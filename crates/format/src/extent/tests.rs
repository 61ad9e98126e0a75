use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::{Corrupt, DamageLocation, Seed};

const PLACE: DamageLocation = DamageLocation::Block(BlockNr(7));
const BLOCKS: std::ops::Range<u64> = 1..1 << 40;

fn extent(logical: u32, start: u64, len: u16) -> Extent {
    let (logical, start) = (LogicalBlock(logical), BlockNr(start));
    Extent {
        logical,
        start,
        len,
        state: ExtentState::Written,
    }
}

fn check(bytes: &[u8], depth: u16) -> Result<(), Corrupt> {
    let expect = Expect {
        depth: Some(depth),
        ..Expect::root(BLOCKS)
    };
    ExtentNode::new(bytes).validate(&expect, PLACE)
}

#[test]
fn the_length_32768_means_written() {
    for (stored, len, state) in [
        (1, 1, ExtentState::Written),
        (32_768, 32_768, ExtentState::Written),
        (32_769, 1, ExtentState::Unwritten),
        (65_535, 32_767, ExtentState::Unwritten),
    ] {
        let mut raw = [0; ENTRY_BYTES];
        put_u16(&mut raw, 4, stored);
        let extent = Extent::decode(&raw);
        assert_eq!((extent.len, extent.state), (len, state));
        assert_eq!(extent.encode(), raw);
    }
}

#[test]
fn joins_only_what_continues_and_fits() {
    let first = extent(0, 100, 32_000);
    assert!(first.joins(&extent(32_000, 32_100, 768)));
    assert!(!first.joins(&extent(32_000, 32_100, 769)));
    assert!(!first.joins(&extent(32_001, 32_100, 1)));
    assert!(!first.joins(&extent(32_000, 32_101, 1)));
    let unwritten = Extent {
        state: ExtentState::Unwritten,
        ..extent(32_000, 32_100, 1)
    };
    assert!(!first.joins(&unwritten));
}

#[test]
fn root_has_four_slots_and_refuses_a_fifth() {
    let mut root = ExtentNode::init_root([0; ROOT_BYTES], 0);
    for at in 0..4 {
        root.insert_extent(at, extent(at as u32 * 10, 50, 1))
            .unwrap();
    }
    assert!(root.is_full());
    assert!(root.insert_extent(4, extent(99, 50, 1)).is_err());
    assert_eq!(root.find(LogicalBlock(20)).unwrap().0, 2);
    assert_eq!(root.find(LogicalBlock(21)), None);
    assert_eq!(root.search(LogicalBlock(21)), Some(2));
}

#[test]
fn split_keeps_all_entries_and_the_checksum_fits_behind_them() {
    for block_size in [1024, 2048, 4096, 65_536] {
        let mut left = ExtentNode::init_block(vec![0; block_size], 1);
        let mut right = ExtentNode::init_block(vec![0; block_size], 1);
        let full = left.max();
        for at in 0..full {
            let index = ExtentIndex {
                logical: LogicalBlock(at as u32),
                child: BlockNr(1 << 33),
            };
            left.insert_index(at, index).unwrap();
        }
        left.move_tail_to(full / 3, &mut right).unwrap();
        assert_eq!((left.count(), right.count()), (full / 3, full - full / 3));
        assert_eq!(right.key(0), Some(LogicalBlock((full / 3) as u32)));
        left.update_checksum(Seed(77));
        left.verify_checksum(Seed(77), PLACE).unwrap();
        assert!(left.verify_checksum(Seed(78), PLACE).is_err());
        check(left.bytes(), 1).unwrap();
        assert!(check(left.bytes(), 0).is_err());
    }
}

/// All fillings of two nodes of up to six entries, split at every position.
#[test]
fn every_split_of_small_nodes_keeps_all_entries() {
    for (count, there, at) in
        (0..49).flat_map(|both| (0..8).map(move |at| (both / 7, both % 7, at)))
    {
        let (mut left, mut right) = ([0; 84], [0; 84]);
        let mut left = ExtentNode::init_block(&mut left[..], 0);
        let mut right = ExtentNode::init_block(&mut right[..], 0);
        let entry = |nr: usize| extent(nr as u32 * 10, 100 + nr as u64 * 20, 8);
        (0..count).for_each(|nr| left.insert_extent(nr, entry(there + nr)).unwrap());
        (0..there).for_each(|nr| right.insert_extent(nr, entry(nr)).unwrap());
        let moved = count.saturating_sub(at);
        let fits = there + moved <= 6;
        assert_eq!(left.move_tail_to(at, &mut right).is_ok(), fits);
        let stays = if fits { count - moved } else { count };
        assert!(left.extents().eq((0..stays).map(|nr| entry(there + nr))));
        let first = there + stays;
        let arrived = (first..there + count).map(entry);
        assert!(right.extents().eq((0..there).map(entry).chain(arrived)));
    }
}

#[test]
fn validation_finds_each_kind_of_damage() {
    let mut node = ExtentNode::init_block([0; 1024], 0);
    node.insert_extent(0, extent(5, 100, 10)).unwrap();
    node.insert_extent(1, extent(15, 200, 10)).unwrap();
    let good = *node.bytes().first_chunk::<1024>().unwrap();
    check(&good, 0).unwrap();
    let damage: [(usize, u16); 8] = [
        (0, 0xF30B),
        (2, 85),
        (4, 85),
        (4, 0),
        (6, 1),
        (12 + 4, 0),
        (12 + 4, 11),
        (24 + 6, 0xFFFF),
    ];
    for (at, value) in damage {
        let mut bad = good;
        put_u16(&mut bad, at, value);
        assert!(check(&bad, 0).is_err(), "{value} at {at}");
    }
    let range = Expect {
        depth: None,
        logical: 5..24,
        blocks: BLOCKS,
    };
    assert!(ExtentNode::new(&good[..]).validate(&range, PLACE).is_err());
}

#[test]
fn a_child_must_keep_to_the_range_that_its_index_gives() {
    let mut root = ExtentNode::init_root([0; ROOT_BYTES], 1);
    root.insert_index(
        0,
        ExtentIndex {
            logical: LogicalBlock(0),
            child: BlockNr(9),
        },
    )
    .unwrap();
    root.insert_index(
        1,
        ExtentIndex {
            logical: LogicalBlock(50),
            child: BlockNr(8),
        },
    )
    .unwrap();
    let top = Expect::root(BLOCKS);
    root.validate(&top, PLACE).unwrap();
    let below = top.child(&root, 0);
    assert_eq!((below.depth, below.logical.clone()), (Some(0), 0..50));
    let mut leaf = ExtentNode::init_block([0; 1024], 0);
    leaf.insert_extent(0, extent(40, 100, 10)).unwrap();
    leaf.validate(&below, PLACE).unwrap();
    leaf.set_extent(0, extent(40, 100, 11));
    assert!(leaf.validate(&below, PLACE).is_err());
}

proptest! {
    #[test]
    fn inserts_and_removals_follow_a_map(
        steps in prop::collection::vec((any::<bool>(), 0..200_u32), 0..300)
    ) {
        let mut node = ExtentNode::init_block([0; 1024], 0);
        let mut model = BTreeMap::new();
        for (insert, slot) in steps {
            let key = LogicalBlock(slot * 3);
            let at = node.search(key);
            let there = at.filter(|&at| node.key(at) == Some(key));
            prop_assert_eq!(there.is_some(), model.contains_key(&key));
            match (insert, there) {
                (true, None) => {
                    let new = extent(key.0, 1000 + u64::from(slot), 3);
                    let done = node.insert_extent(at.map_or(0, |at| at + 1), new).is_ok();
                    prop_assert_eq!(done, model.len() < 84);
                    if done {
                        model.insert(key, new);
                    }
                }
                (false, Some(at)) => {
                    node.remove(at..at + 1);
                    model.remove(&key);
                }
                _ => {}
            }
            check(node.bytes(), 0).unwrap();
            prop_assert!(node.extents().eq(model.values().copied()));
        }
    }

    #[test]
    fn random_bytes_never_panic(
        mut bytes in prop::collection::vec(any::<u8>(), 0..300), magic: bool, block: u32
    ) {
        if magic {
            put_u16(&mut bytes, 0, MAGIC);
        }
        let node = ExtentNode::new(&bytes[..]);
        let _ = node.validate(&Expect::root(BLOCKS), PLACE);
        let _ = (node.search(LogicalBlock(block)), node.find(LogicalBlock(block)));
        let _ = (node.extents().count(), node.indexes().count());
        let _ = node.verify_checksum(Seed(0), PLACE);
    }
}
