//! The superblock of a file system of another size, without its free counts.

use uext4_format::{Feature, Geometry, Superblock};
use uext4_mkfs::last_group_has_room;
use uext4_num::{clamp_u16, clamp_u32, clamp_u64};
use uext4_volume::{ResizeError, Result};

/// Bytes of a pointer of the resize inode, which has one block of them.
const POINTER_BYTES: u32 = 4;

/// The numbers that `disk` has with `blocks` blocks. A new last group without space for data is
/// left out.
///
/// # Errors
/// [`ResizeError`] if it cannot have this size.
pub(super) fn of(disk: &Superblock, blocks: u64) -> Result<Superblock> {
    let old = disk.geometry()?;
    check_reserved(&old)?;
    let blocks = blocks >> old.cluster_bits << old.cluster_bits;
    if blocks < old.blocks_count >> old.cluster_bits << old.cluster_bits {
        let now_bytes = old.size_bytes();
        return Err(ResizeError::Smaller { now_bytes }.into());
    }
    check_count(&old, blocks)?;
    let new = with_blocks(disk, &old, blocks.max(old.blocks_count))?;
    let geometry = new.geometry()?;
    if geometry.group_count == old.group_count || last_group_has_room(&geometry) {
        return Ok(new);
    }
    let whole = u64::from(geometry.group_count - 1) * u64::from(old.blocks_per_group);
    let less = (u64::from(old.first_data_block) + whole).max(old.blocks_count);
    with_blocks(disk, &old, less)
}

/// The numbers that `disk` has with fewer blocks; `None` if the descriptors do not fit. A last
/// group without space for data is left out.
///
/// # Errors
/// [`ResizeError`] if it cannot have another size.
pub(super) fn smaller(disk: &Superblock, blocks: u64) -> Result<Option<Superblock>> {
    let old = disk.geometry()?;
    check_reserved(&old)?;
    let least = u64::from(old.first_data_block) + u64::from(old.blocks_per_cluster());
    let blocks = blocks >> old.cluster_bits << old.cluster_bits;
    let new = with_fewer_blocks(disk, &old, blocks.clamp(least, old.blocks_count))?;
    let geometry = new.as_ref().and_then(|new| new.geometry().ok());
    let Some(geometry) = geometry else {
        return Ok(None);
    };
    if geometry.group_count == 1 || last_group_has_room(&geometry) {
        return Ok(new);
    }
    with_fewer_blocks(disk, &old, whole_groups(&old, geometry.group_count - 1))
}

fn with_fewer_blocks(disk: &Superblock, old: &Geometry, blocks: u64) -> Result<Option<Superblock>> {
    let mut new = with_count(disk, old, blocks);
    let groups = new.inodes_count / old.inodes_per_group;
    for backup in &mut new.backup_bgs {
        if *backup >= groups {
            *backup = 0;
        }
    }
    let descriptors = groups.div_ceil(old.descriptors_per_block());
    if old.features.has(Feature::META_BG) {
        // Descriptor blocks before the first one of meta_bg that have no groups become free.
        new.first_meta_bg = new.first_meta_bg.min(descriptors);
        return Ok(Some(new));
    }
    if old.features.has(Feature::RESIZE_INODE) {
        let unused = old.descriptor_blocks_count() - descriptors;
        let left = old.reserved_gdt_blocks + unused;
        new.reserved_gdt_blocks = clamp_u16(left.min(most_reserved(old)));
    }
    Ok(Some(new))
}

/// Blocks of a file system of `groups` whole groups.
pub(super) fn whole_groups(geometry: &Geometry, groups: u32) -> u64 {
    u64::from(geometry.first_data_block) + u64::from(groups) * u64::from(geometry.blocks_per_group)
}

/// The most blocks that the resize inode keeps for descriptors.
pub(super) fn most_reserved(geometry: &Geometry) -> u32 {
    geometry.block_size() / POINTER_BYTES
}

