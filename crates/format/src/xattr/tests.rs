use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::bytes::{get_u32, put_u16, put_u32};
use crate::{BlockNr, DamageLocation, InodeNr, Seed};

const PLACE: DamageLocation = DamageLocation::Block(BlockNr(3));

fn user(rest: &str) -> XattrName {
    XattrName::new(NameIndex::USER, rest.as_bytes())
}

fn here(value: &[u8]) -> XattrValue {
    XattrValue::Here(value.to_vec())
}

fn sample() -> XattrSet {
    let mut set = XattrSet::new();
    set.set(
        XattrName::new(NameIndex::SECURITY, b"selinux"),
        here(b"unconfined"),
    );
    set.set(XattrName::inline_data(), here(b""));
    set.set(user("long"), here(&[7; 33]));
    set.set(user("b"), here(b"x"));
    set.set(user("a"), here(b"four"));
    set.set(XattrName::new(NameIndex(77), b"unknown"), here(b"kept"));
    let value = XattrValue::Inode {
        inode: InodeNr(15),
        size: 100_000,
        entry_hash: 0x1234,
    };
    set.set(user("big"), value.clone());
    // Only a damaged image has it; what follows must not get lost.
    set.set(XattrName::new(NameIndex(0), b""), value);
    set.set(user("after"), here(b"y"));
    set
}

#[test]
fn full_names_go_both_ways() {
    for name in [
        "user.a",
        "trusted.x.y",
        "security.capability",
        "system.data",
        "gnu.author",
    ] {
        let parsed = XattrName::from_full(name.as_bytes()).unwrap();
        assert_eq!(parsed.full().unwrap(), name.as_bytes());
    }
    let acl = XattrName::from_full(b"system.posix_acl_default").unwrap();
    assert_eq!(
        (acl.index, acl.rest.len()),
        (NameIndex::POSIX_ACL_DEFAULT, 0)
    );
    let longer = XattrName::from_full(b"system.posix_acl_access2").unwrap();
    assert_eq!(longer.index, NameIndex::SYSTEM);
    for name in [
        &b"user."[..],
        b"nothing.a",
        b"user",
        &[b"user.".as_slice(), &[b'a'; 256]].concat(),
    ] {
        assert_eq!(XattrName::from_full(name), None);
    }
    assert_eq!(XattrName::new(NameIndex::ENCRYPTION, b"c").full(), None);
}

#[test]
fn the_inode_form_keeps_order_and_everything_unknown() {
    let set = sample();
    let mut area = vec![0xFF; set.area_bytes() + 8];
    assert_eq!(ibody_capacity_bytes(area.len()), set.area_bytes());
    encode_ibody(&mut area, &set).unwrap();
    assert_eq!(decode_ibody(&area, PLACE).unwrap(), set);
    let before = area.clone();
    let mut more = set.clone();
    more.set(user("a"), here(b"five5"));
    assert!(encode_ibody(&mut area, &more).is_err());
    assert_eq!(area, before);
    encode_ibody(&mut area, &XattrSet::new()).unwrap();
    assert!(area.iter().all(|&byte| byte == 0));
    assert!(decode_ibody(&area, PLACE).unwrap().is_empty());
}

#[test]
fn the_block_form_is_sorted_hashed_and_checked() {
    let set = sample();
    let mut block = vec![0xFF; 1024];
    encode_block(&mut block, &set).unwrap();
    let back = decode_block(&block, PLACE).unwrap();
    assert_eq!(back.len(), set.len());
    assert!(back.iter().is_sorted_by_key(|entry| entry.name.clone()));
    assert!(
        set.iter()
            .all(|entry| back.get(&entry.name) == Some(&entry.value))
    );
    let mut header = XattrBlock::new(&mut block[..]);
    assert_eq!((header.refcount(), header.block_count()), (1, 1));
    assert_ne!(header.hash(), 0);
    header.set_refcount(2);
    header.update_checksum(Seed(9), BlockNr(4));
    header.verify_checksum(Seed(9), BlockNr(4)).unwrap();
    assert!(header.verify_checksum(Seed(9), BlockNr(5)).is_err());
    let mut again = vec![0; 1024];
    encode_block(&mut again, &back).unwrap();
    assert!(header.same_content(&again));
    again[500] ^= 1;
    assert!(!header.same_content(&again));
}

