//! Damage of entries, blocks and indexes: each repair keeps all other names.

use super::super::Outcome;
use super::super::accepted::Accepted;
use super::super::entries::Entry;
use super::image::{BLOCK, Image};
use super::policies::{context, encrypt};
use super::tree::{Seal, Tree, options};
use crate::report::Finding;
use std::collections::BTreeMap;
use uext4_device::BlockDevice;
use uext4_format::dirent::{DirEntries, DirEntry, DirLeaf, LeafTail, seal_block};
use uext4_format::xattr::{XattrName, XattrValue, decode_ibody, encode_ibody};
use uext4_format::{Corrupt, CorruptKind, DamageLocation, Feature, GroupNr, InodeFlags, InodeNr};

const PLACE: DamageLocation = DamageLocation::Superblock;

/// Paths of a small tree.
const SMALL: [&str; 8] = [
    "d/",
    "d/alpha",
    "d/beta",
    "d/gamma",
    "d/sub/",
    "d/sub/leaf",
    "other/",
    "other/file",
];

fn small() -> (Tree, BTreeMap<String, u32>) {
    let image = Tree::new(&options(&[], &[]), &SMALL);
    let paths = image.paths();
    (image, paths)
}

/// Offset of the record with this name.
pub(super) fn at(bytes: &[u8], name: &str) -> usize {
    record(bytes, name).offset
}

fn record<'b>(bytes: &'b [u8], name: &str) -> DirEntry<'b> {
    let mut entries = DirEntries::new(bytes, 0, bytes.len(), PLACE).flatten();
    let found = entries.find(|entry| entry.inode.0 != 0 && entry.name == name.as_bytes());
    found.unwrap_or_else(|| panic!("{name} is not there"))
}

fn put_inode(bytes: &mut [u8], name: &str, nr: u32) {
    let at = at(bytes, name);
    bytes[at..at + 4].copy_from_slice(&nr.to_le_bytes());
}

fn set_name(bytes: &mut [u8], old: &str, new: &[u8]) {
    let at = at(bytes, old);
    bytes[at + 8..at + 8 + new.len()].copy_from_slice(new);
}

fn without(paths: &BTreeMap<String, u32>, gone: &[&str]) -> BTreeMap<String, u32> {
    let mut paths = paths.clone();
    for path in gone {
        paths.remove(*path).expect("it was there");
    }
    paths
}

fn moved(paths: &BTreeMap<String, u32>, from: &str, to: &str) -> BTreeMap<String, u32> {
    let mut paths = paths.clone();
    let nr = paths.remove(from).expect("it was there");
    paths.insert(to.to_string(), nr);
    paths
}

#[test]
fn wrong_types_get_the_right_ones() {
    for seal in [Seal::Anew, Seal::Broken] {
        let (image, paths) = small();
        image.change_block(image.nr_of("d"), 0, seal, |bytes| {
            for name in ["alpha", "sub", ".", ".."] {
                let at = at(bytes, name);
                bytes[at + 7] = 7;
            }
        });
        let code = match seal {
            Seal::Anew => "directory-entry.entry-type",
            Seal::Broken => "directory-leaf.checksum",
        };
        image.expect_repair(&[code], &paths);
    }
}

#[test]
fn entries_of_impossible_inodes_go() {
    for (nr, code) in [
        (3000, "directory-entry.inode-free-or-damaged"),
        (0x7FFF_0000, "directory-entry.inode-number"),
        (2, "directory-entry.inode-number"),
        (7, "directory-entry.inode-number"),
    ] {
        let (image, paths) = small();
        let lost = paths["d/alpha"];
        image.change_block(image.nr_of("d"), 0, Seal::Anew, |bytes| {
            put_inode(bytes, "alpha", nr);
        });
        // The file without a name is empty, so it is freed.
        let paths = without(&paths, &["d/alpha"]);
        image.expect_repair(&[code], &paths);
        assert_eq!(image.inode(InodeNr(lost)).links, 0);
    }
}

