//! Repairs of quota files: usage is counted again, and limits stay.

use super::tree::{Tree, options};
use crate::repair::patch::Patch;
use crate::usages::Usage;
use uext4_format::quota::{QuotaEntry, QuotaKind};
use uext4_format::{BlockNr, Feature, InodeFlags, InodeNr};

const LIMIT: u64 = 77_000;

/// Files of owners 0 to 39 in a file system with quota files.
fn tree() -> Tree {
    tree_without(&[])
}

fn tree_without(fewer: &[Feature]) -> Tree {
    let features = [Feature::QUOTA, Feature::PROJECT];
    let paths: Vec<_> = (0..120).map(|at| format!("file {at}")).collect();
    let tree = Tree::new(&options(&features, fewer), &paths);
    for (nr, at) in tree.paths().values().zip(0..) {
        tree.change_inode(InodeNr(*nr), |inode| {
            (inode.uid, inode.gid, inode.projid) = (at % 40, at % 3, at % 500 * 70_000);
        });
    }
    tree.expect_repair(&["quota-usage.usage-wrong"], &tree.paths());
    tree
}

fn file(kind: QuotaKind, patch: &Patch<'_, '_>) -> InodeNr {
    let mut files = patch.superblock.quota_files();
    files.find(|(known, _)| *known == kind).expect("a file").1
}

/// The entries of a kind, with their bytes in the file.
fn entries(tree: &Tree, kind: QuotaKind) -> Vec<(QuotaEntry, u64)> {
    tree.change(|patch| {
        let nr = file(kind, patch);
        let content = patch.check.quota_content(kind, nr).expect("a read");
        content.expect("it is sound").entries
    })
}

fn set(tree: &Tree, kind: QuotaKind, id: u32, change: impl FnOnce(&mut QuotaEntry)) {
    let all = entries(tree, kind);
    let (mut entry, at) = *all
        .iter()
        .find(|(entry, _)| entry.id == id)
        .expect("an entry");
    change(&mut entry);
    tree.change(|patch| {
        let nr = file(kind, patch);
        let blocks = patch
            .check
            .quota_blocks(nr)
            .expect("a read")
            .expect("a file");
        let byte = blocks.byte_of(at, 1024).expect("no hole");
        patch.write_part(byte, &entry.encode()).expect("a write");
    });
}

fn of(tree: &Tree, kind: QuotaKind, id: u32) -> QuotaEntry {
    let all = entries(tree, kind);
    all.iter()
        .find(|(entry, _)| entry.id == id)
        .expect("an entry")
        .0
}

#[test]
fn usage_is_stored_where_it_is_wrong() {
    let tree = tree();
    for kind in QuotaKind::ALL {
        let before = of(&tree, kind, 0);
        assert!(before.inodes >= 1, "{kind:?}");
        set(&tree, kind, 0, |entry| {
            entry.space_hard_kib = LIMIT;
            entry.inodes_soft = LIMIT;
        });
        tree.assert_sound();
        set(&tree, kind, 0, |entry| entry.space_bytes += 4096);
        let place = of(&tree, kind, 0);
        tree.expect_repair(&["quota-usage.usage-wrong"], &tree.paths());
        let after = of(&tree, kind, 0);
        assert_eq!(Usage::of(&after), Usage::of(&before));
        assert_eq!((after.space_hard_kib, after.inodes_soft), (LIMIT, LIMIT));
        assert_ne!(place, after);
    }
}

#[test]
fn each_wrong_file_is_reported() {
    let tree = tree();
    for kind in QuotaKind::ALL {
        set(&tree, kind, 0, |entry| entry.space_bytes += 4096);
    }
    assert_eq!(tree.checked().findings.len(), 3);
}

/// What the parts on trial count is what one thread counts, which `checked` compares.
#[test]
fn owners_without_an_entry_get_one() {
    let tree = tree();
    let nr = tree.nr_of("file 7");
    tree.change_inode(nr, |inode| (inode.uid, inode.projid) = (123_456, 7));
    tree.expect_repair(&["quota-usage.usage-wrong"], &tree.paths());
    assert_eq!(of(&tree, QuotaKind::User, 123_456).inodes, 1);
    assert_eq!(of(&tree, QuotaKind::Project, 7).inodes, 1);
}

#[test]
fn limits_come_back_from_a_damaged_tree() {
    let places = [
        (0u64, 0..32usize),
        (0, 20..24),
        (1, 0..1024),
        (2, 0..4),
        (3, 0..512),
        (4, 0..1024),
    ];
    let made = tree();
    for (place, filler) in places.iter().flat_map(|place| [(place, 0xA7), (place, 0)]) {
        let (block, damaged) = place.clone();
        let tree = made.copy();
        set(&tree, QuotaKind::User, 39, |entry| {
            entry.space_soft_kib = LIMIT;
        });
        tree.change(|patch| {
            let nr = file(QuotaKind::User, patch);
            let inode = patch.inode(nr).expect("a read").expect("an inode");
            let extents = patch.extents_of(nr, &inode).expect("a map");
            let at = BlockNr(extents[0].start.0 + block);
            let mut bytes = patch.read(at).expect("a read");
            bytes[damaged.clone()].fill(filler);
            patch.write(at, bytes).expect("a write");
        });
        let codes = tree.codes();
        assert!(
            codes.iter().any(|code| code.starts_with("quota-tree.")),
            "{place:?} {filler}: {codes:?}"
        );
        tree.expect_repair(&[], &tree.paths());
        assert_eq!(
            of(&tree, QuotaKind::User, 39).space_soft_kib,
            LIMIT,
            "{place:?} {filler}"
        );
        assert!(entries(&tree, QuotaKind::User).len() >= 40);
    }
}

