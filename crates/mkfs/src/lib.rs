//! Creates file systems, as mke2fs 1.47 does.
//!
//! [`format()`] plans everything in memory (numbers, places, contents) and then writes it, the
//! primary superblock last: after a failure the device holds no file system. With fixed UUID, hash
//! seed and time, the same options give the same bytes.
//!
//! Layout: `sizing` numbers, `layout` bitmaps and tables, `files` initial inodes, `write` bytes,
//! `journal_device` external journals.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::as_conversions))]

mod entropy;
mod error;
mod features;
mod files;
mod journal_device;
mod journal_size;
mod layout;
mod mapping;
mod options;
mod quota;
mod sizing;
mod space;
mod write;

#[cfg(test)]
mod tests;

pub use entropy::random_uuid;
pub use error::Error;
pub use journal_device::{
    ExternalJournal, JournalDeviceOptions, add_journal_user, format_journal_device,
};
pub use journal_size::default_orphan_file_blocks;
pub use options::{
    DeviceContents, InodeCount, InodeTables, JournalSize, MkfsOptions, Preset, Usage,
};

use sizing::FIRST_INO;
use uext4_device::BlockDevice;
use uext4_format::mmp::{MMP_UPDATE_INTERVAL_SECONDS, Mmp};
use uext4_format::{
    BlockNr, Checksums, Feature, Features, Geometry, GroupDescriptor, GroupNr, InodeNr, Superblock,
    jbd2,
};
use uext4_num::{clamp_u32, usize_of};

use files::{Files, GROUP_QUOTA, USER_QUOTA, journal_backup};
use space::{Sharing, Space};
use uext4_format::quota::QuotaKind;
use write::{Policy, UsedInodes, Writer};

/// Properties of the new file system.
#[derive(Clone, Debug)]
pub struct Report {
    /// The primary superblock, as written.
    pub superblock: Superblock,
    /// Sizes and counts.
    pub geometry: Geometry,
    /// Length of the journal in blocks; 0: none.
    pub journal_blocks: u32,
    /// Requested features that were left out, because the file system is too small or too large for
    /// them, or because another feature replaces them.
    pub dropped_features: Features,
}

/// Creates a file system on the device.
///
/// Flushes the device before and after the write of the primary superblock.
///
/// # Errors
/// [`Error`]; the device then holds no file system unless the last write failed.
pub fn format(device: &dyn BlockDevice, options: &MkfsOptions) -> Result<Report, Error> {
    let (mut superblock, journal_blocks) = sizing::plan(options, device.size_bytes())?;
    let uuid = match options.uuid {
        Some(uuid) => uuid,
        None => entropy::random_uuid(),
    };
    let hash_seed = options.hash_seed.unwrap_or_else(entropy::random_uuid);
    let time = options.time.unwrap_or_else(entropy::now);
    sizing::identify(&mut superblock, options, uuid, hash_seed, time)?;
    let geometry = superblock.geometry()?;
    let mut space = Space::new(geometry);
    let mut descriptors = layout::place(&mut space)?;
    let mut overhead = u64::from(geometry.first_data_block) + used_in_all(&space);
    let contents = Contents::plan(&mut space, &mut superblock, options, journal_blocks)?;
    overhead += contents.journal_clusters;
    superblock.overhead_clusters = u32::try_from(overhead).unwrap_or(0);

    let policy = Policy {
        contents: options.contents,
        tables: options.inode_tables,
    };
    let checksums = superblock.checksums();
    let writer = Writer {
        device,
        geometry,
        checksums,
        policy,
    };
    writer.wipe()?;
    write_groups(&writer, &space, &mut descriptors, &contents.used)?;
    contents.write(&writer, &descriptors)?;
    count_free(&mut superblock, &geometry, &descriptors);
    writer.descriptors(&descriptors)?;
    writer.superblock_copies(&superblock)?;
    device.flush()?;
    writer.superblock(&superblock)?;
    device.flush()?;
    let dropped_features = difference(options.features, superblock.features());
    Ok(Report {
        superblock,
        geometry,
        journal_blocks,
        dropped_features,
    })
}

fn difference(wanted: Features, made: Features) -> Features {
    Features {
        compat: wanted.compat & !made.compat,
        ro_compat: wanted.ro_compat & !made.ro_compat,
        incompat: wanted.incompat & !made.incompat,
    }
}

fn used_in_all(space: &Space) -> u64 {
    let groups = (0..space.geometry.group_count).map(GroupNr);
    groups
        .map(|group| u64::from(space.used_clusters(group)))
        .sum()
}

fn write_groups(
    writer: &Writer<'_>,
    space: &Space,
    descriptors: &mut [GroupDescriptor],
    used: &UsedInodes,
) -> Result<(), Error> {
    for (group, descriptor) in descriptors.iter_mut().enumerate() {
        writer.group(space, GroupNr(clamp_u32(group)), descriptor, used)?;
    }
    Ok(())
}

fn count_free(superblock: &mut Superblock, geometry: &Geometry, descriptors: &[GroupDescriptor]) {
    let clusters: u64 = descriptors
        .iter()
        .map(|group| u64::from(group.free_clusters))
        .sum();
    superblock.free_blocks_count = clusters << geometry.cluster_bits;
    superblock.free_inodes_count = descriptors.iter().map(|group| group.free_inodes).sum();
}

