//! Repairs of encrypted directories, of directories with another type, and of their first block.

use super::tree::{Seal, Tree, options};
use crate::symlinks::inline_target;
use std::collections::BTreeMap;
use uext4_format::xattr::{NameIndex, XattrName, XattrSet, XattrValue, decode_ibody, encode_ibody};
use uext4_format::{BlockNr, DamageLocation, Feature, FileType, InodeFlags, InodeNr};

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

/// Without checksums, and with them.
#[test]
fn a_long_first_record_before_a_sound_one_is_split() {
    for fewer in [&[][..], &[Feature::METADATA_CSUM]] {
        let tree = Tree::new(&options(&[], fewer), &["d/", "e"]);
        let paths = tree.paths();
        tree.change_block(tree.nr_of("d"), 0, Seal::Anew, |bytes| {
            let second = bytes[12..24].to_vec();
            bytes[4..6].copy_from_slice(&48u16.to_le_bytes());
            bytes[48..60].copy_from_slice(&second);
            let len = u16::from_le_bytes([second[4], second[5]]) - 36;
            bytes[52..54].copy_from_slice(&len.to_le_bytes());
            bytes[12..24].fill(0);
        });
        tree.expect_repair(&["directory.dots-elsewhere"], &paths);
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

/// The bytes of an encrypted target, with its length before them.
fn target(bytes: u16) -> Vec<u8> {
    let len = bytes.to_le_bytes().to_vec();
    [len, vec![0xC7; bytes.into()]].concat()
}

/// Encrypted links: "short" in its inode, "long" in a block.
fn links() -> Tree {
    links_without(&[])
}

fn links_without(fewer: &[Feature]) -> Tree {
    let tree = Tree::new(&options(&[Feature::ENCRYPT], fewer), &["short", "long"]);
    for path in ["short", "long"] {
        encrypt(&tree, path, &context(7, 1));
    }
    let (short, long) = (tree.nr_of("short"), tree.nr_of("long"));
    tree.change_inode(short, |inode| {
        inode.mode = FileType::Symlink.mode_bits() | 0o777;
        inode.i_block[..18].copy_from_slice(&target(16));
        inode.size = 18;
    });
    tree.change(|patch| {
        let mut inode = patch.inode(long).expect("a read").expect("an inode");
        inode.mode = FileType::Symlink.mode_bits() | 0o777;
        if !fewer.contains(&Feature::EXTENTS) {
            inode.flags.insert(InodeFlags::EXTENTS);
        }
        let mut bytes = target(100);
        bytes.resize(1024, 0);
        let written = patch.write_file(inode, long, &bytes, &[]);
        assert!(written.expect("a write"));
    });
    tree.change_inode(long, |inode| inode.size = 102);
    let report = tree.repaired();
    assert!(report.is_sound(), "{report:#?}");
    tree.assert_sound();
    assert_eq!(
        (stored(&tree, short), stored(&tree, long)),
        (target(16), target(100))
    );
    tree
}

/// What an inode holds, in itself or in its first block.
fn stored(tree: &Tree, nr: InodeNr) -> Vec<u8> {
    tree.change(|patch| {
        let inode = patch.inode(nr).expect("a read").expect("an inode");
        let has_block = inode.flags.contains(InodeFlags::EXTENTS) || inode.size >= 60;
        let bytes = if has_block {
            let extents = patch.extents_of(nr, &inode).expect("a map");
            patch.read(extents[0].start).expect("a read")
        } else {
            inode.i_block.to_vec()
        };
        bytes[..inode.size as usize].to_vec()
    })
}

fn change_target(tree: &Tree, nr: InodeNr, change: impl FnOnce(&mut [u8])) {
    tree.change(|patch| {
        let mut inode = patch.inode(nr).expect("a read").expect("an inode");
        if !inode.flags.contains(InodeFlags::EXTENTS) {
            change(&mut inode.i_block);
            return patch.write_inode(nr, &inode).expect("a write");
        }
        let extents = patch.extents_of(nr, &inode).expect("a map");
        let mut bytes = patch.read(extents[0].start).expect("a read");
        change(&mut bytes);
        patch.write(extents[0].start, bytes).expect("a write");
    });
}

#[test]
fn encrypted_targets_are_kept_whole() {
    let made = links();
    let paths = made.paths();
    for (path, bytes) in [("short", 16), ("long", 100)] {
        for len in [0u16, 3, 4000] {
            let tree = made.copy();
            let nr = tree.nr_of(path);
            change_target(&tree, nr, |target| {
                target[..2].copy_from_slice(&len.to_le_bytes());
            });
            tree.expect_repair(&["symbolic-link.target-length"], &paths);
            assert_eq!(stored(&tree, nr), target(bytes), "{path} {len}");
        }
        for size in [7, u64::from(bytes) + 9] {
            let tree = made.copy();
            let nr = tree.nr_of(path);
            tree.change_inode(nr, |inode| inode.size = size);
            tree.expect_repair(&["symbolic-link.target-length"], &paths);
            assert_eq!(stored(&tree, nr), target(bytes), "{path} of {size}");
        }
    }
}

/// The check takes the pointers for the target then.
#[test]
fn an_encrypted_target_in_a_block_of_a_table_is_kept() {
    let made = links_without(&[Feature::EXTENTS, Feature::SIXTY_FOUR_BIT]);
    let paths = made.paths();
    for size in [3, 7, 59, 109] {
        let tree = made.copy();
        let nr = tree.nr_of("long");
        tree.change_inode(nr, |inode| inode.size = size);
        tree.expect_repair(&["symbolic-link.target-length"], &paths);
        assert_eq!(stored(&tree, nr), target(100), "{size}");
    }
}

/// Neither the size nor the length at the start is possible.
#[test]
fn an_encrypted_target_of_unknown_length_becomes_a_file() {
    let made = links();
    let paths = made.paths();
    for (path, bytes) in [("short", 60), ("long", 1024)] {
        let tree = made.copy();
        let nr = tree.nr_of(path);
        let mut before = target(if path == "short" { 16 } else { 100 });
        before[..2].fill(0);
        before.resize(bytes, 0);
        change_target(&tree, nr, |target| target[..2].fill(0));
        tree.change_inode(nr, |inode| inode.size = 9);
        if path == "long" {
            tree.change_inode(nr, |inode| inode.size = 61);
        }
        tree.expect_repair(&["symbolic-link.target-length"], &paths);
        assert_eq!(
            tree.inode(nr).file_type(),
            Some(FileType::Regular),
            "{path}"
        );
        assert_eq!(stored(&tree, nr), before, "{path}");
    }
}

#[test]
fn a_link_that_loses_its_context_becomes_a_file() {
    let made = links();
    let paths = made.paths();
    for (path, bytes) in [("short", 16), ("long", 100)] {
        let tree = made.copy();
        encrypt(&tree, path, &context(7, 1)[..27]);
        tree.expect_repair(&["inode.context-damaged"], &paths);
        let nr = tree.nr_of(path);
        assert_eq!(
            tree.inode(nr).file_type(),
            Some(FileType::Regular),
            "{path}"
        );
        assert_eq!(stored(&tree, nr), target(bytes), "{path}");
    }
}

/// e2fsck wants the size that the attribute has.
#[test]
fn inline_targets_are_as_long_as_their_attribute() {
    let made = Tree::new(&options(&[Feature::INLINE_DATA], &[]), &["link"]);
    let nr = made.nr_of("link");
    let put = |tree: &Tree, value: &[u8], size| {
        tree.change_inode(nr, |inode| {
            inode.mode = FileType::Symlink.mode_bits() | 0o777;
            inode.flags.insert(InodeFlags::INLINE_DATA);
            inode.i_block.fill(b'a');
            inode.size = size;
            let mut set = XattrSet::default();
            set.set(XattrName::inline_data(), XattrValue::Here(value.to_vec()));
            encode_ibody(&mut inode.tail, &set).expect("there is room");
        });
    };
    let value = [b'b'; 30];
    put(&made, &value, 90);
    assert!(made.repaired().is_sound());
    made.assert_sound();
    let paths = made.paths();
    let wanted = [[b'a'; 60].as_slice(), &value].concat();
    let padded = [value.as_slice(), &[0; 10]].concat();
    for (bytes, size) in [
        (&padded[..], 90),
        (&padded, 100),
        (&value, 70),
        (&value, 91),
    ] {
        let tree = made.copy();
        put(&tree, bytes, size);
        tree.expect_repair(&["symbolic-link.target-length"], &paths);
        let inode = tree.inode(nr);
        assert_eq!(inode.size, 90, "{size}");
        assert!(inline_target(nr, &inode) == wanted, "{size}");
    }
    // A short one needs no inline data.
    let tree = made.copy();
    put(&tree, &value, 20);
    tree.change_inode(nr, |inode| inode.i_block[20..].fill(0));
    tree.expect_repair(&["symbolic-link.target-length"], &paths);
    let inode = tree.inode(nr);
    assert!(!inode.flags.contains(InodeFlags::INLINE_DATA));
    assert!(inode.size == 20 && inode.i_block[..20] == [b'a'; 20]);
}

/// Nothing reads the nodes or tables of a link.
#[test]
fn a_target_behind_a_node_gets_its_block() {
    for fewer in [&[][..], &[Feature::EXTENTS, Feature::SIXTY_FOUR_BIT]] {
        let tree = links_without(&[fewer, &[Feature::METADATA_CSUM]].concat());
        let (nr, paths) = (tree.nr_of("long"), tree.paths());
        tree.change(|patch| {
            let mut inode = patch.inode(nr).expect("a read").expect("an inode");
            let node = patch.allocate(BlockNr(1)).expect("a read").expect("space");
            let mut bytes = vec![0; 1024];
            inode.blocks_raw += 2;
            if fewer.is_empty() {
                bytes[..24].copy_from_slice(&inode.i_block[..24]);
                bytes[4..6].copy_from_slice(&84u16.to_le_bytes());
                inode.i_block[6] = 1;
                inode.i_block[12..24].fill(0);
                inode.i_block[16..20].copy_from_slice(&(node.0 as u32).to_le_bytes());
            } else {
                inode.i_block[48..52].copy_from_slice(&(node.0 as u32).to_le_bytes());
            }
            patch.write(node, bytes).expect("a write");
            patch.write_inode(nr, &inode).expect("a write");
        });
        tree.expect_repair(&["symbolic-link.target-length"], &paths);
        assert_eq!(stored(&tree, nr), target(100), "{fewer:?}");
    }
}
