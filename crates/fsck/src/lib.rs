//! Read-only check of a whole file system, as `e2fsck -fn` does.
//!
//! Order, each pass over the whole file system: the superblock (`superblock`, `named`), descriptors
//! (`groups`), inode tables (`slots`, `reserved`, `orphans`), fields and maps of inodes in use
//! (`inodes`, `maps`, `attributes`, `resize`), directories (`directories`, `index`), names and
//! links (`links`), bitmaps and counts (`bitmaps`).
//!
//! Invariants: a block is walked only by the structure that claimed it first, so the size of the
//! file system bounds the time, whatever it contains. Memory is counted before it is allocated
//! ([`Limits`]), and grows with the inodes and blocks in use (`paged`).
//!
//! Not here: recovery, which comes before; data; the blocks of the log behind its superblock;
//! backups of the superblock and its own counts of free blocks and inodes (a mount counts in the
//! groups); contents of quota files.
//! Nothing is repaired.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::as_conversions))]

mod attributes;
mod bitmaps;
mod bits;
mod directories;
mod groups;
mod index;
mod inodes;
mod links;
mod maps;
mod named;
mod orphans;
mod own;
mod paged;
mod report;
mod reserved;
mod resize;
mod slots;
mod subject;
mod superblock;
mod symlinks;
mod values;

pub use report::{CheckReport, Finding, Limits};
pub use subject::Subject;

use attributes::SharedBlocks;
use bits::Bits;
use links::Links;
use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;
use uext4_device::BlockDevice;
use uext4_format::{
    BlockNr, Checksums, Corrupt, CorruptKind, DamageLocation, Feature, Geometry, GroupDescriptor,
    GroupNr, InodeNr, Superblock,
};
use uext4_journal::recovery::read_superblock;
use uext4_num::{clamp_usize, usize_of};
use uext4_sync::Clock;
use uext4_volume::{Error, HiddenInodes, Result};
use values::Values;

/// Checks a file system, within the limits.
///
/// # Errors
/// An error of the device. Damage is a [`Finding`].
pub fn check(subject: &Subject, limits: &Limits) -> Result<CheckReport> {
    let mut check = Check::new(subject, limits);
    match check.run() {
        Ok(()) | Err(Stop::Incomplete) => Ok(check.report),
        Err(Stop::Failed(error)) => Err(error),
    }
}

/// Reason for an early end.
#[derive(Debug)]
enum Stop {
    /// The report has the reason.
    Incomplete,
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Failed(error)
    }
}

type Step<T = ()> = std::result::Result<T, Stop>;

/// State of a check.
struct Check<'a> {
    subject: &'a Subject,
    device: &'a dyn BlockDevice,
    superblock: &'a Superblock,
    geometry: Geometry,
    checksums: Checksums,
    hidden: HiddenInodes,
    clock: &'a dyn Clock,
    limits: &'a Limits,
    started: Duration,
    report: CheckReport,
    descriptors: Vec<Option<GroupDescriptor>>,
    /// Parts of inode tables that were never written; empty until the map of bad blocks is met.
    unwritten_tables: Vec<Range<u64>>,
    /// Metadata blocks that no file may map, sorted and merged.
    metadata: Vec<Range<u64>>,
    /// Clusters in use.
    claimed: Bits,
    links: Links,
    /// Directories with a damaged map.
    unreadable: Bits,
    shared: SharedBlocks,
    values: Values,
    /// The inodes in the slots of the orphan file.
    orphan_file: Vec<InodeNr>,
    /// Damage that was met on the way to the log and to the orphan file; a few at most.
    early: Vec<Corrupt>,
    orphans: BTreeSet<u32>,
    memory_bytes: u64,
    steps: u32,
}

