//! The end of the feature `resize_inode`: blocks reserved for descriptors become free space.
//!
//! One transaction has the inode, the bitmaps of groups with reserved blocks, descriptors and the
//! superblock. Growth needs `meta_bg` afterwards.

use super::bitmaps::{groups_of, mark_clusters};
use super::changes::Changes;
use super::descriptors::Descriptors;
use super::grow::write_copies;
use super::{resize_inode, space};
use uext4_device::BlockDevice;
use uext4_format::{Feature, GroupDescriptor, GroupNr, Superblock};
use uext4_num::clamp_u32;
use uext4_sync::Arc;
use uext4_volume::Volume;
use uext4_volume::{OpenOptions, Result};

/// Turns the feature `resize_inode` off. The caller is the only user of the device. One that was
/// not unmounted is refused.
///
/// # Errors
/// [`uext4_volume::ResizeError::Journal`] if the log cannot hold all changed blocks; damage of the
/// inode; as [`Volume::claim`]. Nothing has changed then.
pub fn free_reserved_descriptors(
    device: Arc<dyn BlockDevice>,
    options: &OpenOptions,
) -> Result<()> {
    let mut volume = Volume::claim(device, options)?;
    let done = if volume.geometry().features.has(Feature::RESIZE_INODE) {
        change(&mut volume)
    } else {
        Ok(())
    };
    let released = volume.release();
    done.and(released)
}

fn change(volume: &mut Volume) -> Result<()> {
    let mut disk = volume.superblock().clone();
    let mut features = disk.features();
    features.remove(Feature::RESIZE_INODE);
    disk.set_features(features);
    disk.reserved_gdt_blocks = 0;
    let (old, new) = (*volume.geometry(), disk.geometry()?);
    let mut descriptors = Descriptors::read(volume)?;
    let all = (0..old.group_count).map(GroupNr);
    let groups = all.map(|group| descriptors.get(group));
    let groups = groups.collect::<Result<Vec<GroupDescriptor>>>()?;
    let used = space::of_metadata(&old, &groups);
    let freed = space::without(&used, &space::of_metadata(&new, &groups));
    let mut changes = Changes::new(volume);
    let checksums = volume.superblock().checksums();
    for group in groups_of(&old, &freed) {
        mark_clusters(volume, &mut changes, &mut descriptors, group, &[], &freed)?;
    }
    resize_inode::update(&mut changes, &mut descriptors, &checksums, &old, &new)?;
    descriptors.count(&mut disk)?;
    descriptors.put_primary(&mut changes)?;
    count_overhead(&mut disk, space::total(&freed));
    volume.check_room(changes.len() + 1)?;
    let blocks = changes.into_blocks();
    volume.change(blocks, disk.clone())?;
    write_copies(volume, &descriptors, &disk, 1..new.group_count)?;
    Ok(volume.device().flush()?)
}

/// Counts clusters that are metadata no more; 0 is unknown.
pub(super) fn count_overhead(disk: &mut Superblock, freed_clusters: u64) {
    let now = u64::from(disk.overhead_clusters);
    disk.overhead_clusters = clamp_u32(now.saturating_sub(freed_clusters));
}