#[test]
fn damage_in_a_block_is_found() {
    let mut block = vec![0; 1024];
    let set = XattrSet::from_iter([Xattr {
        name: user("ab"),
        value: here(b"value"),
    }]);
    encode_block(&mut block, &set).unwrap();
    decode_block(&block, PLACE).unwrap();
    let damage: [(usize, u32); 9] = [
        (0, 0),
        (4, 0),
        (4, 1025),
        (8, 2),
        (32 + 8, 1 << 25),
        (32 + 8, 9),
        (32, 0x0400_01FF),
        (32 + 16, 0),
        (32, 0x0020_0102),
    ];
    for (at, value) in damage {
        let mut bad = block.clone();
        put_u32(&mut bad, at, value);
        assert!(decode_block(&bad, PLACE).is_err(), "{value} at {at}");
    }
    assert!(decode_block(&block[..40], PLACE).is_err());
}

#[test]
fn values_that_share_bytes_are_refused() {
    let mut set = XattrSet::new();
    set.set(user("a"), here(&[1; 8]));
    set.set(user("b"), here(&[2; 8]));
    let mut block = vec![0; 1024];
    encode_block(&mut block, &set).unwrap();
    put_u16(&mut block, 32 + 2, 1024 - 12);
    assert!(decode_block(&block, PLACE).is_err());
    put_u16(&mut block, 32 + 2, 1024 - 24);
    assert!(decode_block(&block, PLACE).is_ok());
}

#[test]
fn entries_without_an_end_are_refused() {
    let mut area = vec![1; 256];
    put_u32(&mut area, 0, IBODY_MAGIC);
    assert!(decode_ibody(&area, PLACE).is_err());
    put_u16(&mut area, 0, 0);
    put_u16(&mut area, 2, 0);
    assert!(decode_ibody(&area, PLACE).unwrap().is_empty());
}

#[test]
fn references_are_split_over_two_fields() {
    let fields = EaInodeFields {
        refcount: 0x1_0000_0002,
        hash: 77,
    };
    assert_eq!(
        (fields.atime(), fields.ctime(), fields.version_low()),
        (77, 1, 2)
    );
    assert_eq!(EaInodeFields::from_raw(77, 1, 2), fields);
    assert_eq!(block_hash([1, 0, 5]), 0);
    assert_ne!(entry_hash_of_inode(b"a", 5), entry_hash_of_inode(b"a", 6));
}

fn value() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..60)
}