/// The initial inodes and all blocks besides group metadata.
struct Contents {
    inodes: Vec<(InodeNr, uext4_format::Inode)>,
    used: UsedInodes,
    blocks: Vec<(BlockNr, Vec<u8>)>,
    zeroes: Vec<uext4_format::BlockRun>,
    journal_clusters: u64,
}

impl Contents {
    fn plan(
        space: &mut Space,
        superblock: &mut Superblock,
        options: &MkfsOptions,
        journal_blocks: u32,
    ) -> Result<Contents, Error> {
        let features = superblock.features();
        let mut last = InodeNr(FIRST_INO);
        let mut files = Files::new(space, superblock);
        files.add_directories(options.root_owner)?;
        if features.has(Feature::RESIZE_INODE) {
            files.add_resize_inode()?;
        }
        if features.has(Feature::QUOTA) {
            add_quota(&mut files, superblock, &mut last)?;
        }
        let mut journal_clusters = 0;
        if let Some(external) = options.external_journal {
            superblock.journal_uuid = external.uuid;
            superblock.journal_dev = external.device_number;
        } else if features.has(Feature::HAS_JOURNAL) {
            let geometry = files.space.geometry;
            journal_clusters = add_journal(&mut files, superblock, &geometry, journal_blocks)?;
        }
        if features.has(Feature::ORPHAN_FILE) {
            last.0 += 1;
            let default = journal_size::default_orphan_file_blocks(superblock.blocks_count);
            let blocks = options.orphan_file_blocks.unwrap_or(default);
            if !(1..=uext4_format::orphan_file::ORPHAN_FILE_BLOCKS_MAX).contains(&blocks) {
                return Err(Error::OutOfRange("an orphan file has 1 to 512 blocks"));
            }
            files.add_orphan_file(last, blocks)?;
            superblock.orphan_file_inum = last.0;
        }
        files.add_reserved(FIRST_INO);
        let Files {
            mut inodes,
            mut blocks,
            zeroes,
            ..
        } = files;
        inodes.sort_by_key(|(ino, _)| *ino);
        if features.has(Feature::MMP) {
            blocks.push(add_mmp(space, superblock)?);
        }
        let used = UsedInodes { last };
        Ok(Contents {
            inodes,
            used,
            blocks,
            zeroes,
            journal_clusters,
        })
    }

    fn write(&self, writer: &Writer<'_>, descriptors: &[GroupDescriptor]) -> Result<(), Error> {
        for run in &self.zeroes {
            writer.zero(run.start, run.len_blocks)?;
        }
        for (nr, bytes) in &self.blocks {
            writer.block(*nr, bytes)?;
        }
        writer.inodes(&self.inodes, descriptors)
    }
}

/// Adds the journal inode, the journal superblock and the main superblock's copy of the inode;
/// answers the journal's clusters without its map.
fn add_journal(
    files: &mut Files<'_>,
    superblock: &mut Superblock,
    geometry: &Geometry,
    blocks: u32,
) -> Result<u64, Error> {
    let (inode, first) = files.add_journal(blocks)?;
    superblock.journal_inum = InodeNr::JOURNAL.0;
    superblock.jnl_backup_type = 1;
    superblock.jnl_blocks = journal_backup(&inode);
    let mut log = jbd2::Superblock::new(geometry.block_size(), blocks, 1, superblock.uuid);
    if geometry.features.has(Feature::FAST_COMMIT) {
        log.fast_commit_blocks = blocks / 65;
    }
    let mut bytes = vec![0; usize_of(geometry.block_size())];
    let (start, _) = bytes.split_at_mut(jbd2::SUPERBLOCK_BYTES);
    start.copy_from_slice(&log.encode());
    files.blocks.push((first, bytes));
    Ok(geometry.blocks_to_clusters(u64::from(blocks)))
}

/// Adds the quota files; the project quota has no reserved inode and takes the next after `last`.
fn add_quota(
    files: &mut Files<'_>,
    superblock: &mut Superblock,
    last: &mut InodeNr,
) -> Result<(), Error> {
    files.add_quota_file(USER_QUOTA, QuotaKind::User)?;
    files.add_quota_file(GROUP_QUOTA, QuotaKind::Group)?;
    superblock.usr_quota_inum = USER_QUOTA.0;
    superblock.grp_quota_inum = GROUP_QUOTA.0;
    if superblock.features().has(Feature::PROJECT) {
        last.0 += 1;
        files.add_quota_file(*last, QuotaKind::Project)?;
        superblock.prj_quota_inum = last.0;
    }
    Ok(())
}

fn add_mmp(space: &mut Space, superblock: &mut Superblock) -> Result<(BlockNr, Vec<u8>), Error> {
    let goal = space.geometry.group_first_block(GroupNr(0));
    let nr = space.take_run(goal, 1, Sharing::OwnClusters, "the mmp block")?;
    superblock.mmp_block = nr.0;
    superblock.mmp_update_interval = MMP_UPDATE_INTERVAL_SECONDS;
    let checksums: Checksums = superblock.checksums();
    let mut bytes = vec![0; usize_of(space.geometry.block_size())];
    Mmp::clean(MMP_UPDATE_INTERVAL_SECONDS).write_to(&mut bytes, &checksums);
    Ok((nr, bytes))
}