impl<'a> Check<'a> {
    fn new(subject: &'a Subject, limits: &'a Limits) -> Self {
        Self {
            subject,
            device: &*subject.device,
            superblock: &subject.superblock,
            geometry: subject.geometry,
            checksums: subject.superblock.checksums(),
            hidden: HiddenInodes::of(&subject.superblock, &subject.geometry),
            clock: &*subject.clock,
            limits,
            started: subject.clock.monotonic(),
            report: CheckReport::default(),
            descriptors: Vec::new(),
            unwritten_tables: Vec::new(),
            metadata: Vec::new(),
            claimed: Bits::default(),
            links: Links::default(),
            unreadable: Bits::default(),
            shared: SharedBlocks::default(),
            values: Values::default(),
            orphan_file: Vec::new(),
            early: Vec::new(),
            orphans: BTreeSet::new(),
            memory_bytes: 0,
            steps: 0,
        }
    }

    fn run(&mut self) -> Step {
        let geometry = &self.geometry;
        let inodes = u64::from(geometry.inodes_count);
        let clusters = geometry.clusters_count();
        let groups = u64::from(geometry.group_count);
        let sets = Bits::empty_bytes(clusters) + Bits::empty_bytes(inodes + 1);
        self.take(sets + Links::empty_bytes(inodes) + groups * GROUP_BYTES)?;
        self.claimed = Bits::new(clusters);
        self.links = Links::new(inodes);
        self.unreadable = Bits::new(inodes + 1);
        self.check_superblock();
        self.check_quota_numbers();
        self.check_groups()?;
        self.check_log()?;
        self.check_mmp()?;
        self.read_orphan_file()?;
        self.find_orphans()?;
        self.check_inodes()?;
        self.check_own_inodes();
        self.shared_blocks();
        self.compare_values();
        self.check_directories()?;
        self.check_links()?;
        self.check_bitmaps()
    }

    /// Checks the journal's superblock. The log's content was replayed, or is empty.
    fn check_log(&mut self) -> Step {
        let superblock = self.superblock;
        let has_log = self.geometry.features.has(Feature::HAS_JOURNAL);
        if superblock.journal_inum != 0 && !has_log {
            self.add_problem(
                DamageLocation::Superblock,
                "superblock",
                CorruptKind::JournalWithoutFeature,
            );
        }
        let recovers = superblock.features().has(Feature::RECOVER);
        if recovers && !has_log {
            let problem = CorruptKind::ReplayWithoutJournal;
            self.add_problem(DamageLocation::Superblock, "superblock", problem);
        }
        // e2fsck looks for the external one, and cannot check without it.
        if superblock.journal_inum != 0 && has_log && superblock.journal_uuid != [0; 16] {
            self.add_problem(
                DamageLocation::Superblock,
                "superblock",
                CorruptKind::TwoJournals,
            );
        }
        let block_size = self.geometry.block_size();
        let log = self.find_log()?;
        match log.map(|log| read_superblock(&log, block_size)) {
            Some(Err(uext4_journal::Error::Corrupt(corrupt))) => self.add_corrupt(&corrupt),
            Some(Err(error)) => return Err(Stop::Failed(error.into())),
            Some(Ok(found)) if found.errno != 0 => {
                self.add_problem(
                    DamageLocation::JournalBlock(0),
                    "journal",
                    CorruptKind::Stopped,
                );
            }
            Some(Ok(found)) if found.has_fields_of_version_2() => {
                let problem = CorruptKind::FieldsOfVersion2;
                self.add_problem(DamageLocation::JournalBlock(0), "journal", problem);
            }
            Some(Ok(found)) if found.start != 0 && !recovers => {
                let problem = CorruptKind::UnreplayedRecords;
                self.add_problem(DamageLocation::JournalBlock(0), "journal", problem);
            }
            _ => {}
        }
        Ok(())
    }

    /// Counts memory before its allocation.
    fn take(&mut self, bytes: u64) -> Step {
        self.memory_bytes = self.memory_bytes.saturating_add(bytes);
        if self.memory_bytes > self.limits.memory_bytes {
            return self.give_up("it needs more memory than it may take");
        }
        Ok(())
    }

    /// Marks clusters in use; returns how many were not so far.
    fn claim(&mut self, clusters: Range<u64>) -> Step<u64> {
        self.take(self.claimed.more_bytes(&clusters))?;
        Ok(self.claimed.put_all(clusters))
    }

    fn give_back(&mut self, bytes: u64) {
        self.memory_bytes = self.memory_bytes.saturating_sub(bytes);
    }

