//! Repairs of attributes: each damaged image is sound afterwards, and keeps its other files.

use super::image::{BLOCK, FIRST, Image, SECOND, contents};
use crate::repair::Outcome;
use crate::report::Finding;
use uext4_device::BlockDevice;
use uext4_format::xattr::{
    EaInodeFields, NameIndex, XattrBlock, XattrName, XattrSet, XattrValue, decode_block,
    decode_ibody, encode_block, encode_ibody, entry_hash_of_inode, value_hash,
};
use uext4_format::{
    BlockNr, CorruptKind, DamageLocation, Feature, FileType, Inode, InodeFlags, InodeNr, Seed,
};

const SEALED: &str = "^has_journal";
const UNSEALED: &str = "^has_journal,^metadata_csum";
const VALUES: &str = "^has_journal,ea_inode";
const INLINE: &str = "^has_journal,inline_data,^metadata_csum";
/// Begin of the attributes in an inode, behind 32 bytes of extra fields, and of its first entry.
const TAIL: usize = 128 + 32;
const ENTRY: usize = TAIL + 4;

fn name(text: &str) -> XattrName {
    XattrName::new(NameIndex::USER, text.as_bytes())
}

fn set(n: u8) -> XattrSet {
    let mut set = XattrSet::new();
    for at in 0..n {
        set.set(
            name(&format!("name{at}")),
            XattrValue::Here(vec![at + 1; 4]),
        );
    }
    set
}

/// Two files that share a block of attributes; the first has two more in the inode.
fn image(features: &str) -> (Image, BlockNr) {
    let image = Image::new(features);
    for nr in [FIRST, SECOND] {
        image.add_file(nr, 3);
    }
    let block = image.edit(|patch| {
        let block = patch.allocate(BlockNr(3000))?.expect("space");
        let mut bytes = vec![0; BLOCK as usize];
        encode_block(&mut bytes, &set(5)).expect("it fits");
        let mut header = XattrBlock::new(&mut bytes[..]);
        header.set_refcount(2);
        if let Some(seed) = patch.check.checksums.metadata {
            header.update_checksum(seed, block);
        }
        patch.write(block, bytes)?;
        for nr in [FIRST, SECOND] {
            let mut inode = patch.inode(nr)?.expect("a file");
            inode.file_acl = block;
            if nr == FIRST {
                encode_ibody(&mut inode.tail, &set(2)).expect("it fits");
            }
            patch.write_inode(nr, &inode)?;
        }
        Ok(block)
    });
    image.repair();
    assert_eq!(in_block(&image, block), set(5));
    (image, block)
}

fn bytes_of(image: &Image, block: BlockNr) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK as usize];
    image.device.read_at(block.0 * BLOCK, &mut bytes).unwrap();
    bytes
}

fn put(image: &Image, block: BlockNr, at: usize, new: &[u8]) {
    let at = block.0 * BLOCK + at as u64;
    image.device.write_at(at, new).unwrap();
}

fn in_block(image: &Image, block: BlockNr) -> XattrSet {
    decode_block(&bytes_of(image, block), DamageLocation::Block(block)).expect("sound")
}

fn in_inode(image: &Image, nr: InodeNr) -> XattrSet {
    decode_ibody(&image.inode(nr).tail, DamageLocation::Inode(nr)).expect("sound")
}

fn without(mut set: XattrSet, text: &str) -> XattrSet {
    set.remove(&name(text)).expect("it was there");
    set
}

fn assert_files(image: &Image) {
    for nr in [FIRST, SECOND] {
        assert_eq!(image.read(nr), contents(nr, 3));
    }
}

#[test]
fn a_block_with_a_wrong_checksum_keeps_all() {
    let (image, block) = image(SEALED);
    put(&image, block, 16, &[0x55]);
    image.repair_of("xattr-block.checksum");
    assert_eq!(in_block(&image, block), set(5));
    assert_files(&image);
}

/// Fields of the header, and of the second entry, which begins at byte 56.
#[test]
fn damage_of_one_entry_leaves_the_others() {
    for (at, byte, code, lost) in [
        (0, 9, "xattr-block.magic", None),
        (4, 7, "xattr-block.references", None),
        (5, 0xFF, "xattr-block.xattr-references", None),
        (8, 3, "xattr-block.xattr-blocks", None),
        (56 + 12, 9, "xattr-entry.entry-hash", None),
        (56 + 1, 0, "xattr-entry.no-prefix", Some("name1")),
        (
            56 + 9,
            0xF0,
            "extended-attribute.value-past-end",
            Some("name1"),
        ),
        (
            56 + 10,
            0xF0,
            "extended-attribute.value-past-end",
            Some("name1"),
        ),
        (56 + 16, 0, "extended-attribute.name-zero", Some("name1")),
    ] {
        let (image, block) = image(UNSEALED);
        put(&image, block, at, &[byte]);
        let found = image.codes();
        if at != 56 + 10 {
            image.repair_of(code);
        } else {
            assert!(!found.is_empty());
            image.repair();
        }
        let wanted = lost.map_or(set(5), |lost| without(set(5), lost));
        assert_eq!(in_block(&image, block), wanted, "{code}");
        let bytes = bytes_of(&image, block);
        assert_eq!(XattrBlock::new(&bytes[..]).refcount(), 2, "{code}");
        assert_eq!(in_inode(&image, FIRST), set(2));
        assert_files(&image);
    }
}

