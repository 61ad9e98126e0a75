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
        spread(&tree, tree.nr_of(path));
    }
    let report = tree.repaired();
    assert!(report.is_sound(), "{report:#?}");
    tree.assert_sound();
    tree
}

/// Gives a directory at least 30 blocks and no index.
fn spread(tree: &Tree, nr: InodeNr) {
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
            blocks_min: 30,
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