    fn give_up<T>(&mut self, why: &'static str) -> Step<T> {
        self.report.incomplete = Some(why);
        Err(Stop::Incomplete)
    }

    /// Called once per block that is read.
    fn tick(&mut self) -> Step {
        self.steps = self.steps.wrapping_add(1);
        if self.steps.is_multiple_of(256) {
            let spent = self.clock.monotonic().saturating_sub(self.started);
            if spent > self.limits.time {
                return self.give_up("it takes longer than it may");
            }
        }
        Ok(())
    }

    fn read(&mut self, block: BlockNr) -> Step<Vec<u8>> {
        self.tick()?;
        let mut bytes = vec![0; usize_of(self.geometry.block_size())];
        let at = block.0 * self.block_bytes();
        let read = self.device.read_at(at, &mut bytes);
        read.map_err(|error| Stop::Failed(error.into()))?;
        Ok(bytes)
    }

    /// The block of the inode from its first byte on; `None` if its group is damaged.
    fn read_inode(&mut self, nr: InodeNr) -> Step<Option<Vec<u8>>> {
        let Some(byte) = self.inode_byte(nr) else {
            return Ok(None);
        };
        let block_size = self.block_bytes();
        let mut block = self.read(BlockNr(byte / block_size))?;
        Ok(Some(block.split_off(clamp_usize(byte % block_size))))
    }

    fn add_problem(
        &mut self,
        place: DamageLocation,
        structure: &'static str,
        problem: CorruptKind,
    ) {
        self.add_corrupt(&Corrupt::new(place, structure, problem));
    }

    fn add_corrupt(&mut self, corrupt: &Corrupt) {
        self.add(corrupt.clone(), None);
    }

    /// As [`Self::add_problem`], with a detail: the expected value, or a name.
    fn add_detailed(
        &mut self,
        place: DamageLocation,
        structure: &'static str,
        problem: CorruptKind,
        detail: String,
    ) {
        self.add(Corrupt::new(place, structure, problem), Some(detail));
    }

    fn add(&mut self, corrupt: Corrupt, detail: Option<String>) {
        let mut early = self.early.iter();
        if early.any(|met| met.place == corrupt.place && met.problem == corrupt.problem) {
            return;
        }
        let finding = Finding {
            byte: self.byte_of(corrupt.place),
            corrupt,
            detail,
        };
        self.report.add(finding, self.limits);
    }

    /// Reports damage of a structure that a later pass reads again, which does not report it then.
    fn add_early(&mut self, corrupt: &Corrupt) {
        self.add_corrupt(corrupt);
        self.early.push(corrupt.clone());
    }

    /// Byte offset of a structure on the device.
    fn byte_of(&self, place: DamageLocation) -> Option<u64> {
        let geometry = &self.geometry;
        let block_size = u64::from(geometry.block_size());
        match place {
            DamageLocation::Superblock => Some(uext4_format::superblock::SUPERBLOCK_OFFSET),
            DamageLocation::Group(group) => {
                let (block, at) = geometry.descriptor_location(group);
                Some(block.0 * block_size + u64::from(at))
            }
            DamageLocation::Block(block) | DamageLocation::InodeBlock(_, block) => {
                block.0.checked_mul(block_size)
            }
            DamageLocation::Inode(inode) => self.inode_byte(inode),
            DamageLocation::JournalBlock(_) => None,
        }
    }

    fn inode_byte(&self, inode: InodeNr) -> Option<u64> {
        let geometry = &self.geometry;
        let (group, index) = geometry.split_inode(inode)?;
        let descriptor = self.descriptors.get(usize_of(group.0))?.as_ref()?;
        let (block, at) = geometry.inode_location(descriptor.inode_table, index);
        Some(block.0 * u64::from(geometry.block_size()) + u64::from(at))
    }

    fn block_bytes(&self) -> u64 {
        u64::from(self.geometry.block_size())
    }

    fn groups(&self) -> impl Iterator<Item = GroupNr> + use<> {
        (0..self.geometry.group_count).map(GroupNr)
    }
}

/// Memory for each group during the check, in bytes.
const GROUP_BYTES: u64 = 300;
