//! Group descriptors of another size: the feature `64bit` on or off, between mounts.
//!
//! Wide descriptors take blocks from the reserve behind the table; narrow ones give blocks to it,
//! or free them without a resize inode. Checksums of bitmaps get the width of the new fields.
//!
//! One transaction of the log has all of it. The first half of a wide descriptor is a narrow one,
//! and that of group 0 starts the table in both sizes. So while its blocks are on their way home,
//! the superblock says that there is neither `64bit` nor checksums: a recovery by this engine or
//! e2fsck then finds the log by that descriptor. The backups have the new size before, because
//! e2fsck opens one of them then. Linux goes on with the size that it has read before a replay,
//! so the superblock keeps it out until one of the two has replayed the log.
//!
//! References: `resize2fs(8)`, `-b` and `-s`; kernel documentation,
//! `filesystems/ext4/group_descr.rst`.

use super::bitmaps::{groups_of, mark_clusters};
use super::changes::Changes;
use super::descriptors::Descriptors;
use super::grow::{write_copies, write_lazy_bitmaps};
use super::reserved_descriptors::count_overhead;
use super::{resize_inode, space, target};
use uext4_device::BlockDevice;
use uext4_format::{
    Checksums, Feature, Geometry, GroupDescriptor, GroupNr, Superblock, block_bitmap_checksum,
    group_flag, inode_bitmap_checksum,
};
use uext4_mkfs::journal_of_backup;
use uext4_num::clamp_u16;
use uext4_sync::Arc;
use uext4_volume::Volume;
use uext4_volume::superblock::without_checksums;
use uext4_volume::{Error, OpenOptions, ResizeError, Result};

/// Bytes of a wide descriptor.
const WIDE_BYTES: u16 = 64;

/// Size of the group descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DescriptorSize {
    /// 32 bytes: block numbers of 32 bits.
    Narrow,
    /// 64 bytes, the feature `64bit`: block numbers of 48 bits.
    Wide,
}

/// Gives the descriptors of the file system on `device` this size. The caller is the only user of
/// the device. One that was not unmounted is refused.
///
/// # Errors
/// [`Error::NotSupported`] with the reason, without a journal too;
/// [`ResizeError::ReservedDescriptors`] if too few blocks are reserved for wide ones;
/// [`ResizeError::Journal`] if the log cannot hold all changed blocks; as [`Volume::claim`].
/// Nothing has changed then.
pub fn set_descriptor_size(
    device: Arc<dyn BlockDevice>,
    options: &OpenOptions,
    wanted: DescriptorSize,
) -> Result<()> {
    let mut volume = Volume::claim(device, options)?;
    let is_wide = volume.geometry.features.has(Feature::SIXTY_FOUR_BIT);
    let done = if is_wide == (wanted == DescriptorSize::Wide) {
        Ok(())
    } else {
        wanted_superblock(&volume, wanted).and_then(|disk| change(&mut volume, disk))
    };
    let released = volume.release();
    done.and(released)
}

/// The superblock afterwards, without its counts.
fn wanted_superblock(volume: &Volume, wanted: DescriptorSize) -> Result<Superblock> {
    let old = &volume.geometry;
    target::check_reserved(old)?;
    let is_narrow = wanted == DescriptorSize::Narrow;
    let problem = if !old.features.has(Feature::HAS_JOURNAL) {
        "without a journal a crash would leave descriptors of both sizes; add a journal first"
    } else if volume.superblock.journal_inum == 0 {
        "with an external journal Linux would replay a crash by descriptors of the other size; \
         use an internal one meanwhile"
    } else if volume.superblock.journal_inum > old.inodes_per_group {
        "the inode of the journal is not in the first group; run e2fsck -f first"
    } else if journal_of_backup(&volume.superblock, old).is_none() {
        "the superblock has no copy of the journal's inode; run e2fsck -f first"
    } else if old.features.has(Feature::MMP) {
        "the block of MMP is in use while there are no checksums; turn mmp off first"
    } else if old.features.has(Feature::META_BG) {
        "with meta_bg, descriptors of another size would have to be in other groups"
    } else if is_narrow && old.blocks_count > u64::from(u32::MAX) {
        "64bit off: the file system has more than 4294967295 blocks"
    } else if !is_narrow && !old.features.has(Feature::EXTENTS) {
        "64bit needs the feature extent"
    } else {
        return with_size(volume, wanted);
    };
    Err(Error::NotSupported(problem))
}

