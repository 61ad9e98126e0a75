//! Growth: the order of its writes.

use super::changes::Changes;
use super::descriptors::Descriptors;
use super::{Plan, plan, resize_inode, target};
use std::ops::Range;
use uext4_device::BlockDevice;
use uext4_format::bitmap::{clear_bits, set_bits, uninit_block_bitmap};
use uext4_format::{
    Checksums, Corrupt, CorruptKind, DamageLocation, Geometry, GroupNr, Superblock,
    block_bitmap_checksum, group_flag,
};
use uext4_mkfs::{AddedGroups, DeviceContents, add_groups};
use uext4_num::{clamp_u32, usize_of};
use uext4_sync::Arc;
use uext4_volume::Volume;
use uext4_volume::superblock::backup;
use uext4_volume::{Error, OpenOptions, ResizeError, Result};

/// Grows the file system on `device`, which no other program may use meanwhile, to `size_bytes`,
/// and returns what was done; nothing, if it has this size. One that was not unmounted is refused.
/// `contents` is what the device holds behind the present end. `options` name an external journal.
///
/// # Errors
/// [`Error::Resize`] with the reason if it cannot have this size; as [`Volume::claim`].
/// After a failed access it has the old size or the new one.
pub fn grow(
    device: Arc<dyn BlockDevice>,
    options: &OpenOptions,
    size_bytes: u64,
    contents: DeviceContents,
) -> Result<Plan> {
    let there_bytes = device.size_bytes();
    let mut volume = Volume::claim(device, options)?;
    let plan = plan(volume.superblock(), size_bytes)?;
    let needed_bytes = plan.after.size_bytes();
    if needed_bytes > there_bytes {
        let problem = ResizeError::Device {
            needed_bytes,
            there_bytes,
        };
        return Err(problem.into());
    }
    let made = if plan.before == plan.after {
        Ok(())
    } else {
        grow_volume(&mut volume, plan.after.blocks_count, contents)
    };
    let released = volume.release();
    made.and(released).map(|()| plan)
}

/// Grows to this many blocks, as [`grow`] does, a file system that is claimed: one between two
/// mounts, or one whose mount has come to rest. A crash leaves the old size or the new one.
///
/// # Errors
/// As [`grow`].
pub fn grow_volume(volume: &mut Volume, blocks: u64, contents: DeviceContents) -> Result<()> {
    let mut wanted = target::of(volume.superblock(), blocks)?;
    let (old, new) = (*volume.geometry(), wanted.geometry()?);
    let checksums = wanted.checksums();
    let first = GroupNr(old.group_count);
    let mut descriptors = Descriptors::read(volume)?;
    let mut changes = Changes::new(volume);
    let more = lengthen_last(&mut changes, &mut descriptors, &checksums, &new)?;
    let freed = resize_inode::update(&mut changes, &mut descriptors, &checksums, &old, &new)?;
    write_lazy_bitmaps(&mut changes, &mut descriptors, &checksums, &new)?;
    let added = add_groups(&**volume.device(), new, first, checksums, contents).map_err(failed)?;
    descriptors.extend(&new);
    for (at, descriptor) in added.descriptors.iter().enumerate() {
        descriptors.set(GroupNr(first.0 + clamp_u32(at)), descriptor);
    }
    count(&mut wanted, &new, &added, more + freed);
    descriptors.put_primary(&mut changes)?;
    write_copies(volume, &descriptors, &wanted, first.0..new.group_count)?;
    let blocks = changes.into_blocks();
    // Linux reads the descriptors of all groups of the superblock before it replays the log.
    volume.change_before(blocks, wanted.clone(), None)?;
    write_copies(volume, &descriptors, &wanted, 1..first.0)?;
    Ok(volume.device().flush()?)
}

