//! State of a check, and its passes in order.

use crate::attributes::SharedBlocks;
use crate::bits::Bits;
use crate::contested::Contested;
use crate::derived::Derived;
use crate::links::Links;
use crate::names::NameSet;
use crate::opened::Opened;
use crate::part::Trial;
use crate::policies::Policies;
use crate::report::{CheckReport, Finding, Limits, Pass};
use crate::subject::Subject;
use crate::usages::Usages;
use crate::values::Values;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;
use uext4_device::{BlockDevice, Scratch};
use uext4_format::{
    BlockNr, Checksums, Corrupt, CorruptKind, DamageLocation, Geometry, GroupDescriptor, GroupNr,
    InodeNr, Superblock,
};
use uext4_journal::Log;
use uext4_num::{clamp_usize, u64_of, usize_of};
use uext4_sync::{Arc, Clock};
use uext4_volume::{Error, HiddenInodes};

/// Reason for an early end.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The report has the reason.
    Incomplete,
    /// A repair has something to write.
    Changed,
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Failed(error)
    }
}

pub(crate) type Step<T = ()> = std::result::Result<T, Stop>;

/// Called between the passes of a check.
pub(crate) trait Gate {
    /// Ends the check with [`Stop::Changed`] if there is something to write.
    fn pass(&mut self, check: &mut Check<'_>) -> Step;
}

/// State of a check.
pub(crate) struct Check<'a> {
    pub(crate) subject: &'a Subject,
    pub(crate) device: &'a dyn BlockDevice,
    pub(crate) superblock: &'a Superblock,
    pub(crate) geometry: Geometry,
    pub(crate) checksums: Checksums,
    pub(crate) hidden: HiddenInodes,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) limits: &'a Limits,
    pub(crate) started: Duration,
    pub(crate) report: CheckReport,
    pub(crate) descriptors: Arc<Vec<Option<GroupDescriptor>>>,
    /// Descriptors of which only the tables count, whatever is stored; `None` if no table is known.
    pub(crate) assumed: Arc<BTreeMap<GroupNr, Option<GroupDescriptor>>>,
    /// Parts of inode tables that were never written; empty until the map of bad blocks is met.
    pub(crate) unwritten_tables: Vec<Range<u64>>,
    /// Metadata blocks that no file may map, sorted and merged.
    pub(crate) metadata: Arc<Vec<Range<u64>>>,
    /// Clusters in use.
    pub(crate) claimed: Bits,
    /// Those with more than one owner, during a repair.
    pub(crate) contested: Contested,
    /// Numbers that structures have to say, during a repair.
    pub(crate) derived: Derived,
    pub(crate) links: Links,
    /// Names of the directory that is checked.
    pub(crate) names: NameSet,
    /// Large directories, which are checked after the others.
    pub(crate) large: Vec<InodeNr>,
    /// The next part of the directories.
    pub(crate) opened: Option<Opened>,
    /// What a part that is checked on trial would record.
    pub(crate) trial: Option<Trial>,
    /// Directories with a damaged map.
    pub(crate) unreadable: Bits,
    /// Blocks that were read at once, for the next time.
    pub(crate) buffer: Vec<u8>,
    /// The block of the last inode that was read by its number.
    inode_block: Option<(BlockNr, Vec<u8>)>,
    pub(crate) shared: SharedBlocks,
    /// Whether a file requires the feature of large files.
    pub(crate) has_large_files: bool,
    pub(crate) values: Values,
    /// Those of encrypted inodes; not changed after the pass over the inodes.
    pub(crate) policies: Arc<Policies>,
    /// What the owners of the inodes use.
    pub(crate) usages: Usages,
    /// The inodes in the slots of the orphan file.
    pub(crate) orphan_file: Vec<InodeNr>,
    /// Damage that was met on the way to the log and to the orphan file; a few at most.
    pub(crate) early: Vec<Corrupt>,
    pub(crate) orphans: Arc<BTreeSet<u32>>,
    pub(crate) memory_bytes: u64,
    /// The file for arrays, once memory is short; it may fail.
    scratch: Option<std::io::Result<Arc<Scratch>>>,
    /// Whether more memory than this is not to be had.
    is_packed: bool,
    pub(crate) steps: u32,
    /// The log, if there is one, whatever its superblock says.
    pub(crate) found_log: Option<Log>,
    /// The log, if it is sound and empty.
    pub(crate) log: Option<Log>,
    /// Repairs what a pass has found.
    pub(crate) gate: Option<&'a mut dyn Gate>,
}

