use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::{BlockNr, Corrupt, DamageLocation, Seed};

const PLACE: DamageLocation = DamageLocation::Block(BlockNr(3));

fn new(inode: u32, name: &[u8]) -> NewEntry<'_> {
    NewEntry {
        inode: InodeNr(inode),
        name,
        kind: DirEntryType::Regular,
    }
}

fn listing<B: AsRef<[u8]>>(leaf: &DirLeaf<B>) -> BTreeMap<Vec<u8>, u32> {
    leaf.entries()
        .map(|entry| entry.unwrap())
        .map(|e| (e.name.to_vec(), e.inode.0))
        .collect()
}

#[test]
fn lengths_of_64_kib_blocks_survive() {
    for bytes in (12..=65_536_usize).step_by(4) {
        assert_eq!(decode_rec_len(encode_rec_len(bytes, 65_536), 65_536), bytes);
    }
    assert_eq!(encode_rec_len(65_536, 65_536), 65_535);
    assert_eq!(decode_rec_len(0, 65_536), 65_536);
    assert_eq!(decode_rec_len(0, 4096), 0);
}

#[test]
fn the_first_block_has_dots_and_a_tail() {
    let mut block = [0xFF; 1024];
    let tail = LeafTail::Checksum;
    init_first_block(
        &mut block,
        tail,
        InodeNr(12),
        InodeNr(2),
        DirEntryType::Directory,
    );
    let mut leaf = DirLeaf::new(&mut block[..], tail, PLACE);
    let records: Vec<_> = leaf.records().map(Result::unwrap).collect();
    assert_eq!(records.len(), 2);
    assert_eq!(
        (records[0].name, records[0].inode, records[0].rec_len),
        (&b"."[..], InodeNr(12), 12)
    );
    assert_eq!(
        (records[1].name, records[1].inode),
        (&b".."[..], InodeNr(2))
    );
    assert_eq!(records[1].rec_len, 1000);
    assert!(leaf.is_empty().unwrap());
    assert!(leaf.verify_checksum(Seed(5)).is_err());
    leaf.update_checksum(Seed(5));
    leaf.verify_checksum(Seed(5)).unwrap();
    assert!(
        leaf.retarget(b"..", InodeNr(99), DirEntryType::Directory)
            .unwrap()
    );
    assert!(leaf.verify_checksum(Seed(5)).is_err());
    assert_eq!(leaf.find(b"..").unwrap().unwrap().inode, InodeNr(99));
}

#[test]
fn removing_merges_and_the_space_is_found_again() {
    let mut leaf = DirLeaf::init([0; 1024], LeafTail::None, PLACE);
    for name in [&b"one"[..], b"two", b"three"] {
        assert!(matches!(
            leaf.insert(&new(11, name)).unwrap(),
            Insertion::Done(_)
        ));
    }
    let exists = Insertion::Exists(InodeNr(11), DirEntryType::Regular);
    assert_eq!(leaf.insert(&new(50, b"two")).unwrap(), exists);
    assert_eq!(
        leaf.remove(b"one").unwrap(),
        Some((InodeNr(11), DirEntryType::Regular))
    );
    assert_eq!(leaf.remove(b"one").unwrap(), None);
    assert_eq!(leaf.insert(&new(51, b"four")).unwrap(), Insertion::Done(0));
    leaf.remove(b"two").unwrap();
    assert_eq!(leaf.insert(&new(52, b"six")).unwrap(), Insertion::Done(12));
    let space = leaf.space().unwrap();
    assert_eq!((space.entries, space.used_bytes), (3, 12 + 12 + 16));
    assert_eq!(space.largest_gap_bytes, 1024 - 40);
}

#[test]
fn packing_fills_a_block_or_changes_nothing() {
    let names: Vec<String> = (0..64).map(|n| format!("n{n:07}")).collect();
    let entries = names.iter().map(|name| new(9, name.as_bytes()));
    let mut leaf = DirLeaf::init([0; 1024], LeafTail::None, PLACE);
    leaf.pack(entries.clone()).unwrap();
    assert_eq!(leaf.space().unwrap().largest_gap_bytes, 0);
    let mut with_tail = DirLeaf::init([0; 1024], LeafTail::Checksum, PLACE);
    assert!(with_tail.pack(entries).is_err());
    assert_eq!(with_tail.entries().count(), 0);
    with_tail.pack([]).unwrap();
    assert_eq!(with_tail.space().unwrap().largest_gap_bytes, 1012);
}

