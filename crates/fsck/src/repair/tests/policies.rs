//! Repairs of encrypted directories, of directories with another type, and of their first block.

use super::tree::{Seal, Tree, options};
use std::collections::BTreeMap;
use uext4_format::xattr::{NameIndex, XattrName, XattrSet, XattrValue, decode_ibody, encode_ibody};
use uext4_format::{DamageLocation, Feature, FileType, InodeFlags, InodeNr};

/// Gives an inode a context, of which the last bytes are its own.
pub(super) fn encrypt(tree: &Tree, path: &str, context: &[u8]) {
    let nr = tree.nr_of(path);
    tree.change_inode(nr, |inode| {
        inode.flags.insert(InodeFlags::ENCRYPT);
        let place = DamageLocation::Inode(nr);
        let mut set = decode_ibody(&inode.tail, place).expect("attributes");
        let name = XattrName::new(NameIndex::ENCRYPTION, b"c");
        set.set(name, XattrValue::Here(context.to_vec()));
        encode_ibody(&mut inode.tail, &set).expect("it fits");
    });
}

pub(super) fn context(policy: u8, own: u8) -> Vec<u8> {
    [vec![1, 1, 4, policy], vec![policy; 8], vec![own; 16]].concat()
}

/// The paths once these have no name any more.
fn moved(mut paths: BTreeMap<String, u32>, gone: &[&str]) -> BTreeMap<String, u32> {
    for path in gone {
        let nr = paths.remove(*path).expect("a path");
        paths.insert(format!("lost+found/#{nr}"), nr);
    }
    paths
}

#[test]
fn an_encrypted_directory_names_inodes_of_its_policy() {
    let names: Vec<_> = (0..6).map(|at| format!("d/{at:016}")).collect();
    let paths: Vec<_> = std::iter::once("d/".to_owned())
        .chain(names.clone())
        .collect();
    let tree = Tree::new(&options(&[Feature::ENCRYPT], &[]), &paths);
    encrypt(&tree, "d", &context(7, 1));
    for (name, own) in names.iter().zip(2..) {
        encrypt(&tree, name, &context(7, own));
    }
    tree.assert_sound();

    let other = tree.copy();
    encrypt(&other, &names[0], &context(8, 2));
    let expected = moved(other.paths(), &[&names[0]]);
    other.expect_repair(&["directory-entry.policy-other"], &expected);

    let plain = tree.copy();
    plain.change_inode(plain.nr_of(&names[1]), |inode| {
        inode.flags.remove(InodeFlags::ENCRYPT);
    });
    let expected = moved(plain.paths(), &[&names[1]]);
    plain.expect_repair(&["directory-entry.not-encrypted"], &expected);

    let damaged = tree.copy();
    encrypt(&damaged, &names[2], &context(7, 1)[..27]);
    let expected = moved(damaged.paths(), &[&names[2]]);
    damaged.expect_repair(&["inode.context-damaged"], &expected);
    let flags = damaged.inode(InodeNr(
        expected[&format!("lost+found/#{}", tree.nr_of(&names[2]))],
    ));
    assert!(!flags.flags.contains(InodeFlags::ENCRYPT));

    let missing = tree.copy();
    missing.change_inode(missing.nr_of(&names[3]), |inode| {
        let mut set = XattrSet::default();
        set.set(
            XattrName::new(NameIndex::USER, b"a"),
            XattrValue::Here(vec![1]),
        );
        encode_ibody(&mut inode.tail, &set).expect("it fits");
    });
    let expected = moved(missing.paths(), &[&names[3]]);
    missing.expect_repair(&["inode.context-missing"], &expected);
}

#[test]
fn a_directory_that_says_to_be_a_socket_is_one_again() {
    for fewer in [&[][..], &[Feature::EXTENTS, Feature::SIXTY_FOUR_BIT]] {
        let tree = Tree::new(&options(&[], fewer), &["d/", "d/one", "d/two", "three"]);
        let paths = tree.paths();
        tree.change_inode(tree.nr_of("d"), |inode| {
            inode.mode = FileType::Socket.mode_bits() | 0o600;
        });
        tree.expect_repair(&["inode.seems-directory"], &paths);
    }
}

#[test]
fn a_first_record_of_all_of_the_block_is_split() {
    let tree = Tree::new(&options(&[], &[Feature::METADATA_CSUM]), &["d/", "e"]);
    let paths = tree.paths();
    for len in [24u16, 1024] {
        let tree = tree.copy();
        tree.change_block(tree.nr_of("d"), 0, Seal::Anew, |bytes| {
            bytes[4..6].copy_from_slice(&len.to_le_bytes());
        });
        tree.expect_repair(&["directory.dots-elsewhere"], &paths);
    }
}
