//! Sizing: computes the superblock from options and device size.
//!
//! The choices are mke2fs's, so that equal options give equal numbers.

use uext4_format::superblock::{default_mount_option, flag, state};
use uext4_format::{Feature, Features, Geometry, GroupNr, InodeNr, Seed, Superblock};
use uext4_num::{clamp_u8, clamp_u16, clamp_u32};

use crate::Error;
use crate::features::{resolve, without_journal};
use crate::journal_size::{LogLength, log_length};
use crate::options::{InodeCount, MkfsOptions, Placement, Usage};

/// Most bits of a group's bitmap: counts in small descriptors have 16 bits.
const BITMAP_BITS_MAX: u32 = (1 << 16) - 8;
/// Fewest data blocks of a last group; a smaller one is dropped.
const LAST_GROUP_DATA_BLOCKS_MIN: u64 = 50;
/// Largest share of reserved blocks.
const RESERVED_PERMYRIAD_MAX: u32 = 5000;
/// First inode that is not reserved, used for lost+found.
pub(super) const FIRST_INO: u32 = InodeNr::FIRST_ORDINARY.0;

/// Sizes that the options determine.
struct Wishes {
    features: Features,
    block_size: u32,
    cluster_bits: u32,
    inode_size: u16,
    blocks_count: u64,
    inodes_count: u64,
}

/// Computes the superblock for the options, with nothing allocated, and the length of the log: 0
/// for none or an external one.
pub(super) fn plan(
    options: &MkfsOptions,
    device_bytes: u64,
) -> Result<(Superblock, LogLength), Error> {
    if options.reserved_permyriad > RESERVED_PERMYRIAD_MAX {
        return Err(Error::OutOfRange(
            "at most half of the blocks can be reserved",
        ));
    }
    options.check_placement()?;
    if !options.groups_per_flex.is_power_of_two() {
        return Err(Error::OutOfRange(
            "the groups of a flexible group are a power of two",
        ));
    }
    let mut wishes = wishes(options, device_bytes)?;
    let log = log_length(
        options,
        wishes.features,
        wishes.block_size,
        wishes.blocks_count,
    )?;
    if log.blocks == 0 && options.external_journal.is_none() {
        wishes.features = without_journal(wishes.features);
    }
    let mut superblock = blank(options, &wishes);
    while !fit(&mut superblock, options, &wishes)? {}
    superblock.free_inodes_count = superblock.inodes_count;
    superblock.r_blocks_count =
        superblock.blocks_count * u64::from(options.reserved_permyriad) / 10_000;
    Ok((superblock, log))
}

fn wishes(options: &MkfsOptions, device_bytes: u64) -> Result<Wishes, Error> {
    let unit = u64::from(options.block_size.unwrap_or(1024));
    let given = options.blocks_count.unwrap_or(0).saturating_mul(unit);
    let size_bytes = if given != 0 { given } else { device_bytes };
    let usage = options.usage.unwrap_or_else(|| Usage::of_size(size_bytes));
    let block_size = options.block_size.unwrap_or_else(|| usage.block_size());
    if !block_size.is_power_of_two() || !(1024..=65536).contains(&block_size) {
        return Err(Error::OutOfRange(
            "a block size is a power of two from 1024 to 65536",
        ));
    }
    let mut features = resolve(options.features)?;
    let device_blocks = device_bytes / u64::from(block_size);
    // Whole pages of 4 KiB, unless the caller sets the number of blocks.
    let page_blocks = u64::from(4096 / block_size).max(1);
    let blocks_count = options
        .blocks_count
        .unwrap_or(device_blocks / page_blocks * page_blocks);
    if blocks_count > device_blocks {
        return Err(Error::TooSmall);
    }
    let size = blocks_count.saturating_mul(u64::from(block_size));
    if blocks_count > u64::from(u32::MAX) {
        features.remove(Feature::RESIZE_INODE);
        if !features.has(Feature::SIXTY_FOUR_BIT) {
            return Err(Error::OutOfRange(
                "more than 4294967295 blocks need the feature 64bit",
            ));
        }
    }
    let cluster_bits = cluster_bits(options, features, block_size)?;
    Ok(Wishes {
        cluster_bits,
        inode_size: inode_size(options, block_size)?,
        inodes_count: inodes_count(options, usage, block_size << cluster_bits, size)?,
        features,
        block_size,
        blocks_count: blocks_count >> cluster_bits << cluster_bits,
    })
}