impl<'a> Check<'a> {
    pub(crate) fn new(subject: &'a Subject, limits: &'a Limits) -> Self {
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
            descriptors: Arc::default(),
            assumed: Arc::default(),
            unwritten_tables: Vec::new(),
            metadata: Arc::default(),
            claimed: Bits::default(),
            contested: Contested::default(),
            derived: Derived::default(),
            links: Links::default(),
            names: NameSet::default(),
            large: Vec::new(),
            opened: None,
            trial: None,
            unreadable: Bits::default(),
            buffer: Vec::new(),
            inode_block: None,
            shared: SharedBlocks::default(),
            has_large_files: false,
            values: Values::default(),
            policies: Arc::default(),
            usages: Usages::of(&subject.superblock),
            orphan_file: Vec::new(),
            early: Vec::new(),
            orphans: Arc::default(),
            memory_bytes: 0,
            scratch: None,
            is_packed: false,
            steps: 0,
            found_log: None,
            log: None,
            gate: None,
        }
    }

    pub(crate) fn run(&mut self) -> Step {
        self.claim_all()?;
        self.check_own_inodes()?;
        self.shared_blocks()?;
        self.compare_values()?;
        self.end_pass()?;
        self.check_directories()?;
        self.end_pass()?;
        self.check_links()?;
        self.end_pass()?;
        self.check_bitmaps()?;
        self.end_pass()?;
        self.check_quotas()?;
        self.end_pass()
    }

    /// The passes up to that over the inodes, which claims what is in use.
    pub(crate) fn claim_all(&mut self) -> Step {
        let geometry = &self.geometry;
        let inodes = u64::from(geometry.inodes_count);
        let clusters = geometry.clusters_count();
        let groups = u64::from(geometry.group_count);
        let sets = Bits::empty_bytes(clusters) + Bits::empty_bytes(inodes + 1);
        self.take(sets + Links::empty_bytes(inodes) + groups * GROUP_BYTES)?;
        self.claimed = Bits::new(clusters);
        self.links = Links::new(inodes);
        self.unreadable = Bits::new(inodes + 1);
        // There was nothing to move before.
        (self.scratch, self.is_packed) = (None, false);
        self.check_superblock();
        self.check_quota_numbers();
        self.end_pass()?;
        self.check_groups()?;
        self.end_pass()?;
        self.check_log()?;
        self.check_mmp()?;
        self.read_orphan_file()?;
        self.find_orphans()?;
        self.end_pass()?;
        self.check_inodes()?;
        if self.limits.spill.is_some()
            && self.memory_bytes > self.limits.memory_bytes / SPILL_SHARE / 2
        {
            self.make_room();
        }
        self.links.are_complete = true;
        Ok(())
    }

    /// Has the findings repaired, if this is part of a repair.
    pub(crate) fn end_pass(&mut self) -> Step {
        let Some(gate) = self.gate.take() else {
            return Ok(());
        };
        let passed = gate.pass(self);
        self.gate = Some(gate);
        passed
    }

    /// Free blocks and inodes by the descriptors; `None` if one of these is damaged.
    pub(crate) fn free_counts(&self) -> Option<(u64, u32)> {
        let (mut clusters, mut inodes) = (0, 0u32);
        for descriptor in self.descriptors.iter() {
            let descriptor = descriptor.as_ref()?;
            clusters += u64::from(descriptor.free_clusters);
            inodes = inodes.saturating_add(descriptor.free_inodes);
        }
        Some((clusters << self.geometry.cluster_bits, inodes))
    }

    /// Counts memory before its allocation.
    pub(crate) fn take(&mut self, bytes: u64) -> Step {
        self.memory_bytes = self.memory_bytes.saturating_add(bytes);
        let limit = self.limits.memory_bytes;
        let can_spill = self.limits.spill.is_some() && self.scratch.is_none();
        let most = if can_spill {
            limit / SPILL_SHARE
        } else {
            limit
        };
        if self.memory_bytes > most {
            self.make_room();
        }
        if self.memory_bytes > limit {
            return match &self.scratch {
                Some(Err(_)) => self.give_up(NO_FILE),
                _ => self.give_up("it needs more memory than it may take"),
            };
        }
        Ok(())
    }

    /// Moves arrays to a file once half of the memory is taken, so that the other half is for
    /// all else; without a file, compresses them at the limit, as long as that gives enough back.
    fn make_room(&mut self) {
        if self.trial.is_some() || self.is_packed {
            return;
        }
        let was_over = self.memory_bytes > self.limits.memory_bytes;
        if let (None, Some(dir)) = (&self.scratch, &self.limits.spill) {
            self.scratch = Some(Scratch::in_dir(dir).map(Arc::new));
        }
        let scratch = self.scratch.as_ref().and_then(|made| made.as_ref().ok());
        let freed = self.claimed.make_room(scratch) + self.links.make_room(scratch);
        self.give_back(freed);
        self.is_packed = was_over && freed < self.limits.memory_bytes / PACKED_SHARE;
    }

    /// Whether all numbers in the file are as they were written.
    pub(crate) fn check_scratch(&self) -> Result<(), Error> {
        match &self.scratch {
            Some(Ok(scratch)) => Ok(scratch.check()?),
            _ => Ok(()),
        }
    }

    /// Marks clusters in use; returns how many were not so far.
    pub(crate) fn claim(&mut self, clusters: Range<u64>) -> Step<u64> {
        if let Some(trial) = &mut self.trial {
            let wanted = clusters.end.saturating_sub(clusters.start);
            if trial.claim(clusters) {
                return Ok(wanted);
            }
            return self.end_trial();
        }
        self.take(self.claimed.more_bytes(&clusters))?;
        Ok(self.claimed.put_all(clusters))
    }

    pub(crate) fn give_back(&mut self, bytes: u64) {
        self.memory_bytes = self.memory_bytes.saturating_sub(bytes);
    }

    pub(crate) fn give_up<T>(&mut self, why: &'static str) -> Step<T> {
        self.report.incomplete = Some(why);
        Err(Stop::Incomplete)
    }

    /// Ends a part on trial whose result becomes too large; the thread that collects checks it.
    pub(crate) fn end_trial<T>(&mut self) -> Step<T> {
        self.give_up("a part of a pass has too many results")
    }

    /// Tells how far a pass is.
    pub(crate) fn advance(&self, pass: Pass, done: usize, total: usize) {
        if let Some(watch) = &self.limits.watch {
            watch.advance(pass, u64_of(done), u64_of(total));
        }
    }

    /// Called once per block that is read.
    pub(crate) fn tick(&mut self) -> Step {
        self.steps = self.steps.wrapping_add(1);
        if self.steps.is_multiple_of(256) {
            let spent = self.clock.monotonic().saturating_sub(self.started);
            if spent > self.limits.time {
                return self.give_up("it takes longer than it may");
            }
        }
        Ok(())
    }

    pub(crate) fn read(&mut self, block: BlockNr) -> Step<Vec<u8>> {
        self.tick()?;
        let mut bytes = vec![0; usize_of(self.geometry.block_size())];
        let at = block.0 * self.block_bytes();
        let read = self.device.read_at(at, &mut bytes);
        read.map_err(|error| Stop::Failed(error.into()))?;
        Ok(bytes)
    }

    /// Blocks that are read at once.
    pub(crate) fn blocks_per_read(&self) -> u32 {
        (READ_BYTES / self.geometry.block_size()).max(1)
    }

    /// Reads blocks that follow each other, at most [`Self::blocks_per_read`].
    pub(crate) fn read_run(&mut self, start: BlockNr, blocks: u32, out: &mut Vec<u8>) -> Step {
        for _ in 0..blocks {
            self.tick()?;
        }
        out.resize(usize_of(blocks) * usize_of(self.geometry.block_size()), 0);
        let read = self.device.read_at(start.0 * self.block_bytes(), out);
        read.map_err(|error| Stop::Failed(error.into()))
    }

    /// The bytes of an inode; `None` if its group is damaged.
    pub(crate) fn read_inode(&mut self, nr: InodeNr) -> Step<Option<Vec<u8>>> {
        let Some(byte) = self.inode_byte(nr) else {
            return Ok(None);
        };
        let block_size = self.block_bytes();
        let nr = BlockNr(byte / block_size);
        let block = match self.inode_block.take() {
            Some((last, block)) if last == nr => block,
            _ => self.read(nr)?,
        };
        let start = clamp_usize(byte % block_size);
        let end = start + usize::from(self.geometry.inode_size);
        let bytes = block.get(start..end).map(<[u8]>::to_vec);
        self.inode_block = Some((nr, block));
        Ok(bytes)
    }

    pub(crate) fn add_problem(
        &mut self,
        place: DamageLocation,
        structure: &'static str,
        problem: CorruptKind,
    ) {
        self.add_corrupt(&Corrupt::new(place, structure, problem));
    }

    pub(crate) fn add_corrupt(&mut self, corrupt: &Corrupt) {
        self.add(corrupt.clone(), None);
    }

    /// As [`Self::add_problem`], with a detail: the expected value, or a name.
    pub(crate) fn add_detailed(
        &mut self,
        place: DamageLocation,
        structure: &'static str,
        problem: CorruptKind,
        detail: String,
    ) {
        self.add(Corrupt::new(place, structure, problem), Some(detail));
    }

    pub(crate) fn add(&mut self, corrupt: Corrupt, detail: Option<String>) {
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
    pub(crate) fn add_early(&mut self, corrupt: &Corrupt) {
        self.add_corrupt(corrupt);
        self.early.push(corrupt.clone());
    }

    /// Byte offset of a structure on the device.
    pub(crate) fn byte_of(&self, place: DamageLocation) -> Option<u64> {
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

    pub(crate) fn inode_byte(&self, inode: InodeNr) -> Option<u64> {
        let geometry = &self.geometry;
        let (group, index) = geometry.split_inode(inode)?;
        let descriptor = self.descriptors.get(usize_of(group.0))?.as_ref()?;
        let (block, at) = geometry.inode_location(descriptor.inode_table, index);
        Some(block.0 * u64::from(geometry.block_size()) + u64::from(at))
    }

    pub(crate) fn block_bytes(&self) -> u64 {
        u64::from(self.geometry.block_size())
    }

    pub(crate) fn groups(&self) -> impl Iterator<Item = GroupNr> + use<> {
        (0..self.geometry.group_count).map(GroupNr)
    }
}

/// Reason for an early end.
const NO_FILE: &str = "it needs more memory than it may take, and could not make a temporary file";

/// Bytes that are read at once.
const READ_BYTES: u32 = 1 << 18;

/// The part of the limit that is in memory before a file is used. Tests use it at once.
const SPILL_SHARE: u64 = if cfg!(test) { 1 << 20 } else { 2 };

/// The least part of the limit that is worth a search for equal numbers.
const PACKED_SHARE: u64 = 16;

/// Memory for each group during the check, in bytes.
const GROUP_BYTES: u64 = 300;

#[cfg(test)]
mod tests {
    use super::*;

    /// Claims 100 pages of clusters at a limit for a few of them, then a cluster of each of 100
    /// others: how many of the former are claimed, and why the check ends.
    fn claimed_with(spill: Option<&str>) -> (u64, Option<&'static str>) {
        const CLUSTERS_PER_PAGE: u64 = 4096 * 8;
        let subject = Subject::of_new_image();
        let limits = Limits {
            memory_bytes: 8 * 4096,
            spill: spill.map(Into::into),
            ..Limits::default()
        };
        let mut check = Check::new(&subject, &limits);
        check.claimed = Bits::new(200 * CLUSTERS_PER_PAGE);
        let pages = (0..100).map(|at| at * CLUSTERS_PER_PAGE);
        let pages = pages.take_while(|at| check.claim(*at..at + CLUSTERS_PER_PAGE).is_ok());
        let n_pages = u64_of(pages.count());
        assert!((0..n_pages).all(|at| check.claimed.has(at * CLUSTERS_PER_PAGE)));
        // Pages of several numbers, which nothing makes smaller.
        let rest = (100..200).map(|at| at * CLUSTERS_PER_PAGE);
        let mut rest = rest.map(|at| check.claim(at..at + 1));
        assert!(rest.any(|claimed| claimed.is_err()));
        drop(rest);
        (n_pages, check.report.incomplete)
    }

    #[test]
    fn equal_pages_are_compressed_at_the_limit() {
        let (n_pages, why) = claimed_with(None);
        assert_eq!(n_pages, 100);
        assert_eq!(why, Some("it needs more memory than it may take"));
        assert_eq!(claimed_with(Some("/nowhere")), (100, Some(NO_FILE)));
    }
}
