//! Random bytes in directories: a repair ends in a sound state, and no inode is lost.
//!
//! More seeds: `UEXT4_REPAIR_SEEDS=5000 cargo test -p uext4-fsck --lib random`; a failure prints
//! its seed, which `UEXT4_REPAIR_FIRST` repeats.

use super::directories::{change_value, make_inline};
use super::tree::{ROOT, Seal, Tree, options};
use std::collections::BTreeSet;
use uext4_format::{Feature, InodeNr};

/// A generator of numbers (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

fn number(name: &str, default: u64) -> u64 {
    let value = std::env::var(name).ok();
    value.map_or(default, |value| value.parse().expect("a number"))
}

fn paths() -> Vec<String> {
    let mut paths: Vec<String> = ["linear/", "linear/sub/", "linear/sub/deep/", "indexed/"]
        .map(String::from)
        .into();
    paths.extend((0..12).map(|at| format!("linear/file-{at}")));
    paths.extend((0..6).map(|at| format!("linear/sub/deep/{at}")));
    paths.extend((0..180).map(|at| format!("indexed/some-longer-name-{at:03}")));
    paths
}

/// Overwrites bytes of a block: one, a few, or a long part.
fn wound(random: &mut Random, bytes: &mut [u8]) {
    let longest = [1, 4, 40, 400][random.below(4)];
    for _ in 0..=random.below(2) {
        let len = 1 + random.below(longest.min(bytes.len() - 1));
        let at = random.below(bytes.len() - len);
        let fill = random.below(4);
        for byte in &mut bytes[at..at + len] {
            *byte = match fill {
                0 => 0,
                1 => *byte ^ 1 << random.below(8),
                2 => 0xFF,
                _ => random.next() as u8,
            };
        }
    }
}

/// Damages up to two directories.
fn damage(tree: &Tree, random: &mut Random) {
    let dirs = [
        "linear",
        "linear/sub",
        "linear/sub/deep",
        "indexed",
        "indexed",
    ];
    for _ in 0..=random.below(2) {
        let dir = match random.below(dirs.len() + 1) {
            0 => ROOT,
            at => tree.nr_of(dirs[at - 1]),
        };
        let blocks = tree.inode(dir).size / 1024;
        let block = random.below(blocks as usize) as u64;
        let seal = match random.below(2) {
            0 => Seal::Anew,
            _ => Seal::Broken,
        };
        tree.change_block(dir, block, seal, |bytes| wound(random, bytes));
        if !tree.checked().is_clean() {
            break;
        }
    }
}

/// Damages a directory in its inode.
fn damage_inline(tree: &Tree, random: &mut Random) {
    let dir = tree.nr_of(["linear", "linear/sub", "linear/sub/deep"][random.below(3)]);
    match random.below(3) {
        0 => change_value(tree, dir, |value| {
            if value.len() > 50 {
                wound(random, value);
            }
        }),
        _ => tree.change_inode(dir, |inode| wound(random, &mut inode.i_block)),
    }
}

type Damage = fn(&Tree, &mut Random);

fn try_seed(tree: &Tree, damage: Damage, seed: u64) {
    let mut random = Random(seed);
    let before: BTreeSet<u32> = tree.paths().into_values().collect();
    damage(tree, &mut random);
    let was_clean = tree.checked().is_clean();
    let report = tree.repaired();
    assert!(report.is_sound(), "{report:#?}");
    assert_eq!(report.n_repaired == 0, was_clean);
    tree.assert_sound();
    let after: BTreeSet<u32> = tree.paths().into_values().collect();
    let lost: Vec<_> = before.difference(&after).collect();
    assert!(lost.is_empty(), "lost: {lost:?}");
    let again = tree.repaired();
    assert!(again.n_repaired == 0 && again.is_sound(), "{again:#?}");
}

fn try_seeds(tree: &Tree, damage: Damage, default: u64) {
    for nr in tree.paths().into_values() {
        // An empty file without a name would be freed.
        tree.change_inode(InodeNr(nr), |inode| inode.size = inode.size.max(1));
    }
    tree.assert_sound();
    let first = number("UEXT4_REPAIR_FIRST", 0);
    for seed in first..first + number("UEXT4_REPAIR_SEEDS", default) {
        let copy = tree.copy();
        let run = std::panic::AssertUnwindSafe(|| try_seed(&copy, damage, seed));
        if let Err(panic) = std::panic::catch_unwind(run) {
            println!("seed {seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

#[test]
fn random_bytes_lose_no_inode() {
    let tree = Tree::new(&options(&[], &[]), &paths());
    try_seeds(&tree, damage, 60);
}

#[test]
fn random_bytes_lose_no_inode_without_checksums() {
    let fewer = [
        Feature::METADATA_CSUM,
        Feature::SIXTY_FOUR_BIT,
        Feature::EXTENTS,
    ];
    let tree = Tree::new(&options(&[], &fewer), &paths());
    try_seeds(&tree, damage, 60);
}

#[test]
fn random_bytes_lose_no_inode_in_clusters() {
    let mut options = options(&[Feature::BIGALLOC], &[]);
    options.cluster_size = Some(8192);
    let tree = Tree::new(&options, &paths());
    try_seeds(&tree, damage, 40);
}

#[test]
fn random_bytes_lose_no_inode_of_inline_directories() {
    let mut paths: Vec<String> = ["linear/", "linear/sub/", "linear/sub/deep/"]
        .map(String::from)
        .into();
    for dir in ["linear", "linear/sub", "linear/sub/deep"] {
        paths.extend((0..6).map(|at| format!("{dir}/{at}")));
    }
    let tree = Tree::new(&options(&[Feature::INLINE_DATA], &[]), &paths);
    for dir in ["linear", "linear/sub", "linear/sub/deep"] {
        make_inline(&tree, dir);
    }
    try_seeds(&tree, damage_inline, 60);
}
