//! Targets of coverage-guided fuzzing: each takes any bytes and must neither panic, overflow, loop
//! nor allocate without bound. Where bytes decode, it also checks that encoding gives them back.
//!
//! A workspace of its own, so that stable builds need neither nightly nor libFuzzer.
//! `cargo +nightly fuzz run inode` runs one; `cargo test` runs all on mutated seeds.
#![forbid(unsafe_code)]

pub mod directories;
pub mod image;
pub mod journal;
pub mod tables;
#[cfg(test)]
mod tests;

use uext4_format::{Feature, Features, Geometry, Superblock};

/// Geometry of a small file system with the features that add fields.
fn geometry() -> Geometry {
    let mut superblock = Superblock::blank();
    superblock.rev_level = 1;
    superblock.set_features(Features::of(&[
        Feature::EXTENTS,
        Feature::SIXTY_FOUR_BIT,
        Feature::FLEX_BG,
        Feature::HUGE_FILE,
    ]));
    (superblock.log_block_size, superblock.log_cluster_size) = (2, 2);
    (superblock.blocks_per_group, superblock.clusters_per_group) = (32768, 32768);
    (superblock.inodes_per_group, superblock.inode_size) = (8192, 256);
    (superblock.first_ino, superblock.desc_size) = (11, 64);
    (superblock.blocks_count, superblock.inodes_count) = (4 * 32768, 4 * 8192);
    superblock.geometry().expect("consistent numbers")
}