/// Refuses reserved blocks that contradict the features.
pub(super) fn check_reserved(old: &Geometry) -> Result<()> {
    let has_inode = old.features.has(Feature::RESIZE_INODE);
    let contradicts = if has_inode {
        old.features.has(Feature::META_BG)
    } else {
        old.reserved_gdt_blocks > 0
    };
    if contradicts {
        Err(ResizeError::Reserved.into())
    } else {
        Ok(())
    }
}

fn check_count(old: &Geometry, blocks: u64) -> Result<()> {
    let wide = old.features.has(Feature::SIXTY_FOUR_BIT);
    let (bits, limit) = if wide {
        (48, 1 << 48)
    } else {
        (32, u64::from(u32::MAX))
    };
    if blocks > limit {
        let max_bytes = limit << old.block_bits;
        return Err(ResizeError::TooManyBlocks { bits, max_bytes }.into());
    }
    let groups = (blocks - u64::from(old.first_data_block)).div_ceil(old.blocks_per_group.into());
    let groups_max = u32::MAX / old.inodes_per_group;
    if groups > u64::from(groups_max) {
        let max_bytes = whole_groups(old, groups_max) << old.block_bits;
        return Err(ResizeError::TooManyInodes { max_bytes }.into());
    }
    Ok(())
}

fn with_blocks(disk: &Superblock, old: &Geometry, blocks: u64) -> Result<Superblock> {
    let mut new = with_count(disk, old, blocks);
    let groups = new.inodes_count / old.inodes_per_group;
    set_backups(&mut new, old, groups);
    set_descriptor_blocks(&mut new, old, groups);
    Ok(new)
}

/// Blocks, inodes, and the same share of reserved blocks.
fn with_count(disk: &Superblock, old: &Geometry, blocks: u64) -> Superblock {
    let mut new = disk.clone();
    new.blocks_count = blocks;
    let groups = (blocks - u64::from(old.first_data_block)).div_ceil(old.blocks_per_group.into());
    let groups = clamp_u32(groups);
    new.inodes_count = groups * old.inodes_per_group;
    let reserved = u128::from(disk.r_blocks_count) * u128::from(blocks);
    new.r_blocks_count = clamp_u64(reserved / u128::from(old.blocks_count));
    new
}

/// With `sparse_super2` the groups of the backups stay, because any group can have one. A file
/// system of one or two groups gets those that mkfs had no groups for.
fn set_backups(new: &mut Superblock, old: &Geometry, groups: u32) {
    if !old.features.has(Feature::SPARSE_SUPER2) || groups == old.group_count {
        return;
    }
    let [first, second] = &mut new.backup_bgs;
    if old.group_count == 1 && *first == 0 {
        *first = 1;
    }
    if old.group_count <= 2 && *second == 0 && groups > 2 {
        *second = groups - 1;
    }
}

/// New descriptors take reserved blocks. If there are too few, all of these become descriptor
/// blocks, and `meta_bg` places the rest.
fn set_descriptor_blocks(new: &mut Superblock, old: &Geometry, groups: u32) {
    if old.features.has(Feature::META_BG) {
        return;
    }
    let present = old.descriptor_blocks_count();
    let more = groups.div_ceil(old.descriptors_per_block()) - present;
    let reserved = old.reserved_gdt_blocks;
    // Pointers of the resize inode have 32 bits.
    let has_numbers = new.blocks_count <= u64::from(u32::MAX);
    let is_mapped = has_numbers || !old.features.has(Feature::RESIZE_INODE);
    if more <= reserved && is_mapped {
        new.reserved_gdt_blocks = clamp_u16(reserved - more);
        return;
    }
    let mut features = new.features();
    features.insert(Feature::META_BG);
    features.remove(Feature::RESIZE_INODE);
    new.set_features(features);
    new.first_meta_bg = present + reserved;
    new.reserved_gdt_blocks = 0;
}