fn with_size(volume: &Volume, wanted: DescriptorSize) -> Result<Superblock> {
    let old = &volume.geometry;
    let mut disk = volume.superblock.clone();
    let mut features = disk.features();
    match wanted {
        DescriptorSize::Narrow => features.remove(Feature::SIXTY_FOUR_BIT),
        DescriptorSize::Wide => features.insert(Feature::SIXTY_FOUR_BIT),
    }
    disk.set_features(features);
    disk.desc_size = match wanted {
        DescriptorSize::Narrow => 0,
        DescriptorSize::Wide => WIDE_BYTES,
    };
    let (before, after) = (
        old.descriptor_blocks_count(),
        disk.geometry()?.descriptor_blocks_count(),
    );
    let (more, reserved) = (after.saturating_sub(before), old.reserved_gdt_blocks);
    if more > reserved {
        return Err(ResizeError::ReservedDescriptors { more, reserved }.into());
    }
    if old.features.has(Feature::RESIZE_INODE) {
        let most = target::most_reserved(old);
        let left = reserved + before - after;
        disk.reserved_gdt_blocks = clamp_u16(left.min(most));
    }
    Ok(disk)
}

fn change(volume: &mut Volume, mut disk: Superblock) -> Result<()> {
    let (old, new) = (volume.geometry, disk.geometry()?);
    let checksums = volume.superblock.checksums();
    let mut descriptors = Descriptors::read(volume)?;
    let mut changes = Changes::new(volume);
    let freed = freed_clusters(&descriptors, &old, &new)?;
    for group in groups_of(&old, &freed) {
        mark_clusters(volume, &mut changes, &mut descriptors, group, &[], &freed)?;
    }
    write_lazy_bitmaps(&mut changes, &mut descriptors, &checksums, &old)?;
    let mut resized = descriptors.emptied(&new);
    for group in (0..new.group_count).map(GroupNr) {
        let mut descriptor = descriptors.get(group)?;
        fit_checksums(&changes, group, &mut descriptor, (&old, &new), &checksums)?;
        resized.set(group, &descriptor);
    }
    resize_inode::update(&mut changes, &mut resized, &checksums, &old, &new)?;
    resized.count(&mut disk)?;
    resized.put_primary(&mut changes)?;
    count_overhead(&mut disk, space::total(&freed));
    volume.check_room(changes.len() + 1)?;
    write_copies(volume, &resized, &disk, 1..new.group_count)?;
    let narrower = if new.desc_size < old.desc_size {
        &disk
    } else {
        &volume.superblock
    };
    let bridge = without_checksums(narrower);
    let blocks = changes.into_blocks();
    volume.change_unseen_by_linux(blocks, disk, &bridge)
}

/// The clusters that are metadata in `old` and not in `new`.
fn freed_clusters(
    descriptors: &Descriptors,
    old: &Geometry,
    new: &Geometry,
) -> Result<Vec<std::ops::Range<u64>>> {
    let all = (0..old.group_count).map(GroupNr);
    let groups = all.map(|group| descriptors.get(group));
    let groups = groups.collect::<Result<Vec<_>>>()?;
    let used = space::of_metadata(old, &groups);
    Ok(space::without(&used, &space::of_metadata(new, &groups)))
}

/// Gives the checksums of the bitmaps of a group the width that they have in `new`. Those that no
/// program reads while a flag stands for the bitmap stay.
fn fit_checksums(
    changes: &Changes<'_>,
    group: GroupNr,
    descriptor: &mut GroupDescriptor,
    (old, new): (&Geometry, &Geometry),
    checksums: &Checksums,
) -> Result<()> {
    let Some(seed) = checksums.metadata else {
        return Ok(());
    };
    if !descriptor.has_flag(group_flag::BLOCK_UNINIT) {
        let bitmap = changes.get(descriptor.block_bitmap)?;
        descriptor.verify_block_bitmap(&bitmap, group, old, checksums)?;
        descriptor.set_block_bitmap_checksum(block_bitmap_checksum(seed, &bitmap, new), new);
    }
    if !descriptor.has_flag(group_flag::INODE_UNINIT) {
        let bitmap = changes.get(descriptor.inode_bitmap)?;
        descriptor.verify_inode_bitmap(&bitmap, group, old, checksums)?;
        descriptor.set_inode_bitmap_checksum(inode_bitmap_checksum(seed, &bitmap, new), new);
    }
    Ok(())
}
