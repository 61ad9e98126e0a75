use proptest::prelude::*;

use super::*;
use crate::dirent::{DirEntryType, Insertion, NewEntry};

const PLACE: DamageLocation = DamageLocation::Inode(InodeNr(12));

fn new(name: &[u8]) -> NewEntry<'_> {
    NewEntry {
        inode: InodeNr(20),
        name,
        kind: DirEntryType::Regular,
    }
}

#[test]
fn a_directory_fills_the_inode_then_the_value() {
    let mut i_block = [0xFF; ROOT_BYTES];
    init_directory(&mut i_block, InodeNr(2));
    assert_eq!(parent(&i_block), InodeNr(2));
    let names: Vec<String> = (0..7).map(|n| format!("n{n}")).collect();
    let mut value = Vec::new();
    for (at, name) in names.iter().enumerate() {
        let entry = new(name.as_bytes());
        let done = root_area_mut(&mut i_block, PLACE).insert(&entry).unwrap();
        assert_eq!(done == Insertion::Full, at >= 4);
        if done == Insertion::Full {
            let len = value.len() + 12;
            grow_value(&mut value, len, PLACE).unwrap();
            let done = value_area(&mut value[..], PLACE).insert(&entry).unwrap();
            assert!(matches!(done, Insertion::Done(_)));
        }
    }
    set_parent(&mut i_block, InodeNr(30));
    assert_eq!(parent(&i_block), InodeNr(30));
    let found: Vec<_> = records(&i_block, &value, PLACE)
        .map(|entry| entry.unwrap().name.to_vec())
        .collect();
    assert_eq!(
        found,
        names
            .iter()
            .map(|name| name.as_bytes().to_vec())
            .collect::<Vec<_>>()
    );
    assert!(
        root_area_mut(&mut i_block, PLACE)
            .find(b"n3")
            .unwrap()
            .is_some()
    );
}

proptest! {
    #[test]
    fn a_file_comes_back(data in prop::collection::vec(any::<u8>(), 0..200), beyond in 1..9_u64) {
        let (i_block, value) = split_file(&data);
        let size = data.len() as u64;
        prop_assert_eq!(read_file(&i_block, value, size), Some(data.clone()));
        let most = max_file_bytes(value.len()) as u64;
        prop_assert_eq!(read_file(&i_block, value, most + beyond), None);
    }

    #[test]
    fn random_bytes_never_panic(
        i_block in prop::collection::vec(any::<u8>(), 60),
        mut value in prop::collection::vec(any::<u8>(), 0..100), extra in 12..40_usize
    ) {
        let i_block = i_block.first_chunk().unwrap();
        prop_assert!(records(i_block, &value, PLACE).count() < 20);
        let len = (value.len() + extra).next_multiple_of(4);
        let _ = grow_value(&mut value, len, PLACE);
    }
}
