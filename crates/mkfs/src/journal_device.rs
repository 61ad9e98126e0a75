//! External journals: a device with only a log, for one or more file systems.
//!
//! Layout: a superblock with the feature `journal_dev` at byte 1024, then the log from the next
//! block on. The log's superblock counts its users and lists their UUIDs.

use uext4_device::BlockDevice;
use uext4_format::superblock::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET, default_mount_option, state};
use uext4_format::{Feature, Features, Full, KNOWN_EXTRA_BYTES, Superblock, jbd2};
use uext4_num::clamp_u32;

use crate::{DeviceContents, Error, entropy, journal_size};

/// Parameters of an external journal.
#[derive(Clone, Debug)]
pub struct JournalDeviceOptions {
    /// Block size in bytes: that of the file systems that will use it.
    pub block_size: u32,
    /// UUID; random by default.
    pub uuid: Option<[u8; 16]>,
    /// Volume label, at most 16 bytes.
    pub label: Vec<u8>,
    /// Creation time in seconds since 1970; by default the clock's.
    pub time: Option<u64>,
    /// Current content of the device.
    pub contents: DeviceContents,
}

/// Creates an external journal on the device, without users, and returns its UUID.
///
/// # Errors
/// [`Error::OutOfRange`] for the block size, the label or the number of blocks;
/// [`Error::Device`].
pub fn format_journal_device(
    device: &dyn BlockDevice,
    options: &JournalDeviceOptions,
) -> Result<[u8; 16], Error> {
    let block_size = options.block_size;
    if !block_size.is_power_of_two() || !(1024..=65536).contains(&block_size) {
        return Err(Error::OutOfRange(
            "a block size is a power of two from 1024 to 65536",
        ));
    }
    let blocks_count = device.size_bytes() / u64::from(block_size);
    if !journal_size::JOURNAL_BLOCKS.contains(&blocks_count) {
        return Err(Error::OutOfRange(
            "a journal has 1024 to 10240000 blocks, and at most half of the file system",
        ));
    }
    let uuid = options.uuid.unwrap_or_else(entropy::random_uuid);
    let mut superblock = superblock_of(options, blocks_count, uuid);
    let name = superblock.volume_name.get_mut(..options.label.len());
    name.ok_or(Error::OutOfRange("a label has up to 16 bytes"))?
        .copy_from_slice(&options.label);
    let start = log_start(&superblock);
    if options.contents == DeviceContents::Unknown {
        device.write_zeroes(0, blocks_count * u64::from(block_size))?;
    }
    let first = clamp_u32(start) + 1;
    let log = jbd2::Superblock::new(block_size, clamp_u32(blocks_count), first, uuid);
    device.write_at(start * u64::from(block_size), &log.encode())?;
    device.write_at(SUPERBLOCK_OFFSET, &superblock.to_bytes())?;
    device.flush()?;
    Ok(uuid)
}

/// Registers a file system as the user of an external journal; it may be that already. A journal
/// has one user, because a log has the blocks of one file system.
///
/// # Errors
/// [`Error::OutOfRange`] if the device holds no external journal or has another user,
/// [`Error::Contradiction`] if its superblocks are damaged, [`Error::Device`].
pub fn add_journal_user(device: &dyn BlockDevice, user: [u8; 16]) -> Result<(), Error> {
    change_users(device, |log| {
        if log.users() > 0 && !log.has_user(&user) {
            return Err(Error::OutOfRange(
                "the journal has another file system as its user",
            ));
        }
        let added = log.add_user(&user);
        added.map_err(|Full| Error::NoSpace("another user of the journal"))
    })
}

/// Removes a file system from the users of an external journal, if it is one.
///
/// # Errors
/// As [`add_journal_user`].
pub fn remove_journal_user(device: &dyn BlockDevice, user: [u8; 16]) -> Result<(), Error> {
    change_users(device, |log| {
        log.remove_user(&user);
        Ok(())
    })
}

fn change_users(
    device: &dyn BlockDevice,
    change: impl FnOnce(&mut jbd2::Superblock) -> Result<(), Error>,
) -> Result<(), Error> {
    let superblock = head(device)?;
    let at = log_start(&superblock) << (superblock.log_block_size + 10);
    let mut log = [0; jbd2::SUPERBLOCK_BYTES];
    device.read_at(at, &mut log)?;
    let mut log = jbd2::Superblock::parse(&log)?;
    change(&mut log)?;
    device.write_at(at, &log.encode())?;
    Ok(device.flush()?)
}

/// UUID of the external journal on the device.
///
/// # Errors
/// As [`add_journal_user`], whose list of users it does not read.
pub fn journal_device_uuid(device: &dyn BlockDevice) -> Result<[u8; 16], Error> {
    Ok(head(device)?.uuid)
}

fn head(device: &dyn BlockDevice) -> Result<Superblock, Error> {
    let mut bytes = [0; SUPERBLOCK_BYTES];
    device.read_at(SUPERBLOCK_OFFSET, &mut bytes)?;
    let superblock = Superblock::parse_unverified(&bytes)?;
    if !superblock.features().has(Feature::JOURNAL_DEV) || superblock.log_block_size > 6 {
        return Err(Error::OutOfRange("the device holds no journal"));
    }
    Ok(superblock)
}

/// Block of the log's superblock: the one after the block of the superblock.
fn log_start(superblock: &Superblock) -> u64 {
    if superblock.log_block_size == 0 { 2 } else { 1 }
}

fn superblock_of(options: &JournalDeviceOptions, blocks_count: u64, uuid: [u8; 16]) -> Superblock {
    let mut superblock = Superblock::blank();
    let time = options.time.unwrap_or_else(entropy::now);
    superblock.rev_level = 1;
    superblock.set_features(Features::of(&[Feature::JOURNAL_DEV]));
    superblock.log_block_size = options.block_size.ilog2() - 10;
    superblock.log_cluster_size = superblock.log_block_size;
    superblock.first_data_block = u32::from(superblock.log_block_size == 0);
    superblock.blocks_count = blocks_count;
    superblock.blocks_per_group = (options.block_size * 8).min((1 << 16) - 8);
    superblock.clusters_per_group = superblock.blocks_per_group;
    superblock.state = state::VALID;
    superblock.errors = 1;
    superblock.max_mnt_count = u16::MAX;
    superblock.first_ino = crate::sizing::FIRST_INO;
    superblock.inode_size = 256;
    superblock.min_extra_isize = KNOWN_EXTRA_BYTES;
    superblock.want_extra_isize = KNOWN_EXTRA_BYTES;
    superblock.def_hash_version = 1;
    superblock.default_mount_opts = default_mount_option::XATTR_USER | default_mount_option::ACL;
    superblock.uuid = uuid;
    (superblock.mkfs_time, superblock.lastcheck, superblock.wtime) = (time, time, time);
    superblock
}