/// The entries behind the end are still there.
#[test]
fn limits_come_back_behind_a_size_that_is_too_small() {
    let made = tree();
    for blocks in [1, 2, 5] {
        let tree = made.copy();
        for id in 0..40 {
            set(&tree, QuotaKind::User, id, |entry| {
                entry.space_soft_kib = LIMIT;
            });
        }
        let nr = tree.change(|patch| file(QuotaKind::User, patch));
        tree.change_inode(nr, |inode| inode.size -= blocks * 1024 - 100);
        tree.expect_repair(&[], &tree.paths());
        for id in 0..40 {
            let entry = of(&tree, QuotaKind::User, id);
            assert_eq!(entry.space_soft_kib, LIMIT, "{id} {blocks}");
        }
    }
}

#[test]
fn a_lost_file_is_made_anew() {
    for kind in QuotaKind::ALL {
        let tree = tree();
        let before = entries(&tree, kind);
        tree.change(|patch| {
            let nr = file(kind, patch);
            let bytes = vec![0; patch.check.geometry.inode_size.into()];
            patch.write_inode_bytes(nr, &bytes).expect("a write");
        });
        tree.expect_repair(&[], &tree.paths());
        let usages = |all: Vec<(QuotaEntry, u64)>| -> Vec<_> {
            all.iter()
                .map(|(entry, _)| (entry.id, Usage::of(entry)))
                .collect()
        };
        assert_eq!(usages(entries(&tree, kind)), usages(before), "{kind:?}");
    }
}

/// A number that leads to another file costs that file nothing.
#[test]
fn a_file_that_is_no_quota_file_stays() {
    let tree = tree();
    let nr = tree.nr_of("file 9");
    tree.change(|patch| {
        let mut inode = patch.inode(nr).expect("a read").expect("an inode");
        inode.flags.insert(InodeFlags::EXTENTS);
        let content = [0x5A; 4096];
        let written = patch.write_file(inode, nr, &content, &[]);
        assert!(written.expect("a write"));
    });
    let report = tree.repaired();
    assert!(report.is_sound(), "{report:#?}");
    let projects = tree.change(|patch| file(QuotaKind::Project, patch));
    let (before, mut paths) = (tree.inode(nr), tree.paths());
    tree.change_superblock(|disk| disk.prj_quota_inum = nr.0);
    paths.insert(format!("lost+found/#{projects}"), projects.0);
    tree.expect_repair(&["quota-file.special-named"], &paths);
    let after = tree.inode(nr);
    assert_eq!((after.size, after.i_block), (before.size, before.i_block));
    let blocks = tree.change(|patch| patch.check.quota_blocks(nr));
    let blocks = blocks.expect("a read").expect("a file");
    let at = blocks.byte_of(0, 1024).expect("no hole");
    assert_eq!(tree.bytes_at(at, 4096), [0x5A; 4096]);
}

/// Linux refuses such a file.
#[test]
fn lists_of_free_blocks_stay_in_the_file() {
    for at in [24, 28] {
        let tree = tree();
        tree.change(|patch| {
            let nr = file(QuotaKind::Group, patch);
            let blocks = patch.check.quota_blocks(nr).expect("a read");
            let byte = blocks.expect("a file").byte_of(at, 1024).expect("no hole");
            patch.write_part(byte, &[0xA7; 4]).expect("a write");
        });
        tree.expect_repair(&["quota-tree.free-list-outside"], &tree.paths());
    }
}

/// Neither the log nor free space holds a new file: a stop would lose limits.
#[test]
fn a_full_disk_costs_no_limits() {
    let tree = tree_without(&[Feature::HAS_JOURNAL, Feature::ORPHAN_FILE]);
    set(&tree, QuotaKind::User, 39, |entry| {
        entry.space_soft_kib = LIMIT
    });
    tree.fill();
    let before = entries(&tree, QuotaKind::User);
    tree.change_inode(tree.nr_of("file 7"), |inode| inode.uid = 123_456);
    let report = tree.repaired();
    assert!(!report.is_sound(), "{report:#?}");
    let after = entries(&tree, QuotaKind::User);
    let places = |all: &[(QuotaEntry, u64)]| -> Vec<_> {
        all.iter().map(|(entry, at)| (entry.id, *at)).collect()
    };
    assert_eq!(places(&after), places(&before));
    assert_eq!(of(&tree, QuotaKind::User, 39).space_soft_kib, LIMIT);
    let inodes = |all: &[(QuotaEntry, u64)]| all.iter().map(|it| it.0.inodes).sum::<u64>();
    assert_eq!(inodes(&after), inodes(&before) - 1);
}