fn cluster_bits(options: &MkfsOptions, features: Features, block_size: u32) -> Result<u32, Error> {
    if !features.has(Feature::BIGALLOC) {
        return Ok(0);
    }
    let cluster_size = options
        .cluster_size
        .unwrap_or(block_size.saturating_mul(16));
    let valid = cluster_size.is_power_of_two()
        && (block_size..=1 << 29).contains(&cluster_size)
        && cluster_size / block_size <= 1 << 14;
    if !valid {
        return Err(Error::OutOfRange(
            "a cluster size is a power of two, from one block to 16384 blocks and 512 MiB",
        ));
    }
    Ok((cluster_size / block_size).ilog2())
}

fn inode_size(options: &MkfsOptions, block_size: u32) -> Result<u16, Error> {
    let size = options.inode_size.unwrap_or(256);
    if !size.is_power_of_two() || size < 128 || u32::from(size) > block_size {
        return Err(Error::OutOfRange(
            "an inode size is a power of two from 128 to the block size",
        ));
    }
    let large = [Feature::INLINE_DATA, Feature::PROJECT];
    if size < 256
        && large
            .into_iter()
            .any(|feature| options.features.has(feature))
    {
        return Err(Error::OutOfRange(
            "the features inline_data and project need inodes of 256 bytes",
        ));
    }
    Ok(size)
}

/// The inodes that mke2fs gives to `part_bytes` of a file system of `size_bytes`, if the options
/// leave the number to the usage type; else 0.
pub fn usual_inodes(options: &MkfsOptions, size_bytes: u64, part_bytes: u64) -> u64 {
    let usage = options.usage.unwrap_or_else(|| Usage::of_size(size_bytes));
    match options.inodes {
        InodeCount::Usage => part_bytes / usage.bytes_per_inode(),
        InodeCount::AtLeast(_) | InodeCount::BytesPerInode(_) => 0,
    }
}

fn inodes_count(
    options: &MkfsOptions,
    usage: Usage,
    cluster_size: u32,
    size_bytes: u64,
) -> Result<u64, Error> {
    let bytes_per_inode = match options.inodes {
        InodeCount::AtLeast(count) => return Ok(u64::from(count)),
        InodeCount::BytesPerInode(bytes) if bytes < 1024 => {
            return Err(Error::OutOfRange("there are at least 1024 bytes per inode"));
        }
        InodeCount::BytesPerInode(bytes) => bytes,
        // No file with data is smaller than a cluster.
        InodeCount::Usage => usage.bytes_per_inode().max(u64::from(cluster_size)),
    };
    Ok((size_bytes / bytes_per_inode).min(u64::from(u32::MAX)))
}

/// Fields that do not depend on the number of groups.
fn blank(options: &MkfsOptions, wishes: &Wishes) -> Superblock {
    let mut superblock = Superblock::blank();
    superblock.rev_level = 1;
    superblock.set_features(wishes.features);
    superblock.log_block_size = wishes.block_size.ilog2() - 10;
    superblock.log_cluster_size = superblock.log_block_size + wishes.cluster_bits;
    superblock.first_data_block = u32::from(superblock.log_cluster_size == 0);
    superblock.state = state::VALID;
    superblock.errors = 1;
    superblock.max_mnt_count = u16::MAX;
    superblock.first_ino = FIRST_INO;
    superblock.inode_size = wishes.inode_size;
    if wishes.inode_size > 128 {
        superblock.min_extra_isize = uext4_format::KNOWN_EXTRA_BYTES;
        superblock.want_extra_isize = uext4_format::KNOWN_EXTRA_BYTES;
    }
    superblock.def_hash_version = 1;
    superblock.flags = flag::SIGNED_HASH;
    superblock.default_mount_opts = default_mount_option::XATTR_USER | default_mount_option::ACL;
    superblock.raid_stride = options.raid_stride;
    superblock.raid_stripe_width = options.raid_stripe_width;
    fill_feature_fields(&mut superblock, options, wishes.features);
    superblock
}

fn fill_feature_fields(superblock: &mut Superblock, options: &MkfsOptions, features: Features) {
    if features.has(Feature::SIXTY_FOUR_BIT) {
        superblock.desc_size = 64;
    }
    if features.has(Feature::FLEX_BG) {
        superblock.log_groups_per_flex = clamp_u8(options.groups_per_flex.ilog2());
    }
    if features.has(Feature::METADATA_CSUM) {
        superblock.checksum_type = 1;
    }
    if features.has(Feature::ENCRYPT) {
        // AES-256-XTS and AES-256-CTS.
        superblock.encrypt_algos = [1, 4, 0, 0];
    }
    if features.has(Feature::CASEFOLD) {
        // UTF-8 with the tables of Unicode 12.1.
        superblock.encoding = 1;
    }
}