/// A descriptor and a bitmap from before the last inodes were made cost no names, in any of the
/// directories that have some.
#[test]
fn entries_of_unread_inodes_stay() {
    for last in ["d/alpha", "other"] {
        let (image, paths) = small();
        let written = paths[last];
        image.change(|patch| {
            let per_group = patch.check.geometry.inodes_per_group;
            let mut descriptor = patch.descriptor(GroupNr(0)).expect("a read");
            descriptor.itable_unused = per_group - written;
            let mut bitmap = patch.read(descriptor.inode_bitmap).expect("a read");
            for nr in written..per_group {
                bitmap[nr as usize / 8] &= !(1 << (nr % 8));
            }
            let nr = descriptor.inode_bitmap;
            patch.write(nr, bitmap).expect("a write");
            patch
                .write_descriptor(GroupNr(0), &descriptor)
                .expect("a write");
        });
        image.expect_repair(&["directory-entry.inode-free-or-damaged"], &paths);
    }
}

/// What a repair counts at its end is what it has to write.
#[test]
fn memory_is_given_back() {
    let (image, _, big) = many();
    let small = image.nr_of("lost+found");
    image.change(|patch| {
        for (dir, n_blocks) in [(small, 1), (big, 200)] {
            let before = patch.check.memory_bytes;
            let entry = Entry {
                inode: big,
                code: 2,
                name: b"new".to_vec(),
            };
            let added = patch.add_entries(dir, vec![entry]).expect("a write");
            assert_eq!(added, [big]);
            assert!(patch.blocks.len() >= n_blocks);
            let written = patch.blocks.len() as u64 * (1024 + 64);
            let taken = patch.check.memory_bytes - before;
            // Maps that are read take some as well.
            assert!(taken < written + 1000, "{taken}, not {written}");
        }
    });
}

#[test]
fn an_entry_of_its_own_directory_goes() {
    let (image, paths) = small();
    let dir = image.nr_of("d");
    image.change_block(dir, 0, Seal::Anew, |bytes| put_inode(bytes, "alpha", dir.0));
    let paths = without(&paths, &["d/alpha"]);
    image.expect_repair(&["directory-entry.below-itself"], &paths);
}

#[test]
fn impossible_names_become_possible() {
    for (new, shown) in [
        (&b"al/ha"[..], "d/al.ha"),
        (b"al\0ha", "d/al.ha"),
        (b"/////", "d/....."),
    ] {
        let (image, paths) = small();
        image.change_block(image.nr_of("d"), 0, Seal::Anew, |bytes| {
            set_name(bytes, "alpha", new);
        });
        let paths = moved(&paths, "d/alpha", shown);
        image.expect_repair(&["directory-entry.name-bytes"], &paths);
    }
}

#[test]
fn encrypted_names_may_have_any_bytes() {
    let plain = "a name of twenty  by";
    let names = ["d/", "d/the-name-before-it", &format!("d/{plain}")];
    let image = Tree::new(&options(&[Feature::ENCRYPT], &[]), &names);
    let dir = image.nr_of("d");
    for (path, own) in names.iter().zip(0..) {
        encrypt(&image, path.trim_end_matches('/'), &context(7, own));
    }
    image.change_block(dir, 0, Seal::Anew, |bytes| {
        set_name(bytes, plain, b"a name/of\0twenty  by");
    });
    assert_eq!(image.codes(), [""; 0]);
    let paths = image.paths();
    for (at_byte, damaged) in [
        (4, "the-name-before-it"),
        (6, "a name/of\0twenty  by"),
        (7, "a name/of\0twenty  by"),
    ] {
        image.change_block(dir, 0, Seal::Anew, |bytes| {
            let start = at(bytes, damaged) + at_byte;
            bytes[start] = 0xFC * u8::from(at_byte == 7);
        });
        assert_ne!(image.codes(), [""; 0]);
        assert!(image.repaired().is_sound());
        assert_eq!(image.paths(), paths);
    }
}

