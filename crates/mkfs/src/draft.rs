//! A file system that is planned in memory, and then written.
//!
//! The parts of [`crate::format`], for programs that place files themselves: [`plan`] chooses the
//! numbers, [`Draft`] takes the blocks of those files, places everything else, and writes it, the
//! primary superblock last.
//!
//! Invariants: a run that the program occupies overlaps no other one and no fixed place, which are
//! the superblock copies, the descriptors and their reserved blocks
//! ([`Geometry::base_metadata_blocks`]). The program's inodes are none of those that are added
//! here.

use std::ops::Range;

use uext4_device::BlockDevice;
use uext4_format::mmp::{MMP_UPDATE_INTERVAL_SECONDS, Mmp};
use uext4_format::orphan_file::ORPHAN_FILE_BLOCKS_MAX;
use uext4_format::quota::QuotaKind;
use uext4_format::{
    BlockNr, BlockRun, Feature, Geometry, GroupDescriptor, GroupNr, Inode, InodeNr, Superblock,
    jbd2,
};
use uext4_num::{clamp_u32, usize_of};

use crate::files::{Files, GROUP_QUOTA, USER_QUOTA, journal_backup};
use crate::quota::Usages;
use crate::sizing::FIRST_INO;
use crate::space::{Sharing, Space};
use crate::write::{Policy, UsedInodes, Writer};
use crate::{Error, JournalPlace, LogLength, MkfsOptions, journal_size, layout, sizing};

/// Numbers of a new file system.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The superblock, with nothing allocated.
    pub superblock: Superblock,
    /// Length of the log; 0: none, or an external one.
    pub log: LogLength,
}

/// Chooses the numbers for these options and a device of this size.
///
/// # Errors
/// Options that contradict each other or that no file system can have.
pub fn plan(options: &MkfsOptions, device_bytes: u64) -> Result<Plan, Error> {
    let (superblock, log) = sizing::plan(options, device_bytes)?;
    Ok(Plan { superblock, log })
}

impl Plan {
    /// Sets names and times; all checksums follow from the UUID. `time` is in seconds since 1970.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for a label of more than 16 bytes.
    pub fn identify(
        &mut self,
        options: &MkfsOptions,
        uuid: [u8; 16],
        hash_seed: [u8; 16],
        time: u64,
    ) -> Result<(), Error> {
        sizing::identify(&mut self.superblock, options, uuid, hash_seed, time)
    }
}

/// Inodes of files that the program makes itself.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    /// Runs of their numbers, in any order. The reserved numbers, 1 to 10, need not be among them.
    pub inodes: Vec<Range<u32>>,
    /// The inodes of directories, ascending.
    pub directories: Vec<InodeNr>,
}

/// Whether the root directory and lost+found are made here.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Directories {
    Make,
    Leave,
}

/// A planned file system: what is placed so far, and the inodes and blocks to write.
pub struct Draft {
    /// The superblock; free counts are set when it is written.
    pub superblock: Superblock,
    /// Block size, groups and the other sizes of the new file system.
    pub geometry: Geometry,
    options: MkfsOptions,
    log: LogLength,
    space: Space,
    /// Blocks of the program's files.
    occupied_blocks: u64,
    descriptors: Vec<GroupDescriptor>,
    /// Inodes that the program does not make, ascending.
    inodes: Vec<(InodeNr, Inode)>,
    blocks: Vec<(BlockNr, Vec<u8>)>,
    zeroes: Vec<BlockRun>,
    /// Numbers behind the reserved ones that files of this module have.
    hidden: Range<u32>,
    used: UsedInodes,
}

