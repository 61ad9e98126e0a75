//! Growth of file systems, mounted or not. The judges: e2fsck, the kernel, a manifest.

pub(crate) mod crash;
mod descriptor_size;
mod inode_size;
pub(crate) mod kind;
mod mounted;
mod scattered;
mod shrinking;

use crate::image::on_disk;
use kind::{Image, Kind};
use uext4::device::{BlockDevice, MemDevice};
use uext4::format::{Feature, superblock};
use uext4::mkfs::DeviceContents;
use uext4::resize::{Least, grow, shrink};
use uext4::{Error, ResizeError};
use uext4_testkit::manifest::Policy;
use uext4_testkit::oracle::KernelMount;
use uext4_testkit::rng::Rng;

const MIB: u64 = 1 << 20;
/// Bytes behind the file system that are garbage in runs that say so.
const GARBAGE: u8 = 0xA5;

/// Sizes in blocks to grow to: inside of the last group, into the next one, over a flexible group,
/// over a backup, and far.
fn sizes(image: &Image, rng: &mut Rng) -> Vec<u64> {
    let disk = uext4::read_superblock(&*image.main, None).unwrap();
    let group = u64::from(disk.blocks_per_group);
    let limit = image.main.size_bytes() / u64::from(image.kind.block_size);
    let mut size = disk.blocks_count;
    let mut sizes = Vec::new();
    for most in [100, group, group, 17 * group, 40 * group, limit] {
        size += 1 + rng.below(most);
        if size <= limit {
            sizes.push(size);
        }
    }
    sizes
}

fn grow_to(image: &Image, blocks: u64, contents: DeviceContents) -> uext4::Result<()> {
    let size_bytes = blocks * u64::from(image.kind.block_size);
    let plan = grow(image.main.clone(), image.options(), size_bytes, contents)?;
    assert_eq!(plan.after.blocks_count, image.blocks());
    Ok(())
}

/// One file system, grown several times. The device behind it may be garbage.
fn grow_in_turn(kind: &Kind, seed: u64, contents: DeviceContents) {
    let device_bytes = kind.blocks * u64::from(kind.block_size) * 8;
    let image = kind.make(device_bytes);
    if contents == DeviceContents::Unknown {
        let end = image.blocks() * u64::from(kind.block_size);
        for at in (end..device_bytes).step_by(MIB as usize) {
            let len = MIB.min(device_bytes - at) as usize;
            image.main.write_at(at, &vec![GARBAGE; len]).unwrap();
        }
    }
    let mut rng = Rng::new(seed);
    image.fill("/before", MIB, seed);
    let tree = image.tree();
    for blocks in sizes(&image, &mut rng) {
        let what = format!("{}, seed {seed}, to {blocks} blocks", kind.name);
        let before = image.blocks();
        grow_to(&image, blocks, contents).unwrap_or_else(|error| panic!("{what}: {error}"));
        let group = u64::from(kind.blocks_per_group.unwrap_or(kind.block_size * 8)) * 16;
        assert!(
            image.blocks() >= before && image.blocks() <= blocks,
            "{what}"
        );
        assert!(
            image.blocks() + group > blocks,
            "{what}: {}",
            image.blocks()
        );
        image.assert_clean(&what);
        tree.assert_same(&image.tree(), &Policy::default());
    }
    let bytes = (image.blocks() - kind.blocks) * u64::from(kind.block_size) / 2;
    image.fill("/after", bytes.min(12 * MIB), seed);
    image.assert_clean(kind.name);
    if kind.has_kernel() && KernelMount::available_or_skip("grow_in_turn") {
        let (_dir, path) = on_disk(&image.main);
        let ours = image.tree();
        ours.assert_same(&image.kernel_tree(&path), &Policy::default());
    }
}

fn seeds() -> std::ops::Range<u64> {
    let count = std::env::var("UEXT4_RESIZE_SEEDS").map(|text| text.parse().expect("a number"));
    0..count.unwrap_or(1)
}

#[test]
fn all_kinds_grow() {
    for seed in seeds() {
        for kind in &Kind::ALL {
            grow_in_turn(kind, seed, DeviceContents::Zeroed);
        }
    }
}

/// With descriptors that have checksums, and without, where inode tables must be zeroed.
#[test]
fn kinds_grow_over_old_content() {
    let kinds = [
        "ext4",
        "no-flex",
        "no-checksums",
        "uninit",
        "ext2",
        "bigalloc",
        "meta-bg",
    ];
    for seed in seeds() {
        for kind in kinds.map(Kind::named) {
            grow_in_turn(&kind, seed ^ 0x5EED, DeviceContents::Unknown);
        }
    }
}