/// The directory with the other names is read once.
#[test]
fn second_names_go_together() {
    let subs = (0..200).map(|at| format!("d/sub-{at}/"));
    let paths: Vec<String> = ["d/", "other/"].map(String::from).into_iter().collect();
    let image = Tree::new(&options(&[], &[]), &[paths, subs.collect()].concat());
    let (dir, other) = (image.nr_of("d"), image.nr_of("other"));
    image.change(|patch| {
        let place = DamageLocation::Inode(other);
        let twice = Corrupt::new(place, "directory entry", CorruptKind::DirectoryTwice);
        let finding = Finding {
            byte: None,
            corrupt: twice,
            detail: None,
        };
        let damaged = patch.damaged_directory(other, Accepted::of(&[finding]));
        let damaged = damaged.expect("a read").expect("an inode");
        let full = patch.damaged_directory(dir, Accepted::default());
        let full = full.expect("a read").expect("an inode");
        let extents = patch.extents_of(dir, &full.inode).expect("a map");
        let entries = patch.all_entries(&full, &extents).expect("a read");
        let entries = entries.expect("sound blocks");
        for entry in &entries {
            patch.check.links.set_up(entry.inode, other);
        }
        let placed: Vec<_> = entries.into_iter().map(|entry| (entry, place)).collect();
        let before = patch.check.steps;
        let kept = patch.drop_second_names(&damaged, placed).expect("a read");
        assert_eq!(kept.len(), 200);
        assert!(patch.check.steps - before < 50);
        let left = patch.all_entries(&full, &extents).expect("a read");
        assert_eq!(left, Some(Vec::new()));
    });
}

#[test]
fn an_empty_name_is_read_from_its_bytes_or_becomes_the_number() {
    let (image, paths) = small();
    image.change_block(image.nr_of("d"), 0, Seal::Anew, |bytes| {
        let (alpha, beta) = (at(bytes, "alpha"), at(bytes, "beta"));
        bytes[alpha + 6] = 0;
        bytes[beta + 6] = 0;
        bytes[beta + 8..beta + 12].fill(0);
    });
    let number = format!("d/#{}", paths["d/beta"]);
    let paths = moved(&paths, "d/beta", &number);
    image.expect_repair(&["directory-entry.name-empty"], &paths);
}

#[test]
fn a_second_name_gets_a_number() {
    let (image, paths) = small();
    image.change_block(image.nr_of("d"), 0, Seal::Anew, |bytes| {
        set_name(bytes, "gamma", b"alpha");
    });
    let paths = moved(&paths, "d/gamma", "d/alpha~0");
    image.expect_repair(&["directory-entry.name-twice"], &paths);
}

#[test]
fn a_name_twice_for_one_file_stays_once() {
    let (image, paths) = small();
    let alpha = paths["d/alpha"];
    image.change_block(image.nr_of("d"), 0, Seal::Anew, |bytes| {
        put_inode(bytes, "gamma", alpha);
        set_name(bytes, "gamma", b"alpha");
    });
    let paths = without(&paths, &["d/gamma"]);
    image.expect_repair(&["directory-entry.name-twice"], &paths);
}

/// The right name of a directory is the one in the directory where its ".." leads, whichever the
/// check meets first.
#[test]
fn the_right_name_of_a_directory_stays() {
    let (image, paths) = small();
    let sub = paths["d/sub"];
    image.change_block(image.nr_of("other"), 0, Seal::Anew, |bytes| {
        put_inode(bytes, "file", sub);
        bytes[at(bytes, "file") + 7] = 2;
    });
    let expected = without(&paths, &["other/file"]);
    image.expect_repair(&["directory-entry.directory-twice"], &expected);

    let (image, paths) = small();
    let other = paths["other"];
    image.change_block(image.nr_of("d"), 0, Seal::Anew, |bytes| {
        put_inode(bytes, "gamma", other);
        bytes[at(bytes, "gamma") + 7] = 2;
    });
    let expected = without(&paths, &["d/gamma"]);
    image.expect_repair(&["directory-entry.directory-twice"], &expected);
}

/// `nr` 14 names the root's directory 20 first: the name in the root is met first, in directory 2.
/// With a wrong ".." the first name stays.
#[test]
fn a_directory_twice_in_one_place_stays_once() {
    let (image, paths) = small();
    let sub = paths["d/sub"];
    image.change_block(image.nr_of("d"), 0, Seal::Anew, |bytes| {
        put_inode(bytes, "alpha", sub);
        bytes[at(bytes, "alpha") + 7] = 2;
    });
    let mut expected = moved(&paths, "d/sub", "d/alpha");
    let leaf = expected.remove("d/sub/leaf").expect("it was there");
    expected.insert("d/alpha/leaf".to_string(), leaf);
    image.expect_repair(&["directory-entry.directory-twice"], &expected);
}