#[test]
fn damage_is_said_once_and_ends_the_walk() {
    for (at, value) in [(4, 0), (4, 8), (4, 13), (4, 2000), (4, 1016), (6, 255)] {
        let mut block = [0; 1024];
        init_first_block(
            &mut block,
            LeafTail::None,
            InodeNr(2),
            InodeNr(2),
            DirEntryType::Unknown,
        );
        put_u16(&mut block, at, value);
        let leaf = DirLeaf::new(&block[..], LeafTail::None, PLACE);
        let errors: Vec<Corrupt> = leaf.records().filter_map(Result::err).collect();
        assert_eq!(errors.len(), 1, "{value} at {at}");
        assert!(leaf.records().last().unwrap().is_err());
        assert!(leaf.find(b"nothing").is_err());
    }
}

fn tails() -> impl Strategy<Value = LeafTail> {
    prop_oneof![Just(LeafTail::None), Just(LeafTail::Checksum)]
}

proptest! {
    #[test]
    fn a_leaf_follows_a_map(
        steps in prop::collection::vec((0..3_u8, 0..60_u32), 0..400), tail in tails(),
        size in prop_oneof![Just(1024_usize), Just(65_536)]
    ) {
        let mut leaf = DirLeaf::init(vec![0; size], tail, PLACE);
        let mut model = BTreeMap::new();
        for (action, number) in steps {
            let name = format!("{number:0>width$}", width = 1 + number as usize * 3 % 40);
            let name = name.as_bytes().to_vec();
            if action < 2 {
                match leaf.insert(&new(number + 1, &name)).unwrap() {
                    Insertion::Done(_) => prop_assert!(model.insert(name, number + 1).is_none()),
                    Insertion::Exists(inode, _) => prop_assert_eq!(model[&name], inode.0),
                    Insertion::Full => {
                        let gap = leaf.space().unwrap().largest_gap_bytes;
                        prop_assert!(gap < space_needed(name.len()));
                    }
                }
            } else {
                let removed = leaf.remove(&name).unwrap().map(|(inode, _)| inode.0);
                prop_assert_eq!(removed, model.remove(&name));
            }
            prop_assert_eq!(&listing(&leaf), &model);
            let total: usize = leaf.records().map(|record| record.unwrap().rec_len).sum();
            prop_assert_eq!(total, leaf.area_bytes());
        }
    }

    #[test]
    fn random_bytes_never_panic(
        mut bytes in prop::collection::vec(any::<u8>(), 0..200), tail in tails(), first in 0..60_u16
    ) {
        put_u16(&mut bytes, 4, first);
        let mut leaf = DirLeaf::new(bytes, tail, PLACE);
        let _ = (leaf.validate(), leaf.space(), leaf.verify_checksum(Seed(1)));
        let _ = (leaf.insert(&new(5, b"name")), leaf.remove(b"name"));
        prop_assert!(leaf.records().count() <= 20);
    }

    #[test]
    fn flipped_bytes_never_panic(at in 0..1024_usize, value: u8) {
        let mut leaf = DirLeaf::init([0; 1024], LeafTail::Checksum, PLACE);
        for number in 0..20 {
            let _ = leaf.insert(&new(number + 1, format!("name{number}").as_bytes())).unwrap();
        }
        leaf.update_checksum(Seed(3));
        let mut bytes = [0; 1024];
        bytes.copy_from_slice(leaf.bytes());
        let changed = bytes[at] != value;
        bytes[at] = value;
        let leaf = DirLeaf::new(&mut bytes[..], LeafTail::Checksum, PLACE);
        prop_assert_eq!(leaf.verify_checksum(Seed(3)).is_err(), changed);
        let _ = leaf.space();
    }
}