impl Draft {
    /// A draft with nothing placed.
    ///
    /// # Errors
    /// [`Error::Contradiction`]: numbers that no file system has.
    pub fn new(plan: Plan, options: &MkfsOptions) -> Result<Draft, Error> {
        let geometry = plan.superblock.geometry()?;
        Ok(Draft {
            superblock: plan.superblock,
            geometry,
            options: options.clone(),
            log: plan.log,
            space: Space::new(geometry),
            occupied_blocks: 0,
            descriptors: Vec::new(),
            inodes: Vec::new(),
            blocks: Vec::new(),
            zeroes: Vec::new(),
            hidden: 0..0,
            used: UsedInodes::new(Vec::new(), Vec::new()),
        })
    }

    /// Lets blocks be placed in all of the last group, to find out where they would end. Such a
    /// draft is not written.
    pub fn with_whole_groups(mut self) -> Draft {
        let geometry = &mut self.space.geometry;
        geometry.blocks_count = geometry.group_first_block(GroupNr(geometry.group_count)).0;
        self
    }

    /// Marks blocks of the program's files as used: whole clusters.
    pub fn occupy(&mut self, start: BlockNr, end: BlockNr) {
        self.occupied_blocks += end.0 - start.0;
        self.space.occupy(start, end);
    }

    /// Blocks in which something can be placed.
    pub fn space_blocks(&self) -> u64 {
        self.space.geometry.blocks_count
    }

    /// The block after the last one that is placed or occupied.
    pub fn end(&self) -> BlockNr {
        self.space.end()
    }

    /// Places bitmaps and inode tables.
    ///
    /// # Errors
    /// [`Error::NoSpace`].
    pub fn allocate_group_metadata(&mut self) -> Result<(), Error> {
        self.descriptors = layout::allocate(&mut self.space, self.options.placement, GroupNr(0))?;
        let occupied = self.geometry.blocks_to_clusters(self.occupied_blocks);
        let used = used_in_all(&self.space) - occupied;
        self.set_overhead(u64::from(self.geometry.first_data_block) + used);
        Ok(())
    }

    fn set_overhead(&mut self, clusters: u64) {
        self.superblock.overhead_clusters = u32::try_from(clusters).unwrap_or(0);
    }

    /// Makes the root directory and lost+found, with their blocks, and everything else that every
    /// file system has.
    pub(crate) fn add_all(&mut self) -> Result<(), Error> {
        self.add(Directories::Make, InodeNr(FIRST_INO + 1), &|_| Vec::new())?;
        self.use_inodes(Contents {
            inodes: std::iter::once(FIRST_INO..FIRST_INO + 1).collect(),
            directories: vec![InodeNr::ROOT, InodeNr(FIRST_INO)],
        });
        Ok(())
    }

    /// Makes everything besides the program's files: resize inode, quota files with these usages,
    /// journal, orphan file and the inodes that are reserved. Those without a reserved number get
    /// `first` and what follows.
    ///
    /// # Errors
    /// [`Error::NoSpace`], or an option out of range.
    pub fn add_hidden_files(&mut self, first: InodeNr, usages: Usages<'_>) -> Result<(), Error> {
        self.add(Directories::Leave, first, usages)
    }

    /// The first number behind those that [`Draft::add_hidden_files`] has given.
    pub fn after_hidden_files(&self) -> InodeNr {
        InodeNr(self.hidden.end)
    }

    /// Marks the inodes of the program's files as used.
    pub fn use_inodes(&mut self, own: Contents) {
        let mut runs = own.inodes;
        runs.extend([1..FIRST_INO, self.hidden.clone()]);
        self.used = UsedInodes::new(runs, own.directories);
    }

