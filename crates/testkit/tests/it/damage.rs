//! Injected damage is detected, can be undone, and with valid checksums passes them.

use std::fs;
use std::path::Path;

use uext4_testkit::damage::{Checksums, Target, Wound};
use uext4_testkit::oracle::{KernelMount, assert_clean, e2fsck, mke2fs_image};
use uext4_testkit::tree::{Shape, TreeSpec};

/// Words of e2fsck for a wrong checksum.
const CHECKSUM_WORDS: [&str; 3] = ["checksum", "Checksum", "CRC"];

#[test]
fn damage_is_seen_and_healed() {
    if !KernelMount::available_or_skip("damage_is_seen_and_healed") {
        return;
    }
    let (_owner, image) = mke2fs_image(64 << 20, &["-b", "1024", "-O", "^resize_inode"]).unwrap();
    fill(&image);
    let sound = fs::read(&image).unwrap();
    let mut seen_without_checksum = 0;
    for (number, target) in Target::ALL.into_iter().enumerate() {
        for checksums in [Checksums::Left, Checksums::Fixed] {
            for seed in 0..4 {
                let seed = seed + 100 * number as u64;
                let wound = Wound::inflict(&image, target, seed, checksums).unwrap();
                let wound = wound.unwrap_or_else(|| panic!("the image has no {target:?}"));
                let verdict = e2fsck(&image).unwrap();
                let tells_checksum = CHECKSUM_WORDS
                    .iter()
                    .any(|word| verdict.output.contains(word));
                if checksums == Checksums::Left && must_be_seen(target) {
                    assert!(!verdict.is_clean(), "unseen: {wound}");
                }
                if checksums == Checksums::Fixed && must_be_seen(target) {
                    assert!(!tells_checksum || may_move(&wound), "{wound}\n{verdict}");
                    seen_without_checksum += usize::from(!verdict.is_clean());
                }
                wound.heal(&image).unwrap();
            }
        }
    }
    assert!(
        seen_without_checksum > 10,
        "only {seen_without_checksum} seen behind checksums"
    );
    assert!(fs::read(&image).unwrap() == sound, "healing left something");
    assert_clean(&image);
}

/// Free bytes, the log and the padding of a bitmap may be damaged without effect.
fn must_be_seen(target: Target) -> bool {
    !matches!(
        target,
        Target::Anywhere | Target::JournalBlock | Target::JournalSuperblock
    )
}

/// Fields that determine location, coverage or existence of a checksum: with them wrong, e2fsck
/// checks other bytes.
fn may_move(wound: &Wound) -> bool {
    let deciding = [
        "eh_max",
        "eh_magic",
        "eh_depth",
        "feature_",
        "inode_size",
        "desc_size",
        "checksum_",
        "log_",
        "_per_group",
        "extra_isize",
        "first_data_block",
        "blocks_count",
        "inodes_count",
        "_bitmap",
        "inode_table",
        "generation",
        "rec_len",
        "flags",
        "magic",
        "journal_inum",
        "rev_level",
        "mode",
        "block map",
        "ee_",
        "start_",
        "file_acl",
    ];
    deciding.iter().any(|word| wound.place.contains(word))
}

fn fill(image: &Path) {
    let mount = KernelMount::new(image, "").unwrap();
    let shape = Shape::new(1_000).for_block_size(1024);
    TreeSpec::generate(5, &shape).apply(mount.path()).unwrap();
    // Many small extents need a tree with blocks of its own.
    let file = fs::File::create(mount.path().join("fragments")).unwrap();
    for index in 0..200 {
        std::os::unix::fs::FileExt::write_all_at(&file, b"x", index * 8192).unwrap();
    }
    file.sync_all().unwrap();
    drop(file);
    mount.unmount().unwrap();
    assert_clean(image);
}