#[test]
fn entries_behind_a_damaged_record_stay() {
    for length in [0u16, 3, 5, 4000] {
        for name in ["alpha", "beta", "gamma", "sub", ".."] {
            let (image, paths) = small();
            image.change_block(image.nr_of("d"), 0, Seal::Anew, |bytes| {
                let at = at(bytes, name);
                bytes[at + 4..at + 6].copy_from_slice(&length.to_le_bytes());
            });
            image.expect_repair(&[], &paths);
        }
    }
}

/// A length that swallows other records breaks nothing but the checksum.
#[test]
fn entries_in_slack_come_back_after_a_wrong_checksum() {
    let (image, paths) = small();
    image.change_block(image.nr_of("d"), 0, Seal::Broken, |bytes| {
        let (alpha, sub) = (at(bytes, "alpha"), at(bytes, "sub"));
        let length = u16::try_from(sub - alpha).expect("a short block");
        bytes[alpha + 4..alpha + 6].copy_from_slice(&length.to_le_bytes());
    });
    image.expect_repair(&["directory-leaf.checksum"], &paths);
}

/// A deleted entry is one of an inode that has all its names.
#[test]
fn deleted_entries_stay_deleted() {
    let (image, paths) = small();
    let beta = paths["d/beta"];
    image.change_block(image.nr_of("d"), 0, Seal::Broken, |bytes| {
        let (alpha, gamma) = (at(bytes, "alpha"), at(bytes, "gamma"));
        let length = u16::try_from(gamma - alpha).expect("a short block");
        bytes[alpha + 4..alpha + 6].copy_from_slice(&length.to_le_bytes());
        put_inode(bytes, "gamma", beta);
    });
    let mut expected = without(&paths, &["d/beta", "d/gamma"]);
    expected.insert("d/gamma".to_string(), beta);
    image.expect_repair(&["directory-leaf.checksum"], &expected);
}

#[test]
fn wrong_dots_are_made_again() {
    type Damage = fn(&mut [u8]);
    let damages: [Damage; 6] = [
        |bytes| set_name(bytes, ".", b"x"),
        |bytes| set_name(bytes, "..", b"xy"),
        |bytes| put_inode(bytes, ".", 17),
        |bytes| put_inode(bytes, ".", 0),
        |bytes| put_inode(bytes, "..", 0),
        |bytes| bytes[..24].fill(0),
    ];
    for damage in damages {
        let (image, paths) = small();
        image.change_block(image.nr_of("d"), 0, Seal::Anew, damage);
        image.expect_repair(&[], &paths);
    }
}

#[test]
fn dot_dot_leads_to_the_parent() {
    for (more, path) in [
        (&[][..], "d"),
        (&[][..], "d/sub"),
        (&[Feature::INLINE_DATA], "d/sub"),
    ] {
        let image = Tree::new(&options(more, &[]), &SMALL);
        let paths = image.paths();
        let other = paths["other"];
        if more.is_empty() {
            image.change_block(image.nr_of(path), 0, Seal::Anew, |bytes| {
                put_inode(bytes, "..", other);
            });
        } else {
            make_inline(&image, path);
            image.change_inode(image.nr_of(path), |inode| {
                uext4_format::inline_data::set_parent(&mut inode.i_block, InodeNr(other));
            });
        }
        image.expect_repair(&["directory.dot-dot-elsewhere"], &paths);
    }
}

/// Moves a directory into its inode.
pub(super) fn make_inline(image: &Tree, path: &str) {
    use super::super::rebuild::Content;
    let nr = image.nr_of(path);
    image.change(|patch| {
        let dir = patch.damaged_directory(nr, Accepted::default());
        let dir = dir.expect("a read").expect("an inode");
        let extents = patch.extents_of(nr, &dir.inode).expect("a map");
        let entries = patch.all_entries(&dir, &extents).expect("a read");
        let entries: Vec<Entry> = entries.expect("sound blocks");
        let content = Content {
            nr,
            parent: patch.parent_of(nr),
            entries: &entries,
            blocks_min: 1,
        };
        let mut inode = dir.inode.clone();
        inode.flags.remove(InodeFlags::EXTENTS);
        inode.flags.insert(InodeFlags::INLINE_DATA);
        inode.blocks_raw = 0;
        assert!(patch.write_inline(&inode, &content).expect("a write"));
    });
    let report = image.repaired();
    assert!(report.is_sound(), "{report:#?}");
    image.assert_sound();
}

