//! Limits of a file without the feature `huge_file`: its size, and its block count of 32 bits.

use super::*;
use crate::parts::map;
use crate::types::credits;
use std::ops::ControlFlow;
use uext4_format::LogicalBlock;
use uext4_testkit::oracle::KernelMount;

const BLOCK: u64 = 4096;
const TIB: u64 = 1 << 40;
/// Largest size of a file whose block count has 32 bits, as the kernel's.
const SIZE_END: u64 = (u32::MAX as u64 / 8) * BLOCK;

/// Features of the file systems, with the kinds of map that have a block count of 32 bits.
const KINDS: [&[&str]; 3] = [
    &["-b", "4096", "-O", "^huge_file"],
    &["-b", "4096", "-O", "^huge_file,bigalloc", "-C", "16384"],
    &["-b", "4096", "-O", "^huge_file,^extent,^64bit"],
];

/// Every way to allocate blocks at `at`.
const WAYS: [fn(&Rig, u64) -> Result<()>; 4] = [
    |rig, at| write(rig.fs(), rig.file.arc(), at, &[7; 8 << 10]).map(|_| ()),
    |rig, at| allocate(rig, FallocateMode::Allocate, at),
    |rig, at| allocate(rig, FallocateMode::AllocateKeepSize, at),
    |rig, at| allocate(rig, FallocateMode::WriteZeroes, at),
];

fn allocate(rig: &Rig, mode: FallocateMode, at: u64) -> Result<()> {
    fallocate(rig.fs(), rig.file.arc(), mode, at, 8 << 10)
}

/// All that the file maps.
fn mapped(rig: &Rig) -> Vec<map::Mapped> {
    let mut all = Vec::new();
    map::for_each(rig.fs(), &rig.file.read(), 0..map::LOGICAL_END, |mapped| {
        all.push(mapped);
        ControlFlow::Continue(())
    })
    .expect("a map");
    all
}

/// Sets the file's block count, in sectors, without a change of its map.
fn count(rig: &Rig, change: impl FnOnce(u64) -> u64) {
    let fs = rig.fs();
    let handle = fs.start(credits::ATTRIBUTES).expect("a handle");
    let mut state = handle.write(rig.file.arc());
    let sectors = change(state.disk.sectors(&fs.base.geometry));
    let set = state.disk.set_sectors(sectors, &fs.base.geometry);
    set.expect("the count fits");
}

#[test]
fn a_full_block_count_leaves_the_map_unchanged() {
    for made_with in KINDS {
        let rig = Rig::new(16, made_with);
        write(rig.fs(), rig.file.arc(), 0, &[5; 40 << 10]).expect("writes");
        let (before, free) = (mapped(&rig), rig.fs().space.free_on_disk().0);
        // Less than a block of sectors is left.
        let real = rig.file.read().disk.sectors(&rig.fs().base.geometry);
        count(&rig, |_| u64::from(u32::MAX) - 4);
        for (nr, way) in WAYS.iter().enumerate() {
            // In the inode, and where tables would be needed.
            for at in [16 * 4 * BLOCK, 600 * BLOCK] {
                let refused = way(&rig, at);
                let expected = matches!(refused, Err(Error::TooLarge | Error::NotSupported(_)));
                assert!(expected, "{made_with:?}, way {nr}: {refused:?}");
                assert_eq!(mapped(&rig), before, "{made_with:?}, way {nr}");
            }
        }
        rig.fs().base.journal.commit_running().expect("commits");
        assert_eq!(rig.fs().space.free_on_disk().0, free, "{made_with:?}");
        count(&rig, |_| real);
        rig.assert_clean();
    }
}

/// The insertion fails after a tree block was charged: what it mapped is unmapped and discharged.
#[test]
fn a_count_that_a_tree_block_exceeds_is_as_before() {
    let rig = Rig::new(16, &["-b", "4096", "-O", "^huge_file"]);
    let (fs, file) = (rig.fs(), rig.file.arc());
    for block in [0, 2, 4, 6] {
        write(fs, file, block * BLOCK, &[5; 4096]).expect("writes");
    }
    let before = mapped(&rig);
    let real = file.read().disk.sectors(&fs.base.geometry);
    count(&rig, |_| u64::from(u32::MAX) - 12);
    let refused = write(fs, file, 8 * BLOCK, &[6; 4096]);
    assert!(matches!(refused, Err(Error::TooLarge)), "{refused:?}");
    let sectors = file.read().disk.sectors(&fs.base.geometry);
    assert_eq!(sectors, u64::from(u32::MAX) - 12);
    assert_eq!(mapped(&rig), before);
    count(&rig, |_| real);
    rig.assert_clean();
}

#[test]
fn no_way_exceeds_the_size_of_two_tebibytes() {
    let rig = Rig::new(16, &["-b", "4096", "-O", "^huge_file"]);
    let (fs, file) = (rig.fs(), rig.file.arc());
    let too_large = |got: Result<()>| assert!(matches!(got, Err(Error::TooLarge)), "{got:?}");
    too_large(truncate(fs, file, 3 * TIB));
    too_large(truncate(fs, file, SIZE_END + 1));
    for way in WAYS {
        too_large(way(&rig, SIZE_END));
    }
    truncate(fs, file, SIZE_END).expect("the largest size");
    assert_eq!(
        write(fs, file, SIZE_END - 3, b"abcdef").expect("a short write"),
        3
    );
    too_large(fallocate(fs, file, FallocateMode::InsertRange, 0, BLOCK));
    rig.assert_clean();
}

#[test]
fn the_kernel_has_the_same_largest_size() {
    if !KernelMount::available_or_skip("largest size") {
        return;
    }
    let rig = Rig::new(16, KINDS[0]).with_kernel(|file| {
        let file = std::fs::File::options().write(true).open(file);
        let file = file.expect("opens");
        file.set_len(SIZE_END).expect("the largest size");
        let refused = file.set_len(SIZE_END + 1).expect_err("too large");
        assert_eq!(refused.kind(), std::io::ErrorKind::FileTooLarge);
    });
    assert_eq!(rig.file.read().disk.size, SIZE_END);
    rig.assert_clean();
}

/// A file of another limit keeps its blocks behind the size; a hole frees them.
#[test]
fn a_hole_reaches_blocks_behind_the_largest_size() {
    let rig = Rig::new(16, &["-b", "4096", "-O", "^huge_file"]);
    let (fs, file) = (rig.fs(), rig.file.arc());
    let at = LogicalBlock(1 << 30);
    {
        let handle = fs.start(credits::MAP).expect("a handle");
        let mut state = handle.write(file);
        map::insert_block(fs, &handle, &mut state, at).expect("a block");
        state.disk.size = (u64::from(at.0) + 1) * BLOCK;
    }
    fallocate(fs, file, FallocateMode::PunchHole, 0, u64::MAX / 2).expect("a hole");
    assert!(mapped(&rig).is_empty());
    truncate(fs, file, 0).expect("truncates");
    rig.assert_clean();
}