/// Sets names and times; the seeds follow from the UUID.
pub(super) fn identify(
    superblock: &mut Superblock,
    options: &MkfsOptions,
    uuid: [u8; 16],
    hash_seed: [u8; 16],
    time: u64,
) -> Result<(), Error> {
    let name = superblock.volume_name.get_mut(..options.label.len());
    name.ok_or(Error::OutOfRange("a label has up to 16 bytes"))?
        .copy_from_slice(&options.label);
    superblock.uuid = uuid;
    superblock.set_hash_seed(&hash_seed);
    superblock.mkfs_time = time;
    superblock.lastcheck = time;
    superblock.wtime = time;
    if superblock.features().has(Feature::CSUM_SEED) {
        superblock.checksum_seed = Seed::from_uuid(&uuid).value();
    }
    Ok(())
}

/// Computes groups, inodes and descriptors. `false`: a number was lowered, retry.
fn fit(superblock: &mut Superblock, options: &MkfsOptions, wishes: &Wishes) -> Result<bool, Error> {
    if superblock.blocks_per_group == 0 {
        superblock.blocks_count = wishes.blocks_count;
        set_group_size(superblock, options, wishes)?;
    }
    let data_blocks = superblock
        .blocks_count
        .saturating_sub(u64::from(superblock.first_data_block));
    let groups = data_blocks.div_ceil(u64::from(superblock.blocks_per_group));
    let groups = u32::try_from(groups).map_err(|_| {
        Error::OutOfRange("there are at most 4294967295 groups; larger blocks make fewer")
    })?;
    if groups == 0 {
        return Err(Error::TooSmall);
    }
    if !set_inodes(superblock, wishes, groups)? {
        return Ok(false);
    }
    if superblock.features().has(Feature::SPARSE_SUPER2) {
        // Packed, the places of copies do not depend on the size: none is in the last group.
        superblock.backup_bgs = match groups {
            1 => [0, 0],
            3.. if options.placement == Placement::Spread => [1, groups - 1],
            _ => [1, 0],
        };
    }
    set_reserved_gdt(superblock, options, groups, wishes);
    match options.placement {
        Placement::Spread => last_group_fits(superblock, groups),
        Placement::Packed => last_group_holds_copies(superblock, groups),
    }
}

fn set_group_size(
    superblock: &mut Superblock,
    options: &MkfsOptions,
    wishes: &Wishes,
) -> Result<(), Error> {
    let max = (wishes.block_size * 8).min(BITMAP_BITS_MAX);
    let clusters = match options.blocks_per_group {
        None => max,
        Some(blocks) => blocks >> wishes.cluster_bits,
    };
    if clusters < 256 || clusters > max || clusters % 8 != 0 {
        return Err(Error::OutOfRange(
            "a group has 256 clusters or more, a multiple of 8, at most one per bit of a block",
        ));
    }
    superblock.clusters_per_group = clusters;
    superblock.blocks_per_group = clusters << wishes.cluster_bits;
    Ok(())
}

/// Rounds inodes up to whole blocks of each group's table and down to bytes of the bitmap.
fn set_inodes(superblock: &mut Superblock, wishes: &Wishes, groups: u32) -> Result<bool, Error> {
    let block_size = wishes.block_size;
    let inodes_per_block = block_size / u32::from(wishes.inode_size);
    let wanted = wishes.inodes_count.max(u64::from(FIRST_INO) + 1);
    let mut per_group = wanted.div_ceil(u64::from(groups));
    if per_group > u64::from(block_size) * 8 {
        // Smaller groups have more inodes in total. They divide all blocks anew: a last group that
        // larger ones left may have been dropped.
        if superblock.blocks_per_group < 256 || wishes.cluster_bits != 0 {
            return Err(Error::TooManyInodes);
        }
        superblock.blocks_per_group -= 8;
        superblock.clusters_per_group = superblock.blocks_per_group;
        superblock.blocks_count = wishes.blocks_count;
        return Ok(false);
    }
    per_group = per_group.min(u64::from((1 << 16) - inodes_per_block));
    loop {
        let mut inodes = whole_blocks(clamp_u32(per_group), inodes_per_block);
        if u64::from(inodes) * u64::from(groups) <= u64::from(FIRST_INO) {
            // Rounding down must keep the inodes that every file system has.
            inodes = (FIRST_INO + 1).next_multiple_of(8.max(inodes_per_block));
        }
        if let Some(count) = inodes.checked_mul(groups) {
            superblock.inodes_per_group = inodes;
            superblock.inodes_count = count;
            return Ok(true);
        }
        per_group -= 1;
    }
}

