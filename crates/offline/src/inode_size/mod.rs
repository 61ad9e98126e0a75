//! Larger inodes, between mounts: larger inode tables in free blocks, then one transaction that
//! refers to them. The old tables are free behind it.
//!
//! The superblock has the size of inodes, the descriptors have the places of tables, and a recovery
//! finds the log by both. So the descriptors go home first, then the superblock. In between the
//! new table has a copy of the journal's inode where one of the old size is: behind the bytes in
//! use of a larger inode. The block without the copy goes home last. A recovery by this engine or
//! e2fsck finds the log in each state on the way. Linux reads the size of inodes before a replay,
//! so its first mount after such a crash fails; the next one does not.
//!
//! Layout: `places` of the new tables, `tables` and their contents.
//! References: `tune2fs(8)`, `-I`; kernel documentation, `filesystems/ext4/inodes.rst`.

mod places;
mod tables;

use super::bitmaps::{groups_of, mark_clusters};
use super::changes::Changes;
use super::descriptors::Descriptors;
use super::grow::write_copies;
use super::space;
use tables::Tables;
use uext4_device::BlockDevice;
use uext4_format::{Feature, Geometry, GroupDescriptor, GroupNr, Superblock, group_flag};
use uext4_num::{clamp_u32, u64_of};
use uext4_sync::Arc;
use uext4_volume::Volume;
use uext4_volume::{Error, OpenOptions, Result};

/// Blocks of a group besides its inode table, at least: superblock, descriptors, bitmaps.
const OTHER_BLOCKS: u32 = 4;

/// Gives the inodes of the file system on `device` so many bytes, a power of two up to a block. The
/// caller is the only user of the device. One that was not unmounted is refused. What is in the
/// inodes stays; a mount uses the room for timestamps with nanoseconds and small extended
/// attributes, with the feature `extra_isize` always.
///
/// # Errors
/// [`Error::Invalid`] for a size that no file system has; [`Error::NotSupported`] for a smaller one
/// than now, and without a journal; [`uext4_volume::ResizeError`]: `Tables` or `OwnTables` if a
/// larger table has no free run, `TableSpace` if there is not enough space for all of them,
/// `Journal` if the log cannot hold descriptors and bitmaps; as [`Volume::claim`]. Nothing has
/// changed then.
pub fn set_inode_size(
    device: Arc<dyn BlockDevice>,
    options: &OpenOptions,
    inode_bytes: u16,
) -> Result<()> {
    let mut volume = Volume::claim(device, options)?;
    let done = wanted_superblock(&volume, inode_bytes).and_then(|disk| match disk {
        Some(disk) => change(&mut volume, disk),
        None => Ok(()),
    });
    let released = volume.release();
    done.and(released)
}

/// The superblock afterwards, without its counts; `None` if nothing changes.
fn wanted_superblock(volume: &Volume, inode_bytes: u16) -> Result<Option<Superblock>> {
    let (now, most) = (volume.geometry().inode_size, volume.geometry().block_size());
    if !inode_bytes.is_power_of_two() || u32::from(inode_bytes) > most || inode_bytes < 128 {
        let problem = "the size of inodes is a power of two, from 128 bytes to one block";
        return Err(Error::Invalid(problem));
    }
    let mut disk = volume.superblock().clone();
    let problem = match inode_bytes.cmp(&now) {
        std::cmp::Ordering::Equal => return Ok(None),
        std::cmp::Ordering::Less => "inodes do not become smaller",
        _ if disk.rev_level == 0 => "file systems of revision 0 have inodes of 128 bytes",
        _ if !disk.features().has(Feature::HAS_JOURNAL) => {
            "without a journal a crash would leave inodes of both sizes; add a journal first"
        }
        _ => {
            disk.inode_size = inode_bytes;
            let room = disk.blocks_per_group.saturating_sub(OTHER_BLOCKS);
            if disk.geometry()?.inode_table_blocks() <= room {
                return Ok(Some(disk));
            }
            "an inode table of that size would fill its group"
        }
    };
    Err(Error::NotSupported(problem))
}

fn change(volume: &mut Volume, mut disk: Superblock) -> Result<()> {
    let (old, new) = (*volume.geometry(), disk.geometry()?);
    let mut descriptors = Descriptors::read(volume)?;
    let all = (0..old.group_count).map(GroupNr);
    let before = all.map(|group| descriptors.get(group));
    let before = before.collect::<Result<Vec<_>>>()?;
    let places = places::find(volume, &before, &new)?;
    let mut tables = Tables::new(volume, new);
    let moved = before.iter().zip(places);
    let after: Vec<_> = moved.map(|(old, place)| tables.moved(old, place)).collect();
    check_log(volume, (&before, &after), &new)?;
    let mut changes = Changes::new(volume);
    let more = mark(
        volume,
        &mut changes,
        &mut descriptors,
        (&before, &after),
        &new,
    )?;
    descriptors.count(&mut disk)?;
    descriptors.put_primary(&mut changes)?;
    // 0 is unknown.
    if disk.overhead_clusters != 0 {
        disk.overhead_clusters = clamp_u32(u64::from(disk.overhead_clusters) + more);
    }
    for (group, (old, new)) in (0..).map(GroupNr).zip(before.iter().zip(&after)) {
        tables.copy(group, old, new.inode_table)?;
    }
    let block = tables.into_block_without_copy();
    let last = block.as_ref().map(|(nr, _)| *nr);
    if let Some((nr, bytes)) = block {
        changes.put(nr, bytes)?;
    }
    let blocks = changes.into_blocks();
    volume.change_before(blocks, disk.clone(), last)?;
    write_copies(volume, &descriptors, &disk, 1..new.group_count)?;
    Ok(volume.device().flush()?)
}

/// Refuses what the log cannot hold: a bitmap for each group where tables come or go, and all
/// descriptors, beside the superblock and one block of a table.
fn check_log(
    volume: &Volume,
    (before, after): (&[GroupDescriptor], &[GroupDescriptor]),
    new: &Geometry,
) -> Result<()> {
    let used = space::of_metadata(volume.geometry(), before);
    let wanted = space::of_metadata(new, after);
    let moved = [
        space::without(&wanted, &used),
        space::without(&used, &wanted),
    ];
    let bitmaps = u64_of(groups_of(volume.geometry(), &moved.concat()).len());
    volume.check_room(bitmaps + u64::from(volume.geometry().descriptor_blocks_count()) + 2)
}

/// Changes descriptors, and bitmaps where tables come and go; returns how many clusters more are
/// metadata.
fn mark(
    volume: &Volume,
    changes: &mut Changes<'_>,
    descriptors: &mut Descriptors,
    (before, after): (&[GroupDescriptor], &[GroupDescriptor]),
    new: &Geometry,
) -> Result<u64> {
    let old = *volume.geometry();
    let used = space::of_metadata(&old, before);
    let wanted = space::of_metadata(new, after);
    let taken = space::without(&wanted, &used);
    let freed = space::without(&used, &wanted);
    for group in groups_of(&old, &[&taken[..], &freed].concat()) {
        // Without a bitmap on the device, it follows from the old descriptor.
        mark_clusters(volume, changes, descriptors, group, &taken, &freed)?;
    }
    for (group, moved) in (0..).map(GroupNr).zip(after) {
        let mut descriptor = descriptors.get(group)?;
        descriptor.inode_table = moved.inode_table;
        // Marking clusters has cleared other flags.
        descriptor.flags &= moved.flags | !group_flag::INODE_ZEROED;
        descriptors.set(group, &descriptor);
    }
    Ok(space::total(&wanted) - space::total(&used))
}