    fn add(
        &mut self,
        directories: Directories,
        first: InodeNr,
        usages: Usages<'_>,
    ) -> Result<(), Error> {
        let features = self.superblock.features();
        let options = &self.options;
        let mut files = Files::new(&mut self.space, &self.superblock, options.placement);
        if directories == Directories::Make {
            files.add_directories(options.root_owner)?;
        }
        let mut next = first;
        let superblock = &mut self.superblock;
        if features.has(Feature::RESIZE_INODE) {
            files.add_resize_inode()?;
        }
        if features.has(Feature::QUOTA) {
            add_quota(&mut files, superblock, &mut next, usages)?;
        }
        let mut journal_clusters = 0;
        if let Some(external) = options.external_journal {
            superblock.journal_uuid = external.uuid;
            superblock.journal_dev = external.device_number;
        } else if features.has(Feature::HAS_JOURNAL) {
            let geometry = files.space.geometry;
            let place = options.journal_place;
            journal_clusters = add_journal(&mut files, superblock, &geometry, (self.log, place))?;
        }
        if features.has(Feature::ORPHAN_FILE) {
            add_orphan_file(&mut files, superblock, &mut next, options)?;
        }
        files.add_reserved(FIRST_INO);
        let Files {
            inodes,
            blocks,
            zeroes,
            ..
        } = files;
        (self.inodes, self.blocks, self.zeroes) = (inodes, blocks, zeroes);
        self.inodes.sort_by_key(|(ino, _)| *ino);
        self.hidden = first.0..next.0;
        if features.has(Feature::MMP) {
            let block = add_mmp(&mut self.space, superblock)?;
            self.blocks.push(block);
        }
        self.set_overhead(u64::from(self.superblock.overhead_clusters) + journal_clusters);
        Ok(())
    }

    fn writer<'a>(&self, device: &'a dyn BlockDevice) -> Writer<'a> {
        Writer {
            device,
            geometry: self.geometry,
            checksums: self.superblock.checksums(),
            policy: Policy {
                contents: self.options.contents,
                tables: self.options.inode_tables,
            },
        }
    }

    /// Writes everything, with the program's inodes among it, which are ascending. Flushes the
    /// device before and after the write of the primary superblock.
    ///
    /// # Errors
    /// The first of `own`; those of the device. It then holds no file system unless the last write
    /// failed.
    pub fn write<E: From<Error>>(
        &mut self,
        device: &dyn BlockDevice,
        own: impl Iterator<Item = Result<(InodeNr, Inode), E>>,
    ) -> Result<(), E> {
        let writer = self.writer(device);
        for (group, descriptor) in self.descriptors.iter_mut().enumerate() {
            writer.group(
                &self.space,
                GroupNr(clamp_u32(group)),
                descriptor,
                &self.used,
            )?;
        }
        for run in &self.zeroes {
            writer.zero(run.start, run.len_blocks)?;
        }
        for (nr, bytes) in &self.blocks {
            writer.block(*nr, bytes)?;
        }
        let hidden = self.inodes.iter().map(|(ino, inode)| (*ino, inode));
        writer.inodes(hidden, &self.descriptors)?;
        let mut failure = None;
        let own = own.map_while(|one| one.map_err(|error| failure = Some(error)).ok());
        writer.inodes(own, &self.descriptors)?;
        if let Some(error) = failure {
            return Err(error);
        }
        count_free(&mut self.superblock, &self.geometry, &self.descriptors);
        writer.descriptors(&self.descriptors)?;
        writer.superblock_copies(&self.superblock)?;
        device.flush().map_err(Error::from)?;
        writer.superblock(&self.superblock)?;
        device.flush().map_err(Error::from)?;
        Ok(())
    }

    /// Length of the journal in blocks; 0: none.
    pub fn journal_blocks(&self) -> u32 {
        self.log.blocks
    }
}

fn used_in_all(space: &Space) -> u64 {
    let groups = (0..space.geometry.group_count).map(GroupNr);
    groups
        .map(|group| u64::from(space.used_clusters(group)))
        .sum()
}

fn count_free(superblock: &mut Superblock, geometry: &Geometry, descriptors: &[GroupDescriptor]) {
    let clusters: u64 = descriptors
        .iter()
        .map(|group| u64::from(group.free_clusters))
        .sum();
    superblock.free_blocks_count = clusters << geometry.cluster_bits;
    superblock.free_inodes_count = descriptors.iter().map(|group| group.free_inodes).sum();
}

