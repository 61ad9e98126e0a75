//! Repair of inodes that the superblock names: the root directory, the journal, quota files.

use super::Outcome;
use super::inodes::PERMISSIONS;
use super::patch::Patch;
use crate::report::Finding;
use crate::state::Step;
use uext4_format::dirent::{DirEntryType, DirLeaf, LeafTail, init_first_block};
use uext4_format::extent::{Extent, ExtentState};
use uext4_format::{
    BlockNr, CorruptKind, DamageLocation, Feature, FileType, GroupNr, Inode, InodeFlags, InodeNr,
    KNOWN_EXTRA_BYTES, LogicalBlock, Timestamp,
};

impl Patch<'_, '_> {
    pub(super) fn repair_own_inode(&mut self, nr: InodeNr, findings: &[Finding]) -> Step<Outcome> {
        let mut problems = findings.iter().map(|finding| &finding.corrupt);
        let Some(problem) = problems.next() else {
            return Ok(Outcome::Impossible);
        };
        match (problem.structure, problem.problem) {
            (_, CorruptKind::InodeFree) if self.write_table_of(nr)? => Ok(Outcome::Repaired),
            ("root directory", CorruptKind::SpecialNamed) => {
                self.forget_file(nr);
                if self.is_journal(nr) {
                    return self.forget_journal();
                }
                Ok(Outcome::Repaired)
            }
            ("root directory", _) => self.restore_root(),
            ("journal inode", CorruptKind::JournalShort) => self.mend_journal(nr),
            ("journal inode", _) => self.repair_journal_inode(nr),
            ("quota file", CorruptKind::InodeFree) => self.make_quota_file(nr),
            ("quota file", _) => {
                self.forget_file(nr);
                Ok(Outcome::Repaired)
            }
            _ => Ok(Outcome::Impossible),
        }
    }

    /// Lets the superblock name no file of this number, except a journal.
    pub(super) fn forget_file(&mut self, nr: InodeNr) {
        let disk = &mut self.superblock;
        for number in [
            &mut disk.usr_quota_inum,
            &mut disk.grp_quota_inum,
            &mut disk.prj_quota_inum,
        ] {
            if *number == nr.0 {
                *number = 0;
            }
        }
        if disk.orphan_file_inum == nr.0 {
            let mut features = disk.features();
            features.remove(Feature::ORPHAN_FILE);
            features.remove(Feature::ORPHAN_PRESENT);
            disk.set_features(features);
            disk.orphan_file_inum = 0;
        }
    }

    /// Lets the inode of the root be a directory again, or makes a new one.
    fn restore_root(&mut self) -> Step<Outcome> {
        if let Some(mut inode) = self.inode(InodeNr::ROOT)?
            && self.is_directory(InodeNr::ROOT, &inode)?
        {
            inode.mode = FileType::Directory.mode_bits() | inode.mode & PERMISSIONS;
            inode.links = inode.links.max(LINKS_OF_EMPTY);
            inode.dtime = 0;
            self.write_inode(InodeNr::ROOT, &inode)?;
            return Ok(Outcome::Repaired);
        }
        self.make_root()
    }

    /// Makes an empty root directory. What it led to is found by later rounds.
    pub(super) fn make_root(&mut self) -> Step<Outcome> {
        let geometry = self.check.geometry;
        let goal = geometry.group_first_block(GroupNr(0));
        let Some(block) = self.allocate(goal)? else {
            return Ok(Outcome::Impossible);
        };
        let nr = InodeNr::ROOT;
        let mut inode = Inode::new(&geometry, KNOWN_EXTRA_BYTES);
        inode.mode = FileType::Directory.mode_bits() | 0o755;
        inode.links = LINKS_OF_EMPTY;
        let now = self.check.clock.wall();
        let now = inode.stored(Timestamp::new(now.seconds, now.nanoseconds));
        (inode.atime, inode.mtime, inode.ctime) = (now, now, now);
        inode.size = self.check.block_bytes();
        if geometry.features.has(Feature::EXTENTS) {
            inode.flags.insert(InodeFlags::EXTENTS);
        }
        let extent = Extent {
            logical: LogicalBlock(0),
            start: block,
            len: 1,
            state: ExtentState::Written,
        };
        let sectors = geometry.cluster_size() / 512;
        if !self.set_map(nr, &mut inode, &[extent])?
            || inode.set_sectors(sectors, &geometry).is_err()
        {
            return Ok(Outcome::Impossible);
        }
        self.write_first_block(nr, &inode, block)?;
        self.write_inode(nr, &inode)?;
        Ok(Outcome::Repaired)
    }

    fn write_first_block(&mut self, nr: InodeNr, inode: &Inode, block: BlockNr) -> Step {
        let seed = self.check.checksums.inode_seed(nr, inode.generation);
        let tail = if seed.is_some() {
            LeafTail::Checksum
        } else {
            LeafTail::None
        };
        let kind = if self.check.geometry.features.has(Feature::FILETYPE) {
            DirEntryType::from(FileType::Directory)
        } else {
            DirEntryType::Unknown
        };
        let mut bytes = self.read(block)?;
        bytes.fill(0);
        init_first_block(&mut bytes, tail, nr, nr, kind);
        if let Some(seed) = seed {
            DirLeaf::new(&mut bytes[..], tail, DamageLocation::Inode(nr)).update_checksum(seed);
        }
        self.write(block, bytes)
    }
}

/// Links of a directory without subdirectories.
const LINKS_OF_EMPTY: u16 = 2;
