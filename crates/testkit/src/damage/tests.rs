//! The recomputed checksums equal those of the kernel and mke2fs.

use super::{Checksums, Image, Layout, Target, Wound, checksums};
use crate::oracle::{KernelMount, mke2fs_image};
use crate::rng::Rng;
use crate::tree::{Shape, TreeSpec};

const TRIES: u64 = 16;

#[test]
fn fixing_a_sound_structure_changes_nothing() {
    if !KernelMount::available_or_skip("fixing_a_sound_structure_changes_nothing") {
        return;
    }
    for options in [
        &["-b", "1024"][..],
        &["-b", "4096", "-O", "metadata_csum_seed"],
    ] {
        let (_owner, path) = mke2fs_image(96 << 20, options).unwrap();
        let mount = KernelMount::new(&path, "").unwrap();
        let shape = Shape::new(1_500).for_block_size(1024);
        TreeSpec::generate(6, &shape).apply(mount.path()).unwrap();
        let file = std::fs::File::create(mount.path().join("fragments")).unwrap();
        for index in 0..2000 {
            std::os::unix::fs::FileExt::write_all_at(&file, b"x", index * 8192).unwrap();
        }
        drop(file);
        mount.unmount().unwrap();
        for target in Target::ALL {
            fix_many(&path, target);
        }
    }
}

fn fix_many(path: &std::path::Path, target: Target) {
    let mut fixed = 0;
    for seed in 0..TRIES {
        let mut image = Image::open(path).unwrap();
        let layout = Layout::read(&image).unwrap();
        assert!(layout.checksum_seed.is_some());
        let spot = layout.spot(&image, target, &mut Rng::new(seed)).unwrap();
        let spot = spot.unwrap_or_else(|| panic!("the image has no {target:?}"));
        checksums::fix(&mut image, &layout, &spot).unwrap();
        for change in image.into_changes() {
            assert_eq!(change.before, change.after, "{target:?}: {}", spot.name);
            fixed += 1;
        }
    }
    let has_checksum = !matches!(target, Target::Anywhere | Target::JournalBlock);
    assert_eq!(fixed > 0, has_checksum, "{target:?}");
}

/// A journal whose blocks are not mapped by extents is not found here.
#[test]
fn what_an_image_does_not_have_is_not_damaged() {
    let shape = ["-O", "^extents,^64bit,^metadata_csum", "-b", "1024"];
    let (_owner, path) = mke2fs_image(16 << 20, &shape).unwrap();
    for target in Target::ALL {
        for seed in 0..TRIES {
            let wound = Wound::inflict(&path, target, seed, Checksums::Fixed).unwrap();
            if matches!(target, Target::JournalSuperblock | Target::JournalBlock) {
                assert!(wound.is_none(), "{target:?}");
            }
            if let Some(wound) = wound {
                wound.heal(&path).unwrap();
            }
        }
    }
}