fn inline() -> (Tree, BTreeMap<String, u32>, InodeNr) {
    let image = Tree::new(&options(&[Feature::INLINE_DATA], &[]), &SMALL);
    let paths = image.paths();
    make_inline(&image, "d");
    assert_eq!(image.paths(), paths);
    let dir = image.nr_of("d");
    (image, paths, dir)
}

/// Changes the first area of names in an inode.
fn change_area(image: &Tree, nr: InodeNr, change: impl FnOnce(&mut [u8])) {
    image.change_inode(nr, |inode| change(&mut inode.i_block[4..]));
}

#[test]
fn inline_directories_follow_the_same_rules() {
    let (image, paths, dir) = inline();
    change_area(&image, dir, |area| area[7] = 7);
    image.expect_repair(&["directory-entry.entry-type"], &paths);

    change_area(&image, dir, |area| set_name(area, "alpha", b"a/pha"));
    let paths = moved(&paths, "d/alpha", "d/a.pha");
    image.expect_repair(&["directory-entry.name-bytes"], &paths);

    change_area(&image, dir, |area| set_name(area, "gamma", b"a.pha"));
    let paths = moved(&paths, "d/gamma", "d/a.pha~0");
    image.expect_repair(&["directory-entry.name-twice"], &paths);

    change_area(&image, dir, |area| area[4..6].fill(0));
    image.expect_repair(&["directory-entry.record-short"], &paths);
    assert!(image.inode(dir).flags.contains(InodeFlags::INLINE_DATA));
}

/// Names that the inode has no space for move to a block.
#[test]
fn an_inline_directory_that_grows_gets_a_block() {
    // 56 bytes in the first area, of which 8 stay free, and 68 in the second one.
    let names = [
        "11111111", "22222222", "33333333", "aaaaaaaa", "bbbbbbbb", "cccccccc",
    ];
    let mut all = vec!["full/".to_string(), "full/dddddddddddd".to_string()];
    all.splice(1..1, names.iter().map(|name| format!("full/{name}")));
    let image = Tree::new(&options(&[Feature::INLINE_DATA], &[]), &all);
    make_inline(&image, "full");
    let dir = image.nr_of("full");
    let paths = image.paths();
    change_value(&image, dir, |value| {
        set_name(value, "bbbbbbbb", b"aaaaaaaa")
    });
    let expected = moved(&paths, "full/bbbbbbbb", "full/aaaaaaaa~0");
    image.expect_repair(&["directory-entry.name-twice"], &expected);
    assert!(!image.inode(dir).flags.contains(InodeFlags::INLINE_DATA));
}

/// Changes the second area of names in an inode.
pub(super) fn change_value(image: &Tree, nr: InodeNr, change: impl FnOnce(&mut [u8])) {
    image.change_inode(nr, |inode| {
        let mut set = decode_ibody(&inode.tail, PLACE).expect("attributes");
        let name = XattrName::inline_data();
        let Some(XattrValue::Here(mut value)) = set.get(&name).cloned() else {
            panic!("no value");
        };
        change(&mut value);
        set.set(name, XattrValue::Here(value));
        encode_ibody(&mut inode.tail, &set).expect("it was there");
    });
}

/// Paths of a directory with an index of two levels, in blocks of 1 KiB.
fn many() -> (Tree, BTreeMap<String, u32>, InodeNr) {
    let names = (0..5000).map(|at| format!("big/a-name-that-is-rather-long-{at:05}"));
    let paths: Vec<String> = std::iter::once("big/".to_string()).chain(names).collect();
    let image = Tree::new(&options(&[], &[]), &paths);
    let dir = image.nr_of("big");
    assert!(image.inode(dir).flags.contains(InodeFlags::INDEX));
    let paths = image.paths();
    (image, paths, dir)
}

/// The first name of a block.
fn first_name(bytes: &[u8]) -> String {
    let leaf = DirLeaf::new(bytes, LeafTail::None, PLACE);
    let entry = leaf.entries().next().expect("an entry").expect("a record");
    String::from_utf8_lossy(entry.name).into_owned()
}

