//! Directories that are built anew: the same names in fewer blocks. e2fsck judges.

use super::super::rebuild::Content;
use super::policies::{context, encrypt};
use super::tree::{Tree, options};
use crate::repair::accepted::Accepted;
use uext4_format::{Feature, InodeFlags, InodeNr};

/// A large directory without an index, and small ones of many blocks.
fn tree(more: &[Feature], fewer: &[Feature]) -> Tree {
    let mut paths: Vec<String> = ["large/", "small/", "empty/"].map(String::from).to_vec();
    paths.extend((0..400).map(|at| format!("large/a name of forty bytes, with a number {at:04}")));
    paths.extend((0..12).map(|at| format!("small/name {at:012}")));
    let tree = Tree::new(&options(more, fewer), &paths);
    for path in ["large", "small", "empty"] {
        spread(&tree, tree.nr_of(path), 30);
    }
    let report = tree.repaired();
    assert!(report.is_sound(), "{report:#?}");
    tree.assert_sound();
    tree
}

/// Gives a directory at least so many blocks and no index.
fn spread(tree: &Tree, nr: InodeNr, blocks_min: u32) {
    tree.change(|patch| {
        let dir = patch.damaged_directory(nr, Accepted::default());
        let dir = dir.expect("a read").expect("an inode");
        let extents = patch.extents_of(nr, &dir.inode).expect("a map");
        let entries = patch.all_entries(&dir, &extents).expect("a read");
        let entries = entries.expect("sound blocks");
        let content = Content {
            nr,
            parent: patch.parent_of(nr),
            entries: &entries,
            blocks_min,
        };
        let mut inode = dir.inode.clone();
        // So that it gets no index.
        inode.flags.insert(InodeFlags::CASEFOLD);
        let written = patch.write_directory(inode, &content, &extents);
        assert!(written.expect("a write"));
    });
    tree.change_inode(nr, |inode| inode.flags.remove(InodeFlags::CASEFOLD));
}

#[test]
fn directories_become_as_small_as_their_names() {
    let journal = [Feature::HAS_JOURNAL, Feature::ORPHAN_FILE];
    let cases: [(&[Feature], &[Feature]); 6] = [
        (&[], &[]),
        (&[], &[Feature::DIR_INDEX]),
        (&[], &[Feature::METADATA_CSUM]),
        (&[], &journal),
        (&[Feature::INLINE_DATA, Feature::QUOTA], &[]),
        (&[], &[Feature::EXTENTS, Feature::SIXTY_FOUR_BIT]),
    ];
    for (more, fewer) in cases {
        let tree = tree(more, fewer);
        let old = tree.inode(tree.nr_of("large")).size;
        let done = tree.optimised();
        assert_eq!(
            (done.incomplete, done.casefolded),
            (None, 0),
            "{more:?} {fewer:?}"
        );
        for path in ["small", "empty"] {
            assert_eq!(tree.inode(tree.nr_of(path)).size, 1024, "{path}");
        }
        let large = tree.inode(tree.nr_of("large"));
        let has_index = !fewer.contains(&Feature::DIR_INDEX);
        assert_eq!(large.flags.contains(InodeFlags::INDEX), has_index);
        assert!(large.size <= old, "{} {old}", large.size);
        assert!(done.blocks_freed >= 58, "{done:?}");
        // There is nothing left to do.
        let again = tree.optimised();
        assert_eq!((again.directories, again.blocks_freed), (0, 0));
    }
}

/// Their names have the hashes of their bytes.
#[test]
fn encrypted_directories_get_an_index() {
    let tree = tree(&[Feature::ENCRYPT], &[]);
    let paths = tree.paths();
    for (path, own) in paths.keys().zip(0..) {
        if path.starts_with("large") {
            encrypt(&tree, path, &context(7, (own % 250) as u8));
        }
    }
    tree.assert_sound();
    assert_eq!(tree.optimised().directories, 3);
    let large = tree.inode(tree.nr_of("large"));
    assert!(large.flags.contains(InodeFlags::INDEX));
}

#[test]
fn an_unsound_file_system_stays_as_it_is() {
    let tree = tree(&[], &[]);
    tree.change_inode(tree.nr_of("small"), |inode| inode.links = 9);
    let before = tree.inode(tree.nr_of("empty")).size;
    let refused = tree.optimise();
    assert!(refused.incomplete.is_some());
    assert_eq!(refused.directories, 0);
    assert_eq!(tree.inode(tree.nr_of("empty")).size, before);
}

/// What needs too much memory stays as it is, and all else is built anew.
#[test]
fn a_directory_that_is_too_large_ends_nothing() {
    let made = tree(&[], &[]);
    spread(&made, made.nr_of("large"), 120);
    let report = made.repaired();
    assert!(report.is_sound(), "{report:#?}");
    let mut found = 0;
    for memory in (1..30).map(|share| share << 17) {
        let tree = made.copy();
        let done = tree.optimised_within(memory);
        found += u64::from((done.directories, done.too_large, done.incomplete) == (2, 1, None));
        let wanted = if done.incomplete.is_some() { 0 } else { 3 };
        assert_eq!(
            done.directories + done.too_large,
            wanted,
            "{memory}: {done:?}"
        );
    }
    assert!(found > 0);
}

/// A stop behind any batch leaves no block in use that the bitmap has free.
#[test]
fn new_blocks_are_marked_with_their_batch() {
    let journal = [Feature::HAS_JOURNAL, Feature::ORPHAN_FILE];
    for fewer in [&[][..], &journal] {
        let tree = tree(&[], fewer);
        spread(&tree, tree.nr_of("large"), 300);
        assert!(tree.repaired().is_sound());
        tree.optimised_once();
        let codes = tree.codes();
        assert!(
            codes.contains(&"block-bitmap.leaked".to_owned()),
            "{codes:?}"
        );
        assert!(
            !codes.contains(&"block-bitmap.marked-free".to_owned()),
            "{codes:?}"
        );
    }
}

/// The blocks of the index have no place for the checksum of a leaf.
#[test]
fn a_directory_that_lost_the_flag_of_its_index_is_linear() {
    let tree = tree(&[], &[]);
    tree.optimised();
    let paths = tree.paths();
    let nr = tree.nr_of("large");
    tree.change_inode(nr, |inode| inode.flags.remove(InodeFlags::INDEX));
    tree.expect_repair(&["directory-leaf.checksum-tail"], &paths);
}
