//! Repair of the journal's inode. Its records were replayed before, so that its blocks may be any.

use super::Outcome;
use super::patch::Patch;
use crate::state::Step;
use std::ops::Range;
use uext4_format::extent::{Extent, ExtentState};
use uext4_format::{BlockNr, Feature, FileType, Inode, InodeNr, KNOWN_EXTRA_BYTES, LogicalBlock};
use uext4_mkfs::journal_of_backup;
use uext4_num::{clamp_u16, clamp_u32, usize_of};
use uext4_volume::{append_extent, has_map};

impl Patch<'_, '_> {
    pub(super) fn is_journal(&self, nr: InodeNr) -> bool {
        self.check.geometry.features.has(Feature::HAS_JOURNAL)
            && self.superblock.journal_inum == nr.0
    }

    /// Lets the superblock name the journal's inode, mends that, or gives up the journal.
    pub(super) fn repair_journal_inode(&mut self, nr: InodeNr) -> Step<Outcome> {
        if self.names_usual_journal(nr)? {
            return Ok(Outcome::Repaired);
        }
        self.give_up_journal(nr)
    }

    /// Lets the superblock name the journal's usual inode in place of `nr`, if that is a file.
    fn names_usual_journal(&mut self, nr: InodeNr) -> Step<bool> {
        let usual = self.inode(InodeNr::JOURNAL)?.filter(|usual| {
            usual.file_type() == Some(FileType::Regular) && usual.links > 0 && usual.size > 0
        });
        let is_other = nr != InodeNr::JOURNAL && usual.is_some();
        if is_other {
            self.superblock.journal_inum = InodeNr::JOURNAL.0;
        }
        Ok(is_other)
    }

    /// Makes the journal's inode from its copy in the superblock; without one the file system goes
    /// on without a journal, whose records were replayed before.
    pub(super) fn give_up_journal(&mut self, nr: InodeNr) -> Step<Outcome> {
        match self.mend_journal(nr)? {
            Outcome::Repaired => Ok(Outcome::Repaired),
            Outcome::Impossible => self.forget_journal(),
        }
    }

    /// Makes the journal's inode from its copy, or else fills the holes of its map.
    pub(super) fn mend_journal(&mut self, nr: InodeNr) -> Step<Outcome> {
        if self.restore_journal(nr)? == Outcome::Repaired {
            return Ok(Outcome::Repaired);
        }
        let Some(mut inode) = self.inode(nr)?.filter(has_map) else {
            return Ok(Outcome::Impossible);
        };
        if !self.fill_journal(nr, &mut inode)? {
            return Ok(Outcome::Impossible);
        }
        self.write_inode(nr, &inode)?;
        Ok(Outcome::Repaired)
    }

    pub(super) fn forget_journal(&mut self) -> Step<Outcome> {
        let mut features = self.superblock.features();
        features.remove(Feature::HAS_JOURNAL);
        features.remove(Feature::RECOVER);
        self.superblock.set_features(features);
        self.superblock.journal_inum = 0;
        Ok(Outcome::Repaired)
    }

    /// Makes the journal's inode from the superblock's copy, if that says anything else.
    pub(super) fn restore_journal(&mut self, nr: InodeNr) -> Step<Outcome> {
        let geometry = self.check.geometry;
        let copy = journal_of_backup(&self.superblock, &geometry);
        let Some(copy) = copy.filter(|_| self.check.inode_byte(nr).is_some()) else {
            return Ok(Outcome::Impossible);
        };
        let old = self.inode(nr)?;
        let is_same = old.as_ref().is_some_and(|old| {
            let is_file = old.file_type() == Some(FileType::Regular) && old.links > 0;
            let has_format = old.flags.contains(copy.flags);
            is_file && has_format && old.i_block == copy.i_block && old.size == copy.size
        });
        let has_map = !self.mapped_by(nr, &copy)?.is_empty();
        if is_same || !has_map {
            return Ok(Outcome::Impossible);
        }
        let times = old.unwrap_or_else(|| Inode::new(&geometry, KNOWN_EXTRA_BYTES));
        let mut inode = Inode::new(&geometry, KNOWN_EXTRA_BYTES);
        (inode.atime, inode.mtime, inode.ctime) = (times.atime, times.mtime, times.ctime);
        (inode.mode, inode.links, inode.size) = (copy.mode, copy.links, copy.size);
        inode.generation = times.generation;
        (inode.flags, inode.i_block) = (copy.flags, copy.i_block);
        self.write_inode(nr, &inode)?;
        Ok(Outcome::Repaired)
    }

    /// Lets the journal map each block of its size, with new blocks of zeroes in the holes: it is
    /// empty. False if less than half of it is there, or without space.
    fn fill_journal(&mut self, nr: InodeNr, inode: &mut Inode) -> Step<bool> {
        let blocks = inode.size / self.check.block_bytes();
        let found = self.extents_of(nr, inode)?;
        let there: u64 = found.iter().map(|extent| u64::from(extent.len)).sum();
        let has_clusters = self.check.geometry.features.has(Feature::BIGALLOC);
        if has_clusters || there < blocks.div_ceil(2) || there == 0 {
            return Ok(false);
        }
        let Some(found) = self.set_apart(nr, found)? else {
            return Ok(false);
        };
        let (mut filled, mut next) = (Vec::new(), 0);
        for extent in found {
            let start = u64::from(extent.logical.0).min(blocks);
            if !self.add_zeroes(&mut filled, next..start)? {
                return Ok(false);
            }
            next = extent.logical_end().min(blocks);
            if next > start {
                let state = ExtentState::Written;
                let len = clamp_u16(next - start);
                append_extent(
                    &mut filled,
                    Extent {
                        len,
                        state,
                        ..extent
                    },
                );
            }
        }
        Ok(self.add_zeroes(&mut filled, next..blocks)? && self.set_map(nr, inode, &filled)?)
    }

    /// Maps new blocks of zeroes; false without space.
    fn add_zeroes(&mut self, filled: &mut Vec<Extent>, holes: Range<u64>) -> Step<bool> {
        for logical in holes {
            let goal = filled.last().map_or(0, Extent::physical_end);
            let Some(start) = self.allocate(BlockNr(goal))? else {
                return Ok(false);
            };
            self.write_data(start, &vec![0; usize_of(self.check.geometry.block_size())])?;
            let next = Extent {
                logical: LogicalBlock(clamp_u32(logical)),
                start,
                len: 1,
                state: ExtentState::Written,
            };
            append_extent(filled, next);
        }
        Ok(true)
    }
}