/// Adds the journal inode, the journal superblock and the main superblock's copy of the inode;
/// returns the journal's clusters without its map.
fn add_journal(
    files: &mut Files<'_>,
    superblock: &mut Superblock,
    geometry: &Geometry,
    (length, place): (LogLength, Option<JournalPlace>),
) -> Result<u64, Error> {
    let place = place.map(|place| place.block(geometry.block_bits));
    if place.is_some_and(|block| !geometry.contains(block)) {
        return Err(Error::OutOfRange(
            "the place of the journal is outside of the file system",
        ));
    }
    let (inode, first) = files.add_journal(length.blocks, place)?;
    superblock.journal_inum = InodeNr::JOURNAL.0;
    superblock.jnl_backup_type = 1;
    superblock.jnl_blocks = journal_backup(&inode);
    let log = journal_superblock(superblock, length);
    let mut bytes = vec![0; usize_of(geometry.block_size())];
    let (start, _) = bytes.split_at_mut(jbd2::SUPERBLOCK_BYTES);
    start.copy_from_slice(&log.encode());
    files.blocks.push((first, bytes));
    Ok(geometry.blocks_to_clusters(u64::from(length.blocks)))
}

/// The superblock of an empty log in an inode.
pub fn journal_superblock(superblock: &Superblock, length: LogLength) -> jbd2::Superblock {
    let block_size = 1024 << superblock.log_block_size;
    let mut log = jbd2::Superblock::new(block_size, length.blocks, 1, superblock.uuid);
    log.fast_commit_blocks = length.fast_commit_blocks;
    log
}

/// Adds the quota files; the project quota has no reserved inode and takes the next one.
fn add_quota(
    files: &mut Files<'_>,
    superblock: &mut Superblock,
    next: &mut InodeNr,
    usages: Usages<'_>,
) -> Result<(), Error> {
    files.add_quota_file(USER_QUOTA, QuotaKind::User, usages)?;
    files.add_quota_file(GROUP_QUOTA, QuotaKind::Group, usages)?;
    superblock.usr_quota_inum = USER_QUOTA.0;
    superblock.grp_quota_inum = GROUP_QUOTA.0;
    if superblock.features().has(Feature::PROJECT) {
        files.add_quota_file(*next, QuotaKind::Project, usages)?;
        superblock.prj_quota_inum = next.0;
        next.0 += 1;
    }
    Ok(())
}

fn add_orphan_file(
    files: &mut Files<'_>,
    superblock: &mut Superblock,
    next: &mut InodeNr,
    options: &MkfsOptions,
) -> Result<(), Error> {
    let default = journal_size::default_orphan_file_blocks(superblock.blocks_count);
    let blocks = options.orphan_file_blocks.unwrap_or(default);
    if !(1..=ORPHAN_FILE_BLOCKS_MAX).contains(&blocks) {
        return Err(Error::OutOfRange("an orphan file has 1 to 512 blocks"));
    }
    files.add_orphan_file(*next, blocks)?;
    superblock.orphan_file_inum = next.0;
    next.0 += 1;
    Ok(())
}

fn add_mmp(space: &mut Space, superblock: &mut Superblock) -> Result<(BlockNr, Vec<u8>), Error> {
    let goal = space.geometry.group_first_block(GroupNr(0));
    let nr = space.take_run(goal, 1, Sharing::OwnClusters, "the mmp block")?;
    superblock.mmp_block = nr.0;
    superblock.mmp_update_interval = MMP_UPDATE_INTERVAL_SECONDS;
    let checksums = superblock.checksums();
    let mut bytes = vec![0; usize_of(space.geometry.block_size())];
    Mmp::clean(MMP_UPDATE_INTERVAL_SECONDS).write_to(&mut bytes, &checksums);
    Ok((nr, bytes))
}