fn whole_blocks(inodes: u32, inodes_per_block: u32) -> u32 {
    let filled = inodes.div_ceil(inodes_per_block) * inodes_per_block;
    let bytes = filled & !7;
    // A group has at least a byte of bitmap and a block of table.
    bytes.max(8).max(inodes_per_block)
}

fn set_reserved_gdt(
    superblock: &mut Superblock,
    options: &MkfsOptions,
    groups: u32,
    wishes: &Wishes,
) {
    let wide = superblock.features().has(Feature::SIXTY_FOUR_BIT);
    let descriptors_per_block = u64::from(wishes.block_size / if wide { 64 } else { 32 });
    let descriptor_blocks = u64::from(groups).div_ceil(descriptors_per_block);
    let mut reserved = 0;
    if superblock.features().has(Feature::RESIZE_INODE) {
        let all = u64::from(u32::MAX);
        let grown = superblock.blocks_count.saturating_mul(1024);
        let max_blocks = options.resize_max_blocks.unwrap_or(grown).min(all);
        let data_blocks = max_blocks.saturating_sub(u64::from(superblock.first_data_block));
        let max_groups = data_blocks.div_ceil(u64::from(superblock.blocks_per_group));
        let max_descriptor_blocks = max_groups.div_ceil(descriptors_per_block);
        reserved = max_descriptor_blocks.saturating_sub(descriptor_blocks);
        reserved = reserved.min(u64::from(wishes.block_size / 4));
    }
    superblock.reserved_gdt_blocks = clamp_u16(reserved);
    // Descriptors that would fill most of a group are spread over the groups.
    if reserved + descriptor_blocks > u64::from(superblock.blocks_per_group) * 3 / 4 {
        let mut features = superblock.features();
        features.insert(Feature::META_BG);
        features.remove(Feature::RESIZE_INODE);
        superblock.set_features(features);
        superblock.reserved_gdt_blocks = 0;
    }
}

/// Drops a last group that does not hold its superblock copy. `false`: it was dropped.
fn last_group_holds_copies(superblock: &mut Superblock, groups: u32) -> Result<bool, Error> {
    let geometry = superblock.geometry()?;
    let last = uext4_format::GroupNr(groups - 1);
    let len = geometry.blocks_in_group(last);
    if len >= geometry.base_metadata_blocks(last) {
        return Ok(true);
    }
    if groups == 1 {
        return Err(Error::TooSmall);
    }
    superblock.blocks_count -= u64::from(len);
    Ok(false)
}

/// Drops a last group that would be nearly all metadata. `false`: it was dropped.
fn last_group_fits(superblock: &mut Superblock, groups: u32) -> Result<bool, Error> {
    let geometry = superblock.geometry()?;
    let overhead = overhead_blocks(&geometry);
    if overhead > u64::from(superblock.blocks_per_group) {
        return Err(Error::TooManyInodes);
    }
    let len = u64::from(geometry.blocks_in_group(GroupNr(groups - 1)));
    if groups == 1 {
        return if len < overhead {
            Err(Error::TooSmall)
        } else {
            Ok(true)
        };
    }
    if last_group_has_room(&geometry) {
        return Ok(true);
    }
    superblock.blocks_count -= len;
    Ok(false)
}

/// Whether the last group is whole, or has room for data besides its metadata.
pub fn last_group_has_room(geometry: &Geometry) -> bool {
    let len = geometry.blocks_in_group(GroupNr(geometry.group_count - 1));
    len == geometry.blocks_per_group
        || u64::from(len) >= overhead_blocks(geometry) + LAST_GROUP_DATA_BLOCKS_MIN
}

/// Blocks of metadata that the last group would hold by itself.
fn overhead_blocks(geometry: &Geometry) -> u64 {
    let base = geometry.base_metadata_blocks(GroupNr(geometry.group_count - 1));
    2 + u64::from(geometry.inode_table_blocks()) + u64::from(base)
}