/// Gives the last old group the blocks that it has in `new`; returns how many clusters.
fn lengthen_last(
    changes: &mut Changes<'_>,
    descriptors: &mut Descriptors,
    checksums: &Checksums,
    new: &Geometry,
) -> Result<u32> {
    let old = descriptors.geometry();
    let last = GroupNr(old.group_count - 1);
    let (from, to) = (old.clusters_in_group(last), new.clusters_in_group(last));
    if from == to {
        return Ok(0);
    }
    let mut descriptor = descriptors.get(last)?;
    if !descriptor.has_flag(group_flag::BLOCK_UNINIT) {
        let mut bitmap = changes.get(descriptor.block_bitmap)?;
        descriptor.verify_block_bitmap(&bitmap, last, &old, checksums)?;
        check_padding(&bitmap, from..to, last)?;
        clear_bits(&mut bitmap, from, to);
        if let Some(seed) = checksums.metadata {
            let checksum = block_bitmap_checksum(seed, &bitmap, new);
            descriptor.set_block_bitmap_checksum(checksum, new);
        }
        changes.put(descriptor.block_bitmap, bitmap)?;
    }
    descriptor.free_clusters += to - from;
    descriptors.set(last, &descriptor);
    Ok(to - from)
}

/// Writes the bitmaps that the flag BLOCK_UNINIT leaves to the reader, in old groups with copies of
/// superblock and descriptors. A mount of Linux after a crash computes them from the old number of
/// descriptor blocks and the new one of reserved blocks: it reads the one before the replay, and
/// the other behind it, and takes the difference for free space.
pub(super) fn write_lazy_bitmaps(
    changes: &mut Changes<'_>,
    descriptors: &mut Descriptors,
    checksums: &Checksums,
    new: &Geometry,
) -> Result<()> {
    let old = descriptors.geometry();
    for group in (0..old.group_count).map(GroupNr) {
        let mut descriptor = descriptors.get(group)?;
        if !old.has_super(group) || !descriptor.has_flag(group_flag::BLOCK_UNINIT) {
            continue;
        }
        let bitmap = uninit_block_bitmap(new, group, &descriptor);
        if let Some(seed) = checksums.metadata {
            let checksum = block_bitmap_checksum(seed, &bitmap, new);
            descriptor.set_block_bitmap_checksum(checksum, new);
        }
        descriptor.flags &= !group_flag::BLOCK_UNINIT;
        changes.put(descriptor.block_bitmap, bitmap)?;
        descriptors.set(group, &descriptor);
    }
    Ok(())
}

/// Refuses a bitmap whose bits behind the end are not all set: without checksums nothing else tells
/// it from any other block.
fn check_padding(bitmap: &[u8], clusters: Range<u32>, group: GroupNr) -> Result<()> {
    let mut set = bitmap.to_vec();
    set_bits(&mut set, clusters.start, clusters.end);
    if set == bitmap {
        Ok(())
    } else {
        let problem = CorruptKind::BitsClear;
        Err(Corrupt::new(DamageLocation::Group(group), "block bitmap", problem).into())
    }
}

/// Sets the counts of free and used space; `free` clusters of old groups became free.
fn count(disk: &mut Superblock, new: &Geometry, added: &AddedGroups, free: u32) {
    let clusters = added
        .descriptors
        .iter()
        .map(|group| u64::from(group.free_clusters));
    let clusters = clusters.sum::<u64>() + u64::from(free);
    disk.free_blocks_count += clusters << new.cluster_bits;
    disk.free_inodes_count += clamp_u32(added.descriptors.len()) * new.inodes_per_group;
    if disk.overhead_clusters != 0 {
        let overhead = u64::from(disk.overhead_clusters) + added.used_clusters;
        disk.overhead_clusters = u32::try_from(overhead).unwrap_or(0);
    }
}

/// Writes what these groups hold as backups: descriptors, then the superblock.
pub(crate) fn write_copies(
    volume: &Volume,
    descriptors: &Descriptors,
    disk: &Superblock,
    groups: Range<u32>,
) -> Result<()> {
    let geometry = descriptors.geometry();
    for group in groups.map(GroupNr) {
        descriptors.write_copies(volume, group)?;
        if let Some(nr) = geometry.superblock_block(group) {
            let mut bytes = vec![0; usize_of(geometry.block_size())];
            let copy = backup(disk, group);
            bytes[..copy.len()].copy_from_slice(&copy);
            volume.write(nr, &bytes)?;
        }
    }
    Ok(())
}

fn failed(error: uext4_mkfs::Error) -> Error {
    match error {
        uext4_mkfs::Error::Device(error) => error.into(),
        uext4_mkfs::Error::Contradiction(corrupt) => corrupt.into(),
        _ => ResizeError::TooTight.into(),
    }
}