#[test]
fn what_is_no_attribute_block_is_left() {
    let (image, block) = image(SEALED);
    put(&image, block, 0, &[0xA5; 1024]);
    image.repair_of("xattr-block.checksum");
    for nr in [FIRST, SECOND] {
        assert_eq!(image.inode(nr).file_acl, BlockNr(0));
    }
    assert_files(&image);
    image.edit_inode(FIRST, |inode| inode.file_acl = BlockNr(3));
    image.repair_of("xattr-block.xattr-outside");
    assert_eq!(image.inode(FIRST).file_acl, BlockNr(0));
    let data = image.extents(FIRST)[0].start;
    image.edit_inode(SECOND, |inode| inode.file_acl = data);
    image.repair_of("xattr-block.xattr-shared");
    assert_eq!(image.inode(SECOND).file_acl, BlockNr(0));
    assert_files(&image);
}

#[test]
fn a_file_that_maps_attributes_gets_a_copy() {
    let (image, block) = image(SEALED);
    image.edit_inode(FIRST, |inode| {
        inode.file_acl = BlockNr(0);
        inode.i_block[12 + 8..12 + 12].copy_from_slice(&(block.0 as u32).to_le_bytes());
    });
    image.repair_of("xattr-block.xattr-shared");
    let copy = image.inode(SECOND).file_acl;
    assert!(copy != BlockNr(0) && copy != block);
    assert_eq!(in_block(&image, copy), set(5));
    assert_eq!(image.read(SECOND), contents(SECOND, 3));
}

#[test]
fn attributes_stay_if_there_is_no_space_for_a_copy() {
    let (image, block) = image(SEALED);
    image.edit_inode(FIRST, |inode| {
        inode.file_acl = BlockNr(0);
        inode.i_block[12 + 8..12 + 12].copy_from_slice(&(block.0 as u32).to_le_bytes());
    });
    image.edit(|patch| {
        while patch.allocate(BlockNr(1))?.is_some() {}
        let findings = patch.check.report.findings.clone();
        let findings: Vec<Finding> = findings
            .into_iter()
            .filter(|finding| finding.corrupt.problem == CorruptKind::XattrShared)
            .collect();
        assert_eq!(findings.len(), 1);
        assert_eq!(patch.repair_attributes(&findings)?, Outcome::Impossible);
        let inode = patch.inode(SECOND)?.expect("a file");
        assert_eq!(inode.file_acl, block);
        Ok(())
    });
}

#[test]
fn damage_in_an_inode_leaves_the_other_attribute() {
    for (at, byte, lost) in [
        (ENTRY + 24 + 3, 0xF0, Some("name1")),
        (ENTRY + 24 + 16, 0, Some("name1")),
        (ENTRY + 24 + 10, 0xFF, Some("name1")),
    ] {
        let (image, _) = image(UNSEALED);
        image.put_in_inode(FIRST, at, &[byte]);
        assert!(!image.codes().is_empty());
        image.repair();
        let wanted = lost.map_or(set(2), |lost| without(set(2), lost));
        assert_eq!(in_inode(&image, FIRST), wanted, "{at}");
        assert_files(&image);
    }
}

#[test]
fn the_feature_of_attributes_comes_back() {
    let (image, block) = image(SEALED);
    let mut superblock = image.superblock();
    let mut features = superblock.features();
    features.remove(Feature::EXT_ATTR);
    superblock.set_features(features);
    uext4_volume::superblock::write_superblock(&*image.device, &superblock).unwrap();
    image.repair_of("xattr-block.attributes-without-feature");
    assert!(image.superblock().features().has(Feature::EXT_ATTR));
    assert_eq!(in_block(&image, block), set(5));
}