#[test]
fn a_shared_device_is_claimed_for_the_growth() {
    let image = Kind::MMP.make(48 * MIB);
    grow_to(&image, 40 << 10, DeviceContents::Zeroed).unwrap();
    assert_eq!(image.blocks(), 40 << 10);
    // e2fsck refuses a file system that is in use by its MMP block.
    let verdict = image.e2fsck();
    assert!(verdict.is_clean(), "{verdict}");
}

#[test]
fn more_groups_than_reserved_descriptors_turn_to_meta_bg() {
    let image = Kind::SHORT_RESERVE.make(256 * MIB);
    let features = |image: &Image| {
        let disk = uext4::read_superblock(&*image.main, None).unwrap();
        (disk.features(), disk.free_blocks_count)
    };
    let (before, _) = features(&image);
    assert!(before.has(Feature::RESIZE_INODE) && !before.has(Feature::META_BG));
    grow_to(&image, 28 << 10, DeviceContents::Zeroed).unwrap();
    let (between, _) = features(&image);
    assert!(between.has(Feature::RESIZE_INODE) && !between.has(Feature::META_BG));
    grow_to(&image, 256 << 10, DeviceContents::Zeroed).unwrap();
    let (after, _) = features(&image);
    assert!(!after.has(Feature::RESIZE_INODE) && after.has(Feature::META_BG));
    image.assert_clean("meta_bg");
}

#[test]
fn a_growth_that_turned_to_meta_bg_can_be_undone() {
    let image = Kind::SHORT_RESERVE.make(256 * MIB);
    let least = shrinking::minimum(&image);
    let tree = image.tree();
    grow_to(&image, 256 << 10, DeviceContents::Zeroed).unwrap();
    let again = shrinking::minimum(&image);
    assert!(again <= least, "{again} after the growth, {least} before");
    let plan = shrink(image.main.clone(), image.options(), Least::Possible).unwrap();
    assert_eq!(plan.after.blocks_count, again);
    image.assert_clean("the minimum");
    tree.assert_same(&image.tree(), &Policy::default());
    grow_to(&image, 256 << 10, DeviceContents::Zeroed).unwrap();
    image.assert_clean("grown again");
    tree.assert_same(&image.tree(), &Policy::default());
}

#[track_caller]
fn refusal(image: &Image, blocks: u64) -> ResizeError {
    let before = image.main.to_bytes();
    let answer = grow_to(image, blocks, DeviceContents::Zeroed);
    assert!(image.main.to_bytes() == before, "a refused growth wrote");
    match answer {
        Err(Error::Resize(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_cannot_be_is_refused_without_a_write() {
    let image = Kind::named("no-checksums").make(24 * MIB);
    let smaller = refusal(&image, image.blocks() - 1);
    assert!(matches!(smaller, ResizeError::Smaller { .. }));
    let wide = refusal(&image, 1 << 32);
    assert!(matches!(wide, ResizeError::TooManyBlocks { .. }));
    let device = refusal(&image, 24 << 11);
    assert!(matches!(device, ResizeError::Device { .. }));
    let inodes = refusal(&Kind::named("small-groups").make(24 * MIB), 1 << 41);
    assert!(matches!(inodes, ResizeError::TooManyInodes { .. }));
    change_superblock(&image.main, |disk| disk.state |= superblock::state::ERROR);
    assert!(matches!(refusal(&image, 20 << 10), ResizeError::Errors));
}

#[test]
fn a_damaged_resize_inode_is_refused_before_it_is_followed() {
    let image = Kind::named("ext4").make(48 * MIB);
    let disk = uext4::read_superblock(&*image.main, None).unwrap();
    let geometry = disk.geometry().unwrap();
    let reserved = geometry
        .reserved_gdt_run(uext4::format::GroupNr(0))
        .unwrap();
    let at = reserved.start.0 << geometry.block_bits;
    image.main.write_at(at, &[1]).unwrap();
    let answer = grow_to(&image, 40 << 10, DeviceContents::Zeroed);
    let Err(Error::Corrupt(corrupt)) = answer else {
        panic!("{answer:?}");
    };
    assert_eq!(corrupt.structure, "resize inode");
    assert_eq!(image.blocks(), 12 << 10);
}

#[test]
fn a_dirty_file_system_is_recovered_first() {
    let image = Kind::named("ext4").make(48 * MIB);
    let fs = image.mount().unwrap();
    fs.paths().write("/durable", "promised").unwrap();
    fs.sync().unwrap();
    fs.abandon();
    grow_to(&image, 40 << 10, DeviceContents::Zeroed).unwrap();
    image.assert_clean("recovered");
    let read = image.mounted(|fs| fs.paths().read("/durable").unwrap());
    assert_eq!(read, b"promised");
}

fn change_superblock(device: &MemDevice, change: impl FnOnce(&mut uext4::format::Superblock)) {
    let mut disk = uext4::read_superblock(device, None).unwrap();
    change(&mut disk);
    device.write_at(1024, &disk.to_bytes()).unwrap();
}