proptest! {
    #[test]
    fn both_forms_follow_a_map(
        steps in prop::collection::vec((any::<bool>(), 0..12_u8, value()), 0..60)
    ) {
        let (mut block, mut area) = (vec![0; 1024], vec![0; 700]);
        let mut model: BTreeMap<XattrName, XattrValue> = BTreeMap::new();
        encode_block(&mut block, &XattrSet::new()).unwrap();
        let holds = |set: &XattrSet, model: &BTreeMap<_, _>| {
            set.len() == model.len() && model.iter().all(|(name, v)| set.get(name) == Some(v))
        };
        for (insert, number, bytes) in steps {
            let name = user(&"n".repeat(1 + usize::from(number)));
            let mut set = decode_block(&block, PLACE).unwrap();
            if insert {
                prop_assert_eq!(set.set(name.clone(), here(&bytes)), model.get(&name).cloned());
            } else {
                prop_assert_eq!(set.remove(&name), model.get(&name).cloned());
            }
            let fits = set.area_bytes() <= block_capacity_bytes(1024);
            prop_assert_eq!(encode_block(&mut block, &set).is_ok(), fits);
            if fits {
                model = set.iter().map(|e| (e.name.clone(), e.value.clone())).collect();
            }
            prop_assert!(holds(&decode_block(&block, PLACE).unwrap(), &model));
            if encode_ibody(&mut area, &set).is_ok() {
                prop_assert_eq!(decode_ibody(&area, PLACE).unwrap(), set);
            }
        }
    }

    #[test]
    fn random_bytes_never_panic(
        mut bytes in prop::collection::vec(any::<u8>(), 0..300), small in 0..20_u8
    ) {
        put_u32(&mut bytes, 0, BLOCK_MAGIC);
        put_u32(&mut bytes, 4, 1);
        let _ = decode_ibody(&bytes, PLACE);
        put_u32(&mut bytes, 8, 1);
        let len = bytes.len();
        let names = [BLOCK_HEADER_BYTES, BLOCK_HEADER_BYTES + 40];
        for at in names.into_iter().filter(|&at| at + 12 < len) {
            bytes[at] = small;
            bytes[at + 10..at + 12].fill(0);
        }
        let _ = decode_block(&bytes, PLACE);
        let _ = XattrBlock::new(&bytes[..]).verify_checksum(Seed(0), BlockNr(0));
        let _ = get_u32(&bytes, 0);
    }
}

/// Offset of the entry with this value in an encoded block.
fn entry_at(block: &[u8], value_offset: usize) -> usize {
    let mut at = BLOCK_HEADER_BYTES;
    while usize::from(crate::bytes::get_u16(block, at + 2)) != value_offset {
        at += (usize::from(block[at]) + ENTRY_BYTES).next_multiple_of(4);
    }
    at
}

#[test]
fn hashes_cover_names_and_values() {
    let mut set = XattrSet::new();
    set.set(user("a"), here(b"first value"));
    set.set(XattrName::new(NameIndex::USER, b"\xE4"), here(b"four"));
    let mut block = vec![0; 1024];
    encode_block(&mut block, &set).expect("they fit");
    assert!(hashes_match(&block, Area::InBlock) && offsets_fit(&block, Area::InBlock));

    // A kernel with a signed `char` hashes the second name differently.
    let value_at = block
        .windows(4)
        .rposition(|bytes| bytes == b"four")
        .unwrap();
    let at = entry_at(&block, value_at);
    let unsigned = get_u32(&block, at + 12);
    let signed = hash::signed_entry_hash(b"\xE4", b"four");
    assert_ne!(signed, unsigned);
    put_u32(&mut block, at + 12, signed);
    assert!(hashes_match(&block, Area::InBlock));
    put_u32(&mut block, at + 12, signed ^ 1);
    assert!(!hashes_match(&block, Area::InBlock));
    put_u32(&mut block, at + 12, signed);
    block[value_at] ^= 1;
    assert!(!hashes_match(&block, Area::InBlock));
    block[value_at] ^= 1;

    // An offset behind the area: of a value with bytes, and of an empty one.
    put_u16(&mut block, at + 2, 1025);
    assert!(!hashes_match(&block, Area::InBlock) && !offsets_fit(&block, Area::InBlock));
}

/// There a hash of 0 means none, and an area without the magic has no entries.
#[test]
fn entries_in_an_inode_need_no_hash() {
    let mut set = XattrSet::new();
    set.set(user("a"), here(b"value"));
    let mut area = vec![0; 96];
    encode_ibody(&mut area, &set).expect("it fits");
    assert!(hashes_match(&area, Area::InInode) && offsets_fit(&area, Area::InInode));
    let hash_at = 4 + 12;
    put_u32(&mut area, hash_at, 7);
    assert!(!hashes_match(&area, Area::InInode));
    put_u32(&mut area, hash_at, 0);
    assert!(hashes_match(&area, Area::InInode));
    put_u32(&mut area, hash_at, 7);
    put_u32(&mut area, 0, 0);
    assert!(hashes_match(&area, Area::InInode) && hashes_match(&[], Area::InInode));
}