#[test]
fn indexes_are_built_again() {
    type Damage = fn(&mut [u8]);
    let damages: [(u64, &str, Damage); 5] = [
        (0, "htree-root.hash-function", |bytes| bytes[28] = 9),
        (0, "htree-root.levels", |bytes| bytes[30] = 7),
        (0, "htree-node.limit", |bytes| bytes[32] ^= 1),
        (0, "htree.index-incomplete", |bytes| {
            let last = usize::from(bytes[34]) - 1;
            let (from, to) = (32 + 8 * (last - 1), 32 + 8 * last);
            let block: Vec<u8> = bytes[from + 4..from + 8].to_vec();
            bytes[to + 4..to + 8].copy_from_slice(&block);
        }),
        (0, "directory-entry.looked-elsewhere", |bytes| {
            let (first, second) = (44, 52);
            let block: Vec<u8> = bytes[first..first + 4].to_vec();
            let other: Vec<u8> = bytes[second..second + 4].to_vec();
            bytes[first..first + 4].copy_from_slice(&other);
            bytes[second..second + 4].copy_from_slice(&block);
        }),
    ];
    let (image, paths, dir) = many();
    for (logical, code, damage) in damages {
        let blocks = image.inode(dir).size;
        image.change_block(dir, logical, Seal::Anew, damage);
        image.expect_repair(&[code], &paths);
        let inode = image.inode(dir);
        assert!(inode.flags.contains(InodeFlags::INDEX));
        assert_eq!(inode.size, blocks);
    }
}

/// A directory that is built in parts has all its names whichever of them are written.
#[test]
fn a_crash_between_parts_costs_no_name() {
    let names = (0..2000).map(|at| format!("big/a-name-that-is-rather-long-{at:05}"));
    let paths: Vec<String> = std::iter::once("big/".to_string()).chain(names).collect();
    let fewer = [Feature::HAS_JOURNAL, Feature::ORPHAN_FILE];
    let image = Tree::new(&options(&[], &fewer), &paths);
    let dir = image.nr_of("big");
    image.change(|patch| {
        let removed = patch.remove_entries(dir, &|entry| entry.name.ends_with(b"1"));
        removed.expect("a write");
    });
    assert!(image.repaired().is_sound());
    let paths = image.paths();
    image.change_block(dir, 0, Seal::Anew, |bytes| bytes[28] = 9);
    let findings = image.checked().findings;
    for quarters in 0..=4 {
        let copy = image.copy();
        copy.change(|patch| {
            let outcome = patch.repair_directory(dir, &findings).expect("a write");
            assert_eq!(outcome, Outcome::Repaired);
            let n_written = patch.blocks.len() * quarters / 4;
            if let Some(rest) = patch.blocks.keys().nth(n_written).copied() {
                patch.blocks.split_off(&rest);
            }
        });
        copy.expect_repair(&[], &paths);
    }
}

#[test]
fn a_lost_block_of_an_index_costs_no_name() {
    let (image, paths, dir) = many();
    image.change_block(dir, 0, Seal::Broken, |bytes| bytes.fill(0));
    image.expect_repair(&["htree-root.root-dots"], &paths);
}

/// A renamed entry of an index belongs to another leaf.
#[test]
fn a_repaired_name_is_found_by_the_index() {
    let (image, paths, dir) = many();
    let mut name = String::new();
    image.change_block(dir, 3, Seal::Anew, |bytes| {
        name = first_name(bytes);
        let new = name.replace("rather", "ra/her");
        set_name(bytes, &name.clone(), new.as_bytes());
    });
    let old = format!("big/{name}");
    let expected = moved(&paths, &old, &old.replace("rather", "ra.her"));
    image.expect_repair(&["directory-entry.name-bytes"], &expected);
}

#[test]
fn damage_of_leaves_of_an_index_costs_no_name() {
    let (image, paths, dir) = many();
    for (logical, seal) in [(5, Seal::Broken), (6, Seal::Anew), (7, Seal::Broken)] {
        image.change_block(dir, logical, seal, |bytes| {
            let name = first_name(bytes);
            let at = at(bytes, &name);
            bytes[at + 4] = if logical == 7 { 96 } else { 1 };
        });
    }
    image.expect_repair(&["directory-leaf.checksum"], &paths);
    // No block moved.
    assert!(image.inode(dir).flags.contains(InodeFlags::INDEX));
}