/// A file whose attribute has its value in the second inode.
fn with_value() -> (Image, XattrSet) {
    let image = Image::new(VALUES);
    image.add_file(FIRST, 3);
    let value = contents(SECOND, 3);
    image.add(SECOND, FileType::Regular, &value);
    let set = image.edit(|patch| {
        let hash = value_hash(patch.check.checksums.metadata.unwrap_or(Seed(0)), &value);
        let mut inode = patch.inode(SECOND)?.expect("a file");
        inode.flags.insert(InodeFlags::EA_INODE);
        EaInodeFields { refcount: 1, hash }.store(&mut inode);
        patch.write_inode(SECOND, &inode)?;
        let mut set = set(1);
        let large = XattrValue::Inode {
            inode: SECOND,
            size: value.len() as u32,
            entry_hash: entry_hash_of_inode(b"large", hash),
        };
        set.set(name("large"), large);
        let mut inode = patch.inode(FIRST)?.expect("a file");
        encode_ibody(&mut inode.tail, &set).expect("it fits");
        patch.write_inode(FIRST, &inode)?;
        Ok(set)
    });
    // A name must not lead to it.
    image.edit(|patch| {
        let root = patch.inode(InodeNr::ROOT)?.expect("a root");
        let block = patch.extents_of(InodeNr::ROOT, &root)?[0].start;
        let mut bytes = patch.read(block)?;
        let mut leaf = uext4_format::dirent::DirLeaf::new(
            &mut bytes[..],
            uext4_format::dirent::LeafTail::Checksum,
            DamageLocation::Block(block),
        );
        leaf.remove(b"file 13").expect("a sound block");
        let seed = patch.check.checksums.inode_seed(InodeNr::ROOT, 0);
        leaf.update_checksum(seed.expect("checksums"));
        patch.write(block, bytes)
    });
    image.repair();
    (image, set)
}

#[test]
fn values_and_their_entries_agree_again() {
    type Change = fn(&mut Inode);
    let cases: [(Change, &str); 4] = [
        (|inode| inode.links = 3, "value-inode.value-links"),
        (|inode| inode.version += 2, "value-inode.references"),
        (|inode| inode.size -= 9, "xattr-entry.other-size"),
        (
            |inode| inode.file_acl = BlockNr(5000),
            "value-inode.own-attributes",
        ),
    ];
    for (change, code) in cases {
        let (image, set) = with_value();
        image.edit_inode(SECOND, change);
        image.repair_of(code);
        if code != "xattr-entry.other-size" {
            assert_eq!(in_inode(&image, FIRST), set, "{code}");
        }
        assert_eq!(in_inode(&image, FIRST).len(), 2, "{code}");
    }
    let (image, set) = with_value();
    image.edit_inode(SECOND, |inode| inode.flags.remove(InodeFlags::EA_INODE));
    assert!(
        image
            .codes()
            .contains(&"xattr-entry.named-holds-none".to_string())
    );
    image.repair();
    assert_eq!(in_inode(&image, FIRST), set);
    assert!(image.inode(SECOND).flags.contains(InodeFlags::EA_INODE));
}

/// A value has no holes: its blocks are in order, wherever the map says.
#[test]
fn a_value_begins_at_its_first_block() {
    let (image, set) = with_value();
    image.edit_inode(SECOND, |inode| inode.i_block[12 + 24] = 200);
    image.edit_inode(SECOND, |inode| inode.i_block[12 + 12] = 100);
    image.edit_inode(SECOND, |inode| inode.i_block[12] = 50);
    image.repair_of("inode.size-wrong");
    assert_eq!(image.read(SECOND), contents(SECOND, 3));
    assert_eq!(in_inode(&image, FIRST), set);
}

#[test]
fn an_entry_without_a_value_goes() {
    let (image, all) = with_value();
    let second = ENTRY + 24;
    for (at, byte, code) in [
        (second + 4, 200, "xattr-entry.named-holds-none"),
        (second + 6, 200, "xattr-entry.value-impossible"),
    ] {
        image.put_in_inode(FIRST, at, &[byte]);
        image.edit_inode(FIRST, |_| {});
        let codes = image.codes();
        assert!(codes.iter().any(|one| one == code), "{code}: {codes:?}");
        image.edit_inode(FIRST, |inode| {
            encode_ibody(&mut inode.tail, &all).expect("it fits");
        });
    }
    image.edit_inode(FIRST, |inode| inode.tail[4 + 24 + 12] ^= 1);
    image.repair_of("xattr-entry.entry-hash");
    assert_eq!(in_inode(&image, FIRST), all);
}

#[test]
fn inline_data_without_its_attribute() {
    let image = Image::new(INLINE);
    image.add_file(FIRST, 3);
    image.edit_inode(FIRST, |inode| inode.flags.insert(InodeFlags::INLINE_DATA));
    image.repair_of("inline-data.data-attribute");
    assert_eq!(image.read(FIRST), contents(FIRST, 3));
    image.edit_inode(FIRST, |inode| {
        inode.flags.remove(InodeFlags::EXTENTS);
        inode.flags.insert(InodeFlags::INLINE_DATA);
        inode.i_block = [7; 60];
        (inode.size, inode.blocks_raw) = (90, 0);
    });
    image.repair_of("inline-data.data-attribute");
    let inode = image.inode(FIRST);
    assert_eq!((inode.size, inode.i_block), (60, [7; 60]));
    assert!(
        in_inode(&image, FIRST)
            .get(&XattrName::inline_data())
            .is_some()
    );
}