/// A hole in an index: the names of its block are lost, those of others are not.
#[test]
fn a_directory_with_a_hole_is_built_again() {
    let (image, paths, dir) = many();
    let mut lost = Vec::new();
    image.change(|patch| {
        let mut inode = patch.inode(dir).expect("a read").expect("an inode");
        let mut extents = patch.extents_of(dir, &inode).expect("a map");
        let first = extents.remove(0);
        let head = uext4_format::extent::Extent { len: 4, ..first };
        let tail = uext4_format::extent::Extent {
            logical: uext4_format::LogicalBlock(5),
            start: uext4_format::BlockNr(first.start.0 + 5),
            len: first.len - 5,
            ..first
        };
        let bytes = patch
            .read(uext4_format::BlockNr(first.start.0 + 4))
            .expect("a read");
        for entry in DirEntries::new(&bytes, 0, bytes.len(), PLACE).flatten() {
            if entry.inode.0 != 0 {
                lost.push(format!("big/{}", String::from_utf8_lossy(entry.name)));
            }
        }
        let mut holed = vec![head, tail];
        holed.extend(extents);
        assert!(patch.set_map(dir, &mut inode, &holed).expect("a map"));
        patch.write_inode(dir, &inode).expect("a write");
    });
    assert!(!lost.is_empty());
    let lost: Vec<&str> = lost.iter().map(String::as_str).collect();
    let expected = without(&paths, &lost);
    image.expect_repair(&["directory.holes"], &expected);
}

/// Blocks without checksums, tables of blocks, entries without types and linear directories.
#[test]
fn old_formats_are_repaired() {
    let fewer = [
        Feature::METADATA_CSUM,
        Feature::SIXTY_FOUR_BIT,
        Feature::EXTENTS,
        Feature::FILETYPE,
        Feature::DIR_INDEX,
    ];
    let names = (0..300).map(|at| format!("big/a-name-that-is-rather-long-{at:05}"));
    let paths: Vec<String> = std::iter::once("big/".to_string()).chain(names).collect();
    let image = Tree::new(&options(&[], &fewer), &paths);
    let paths = image.paths();
    let dir = image.nr_of("big");
    image.change_block(dir, 2, Seal::Anew, |bytes| {
        let name = first_name(bytes);
        let at = at(bytes, &name);
        bytes[at + 4] = 2;
    });
    image.expect_repair(&["directory-entry.record-short"], &paths);
    let mut twin = (String::new(), String::new());
    image.change_block(dir, 4, Seal::Anew, |bytes| {
        let name = first_name(bytes);
        let next = "a-name-that-is-rather-long-00000";
        set_name(bytes, &name.clone(), next.as_bytes());
        twin = (format!("big/{name}"), format!("big/{next}~0"));
    });
    let expected = moved(&paths, &twin.0, &twin.1);
    image.expect_repair(&["directory-entry.name-twice"], &expected);
    assert!(!image.inode(dir).flags.contains(InodeFlags::INDEX));
}

/// Leaves without the tail for a checksum, full to the end.
#[test]
fn blocks_without_a_tail_get_one() {
    let (image, paths) = small();
    let dir = image.nr_of("d");
    image.change_block(dir, 0, Seal::Broken, |bytes| {
        let at = at(bytes, "sub");
        let length = u16::try_from(bytes.len() - at).expect("a short block");
        bytes[at + 4..at + 6].copy_from_slice(&length.to_le_bytes());
        let tail = bytes.len() - 12;
        bytes[tail..].fill(0);
    });
    image.expect_repair(&["directory-leaf.checksum-tail"], &paths);
}

#[test]
fn a_repair_of_nothing_changes_nothing() {
    let (image, paths) = small();
    let report = image.repaired();
    assert!(report.is_sound() && report.n_repaired == 0, "{report:#?}");
    assert_eq!(image.paths(), paths);
    // Codes are what programs compare.
    let corrupt = uext4_format::Corrupt::new(PLACE, "directory", CorruptKind::Holes);
    assert_eq!(crate::code(&corrupt), "directory.holes");
    let mut bytes = vec![0; 1024];
    seal_block(&mut bytes, uext4_format::Seed(0));
}

/// The last record is as long as if the block had no tail.
#[test]
fn a_record_over_the_tail_ends_before_it() {
    let image = Image::new("^has_journal");
    let lost_found = InodeNr(11);
    let block = image.extents(lost_found)[0].start;
    // The length of "..".
    let at = block.0 * BLOCK + 16;
    image.device.write_at(at, &1012u16.to_le_bytes()).unwrap();
    image.repair_of("directory-leaf.checksum");
}
