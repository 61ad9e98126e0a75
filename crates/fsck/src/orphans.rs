//! Collects orphans from the orphan file and the list in the inodes: a deleted orphan may be marked
//! in use, and its deletion time may be a link of the list. Checks the orphan file on the way, by
//! plain reads: a mount refuses one that is damaged.

use crate::state::{Check, Step, Stop};
use std::collections::BTreeSet;
use uext4_format::orphan_file::{
    ORPHAN_FILE_BLOCKS_MAX, orphan_checksum, orphan_slot, orphan_slots_per_block,
    verify_orphan_block,
};
use uext4_format::{
    BlockNr, CorruptKind, DamageLocation, Feature, Inode, InodeNr, RawInode, Seed,
    superblock::state,
};
use uext4_num::{clamp_usize, u64_of};
use uext4_sync::Arc;
use uext4_volume::{Error, FileMap, MapSource};

const STRUCTURE: &str = "orphan file";
const BLOCK: &str = "orphan file block";

/// Memory for each, in bytes.
const BYTES_EACH: u64 = 24;

impl Check<'_> {
    /// Reads the slots of the orphan file, and compares them with the superblock. Damage of a block
    /// is a finding; the other blocks count.
    pub(crate) fn read_orphan_file(&mut self) -> Step {
        if !self.geometry.features.has(Feature::ORPHAN_FILE) {
            return Ok(());
        }
        let nr = InodeNr(self.superblock.orphan_file_inum);
        if !self.may_be_orphan(nr.0) {
            self.add_problem(
                DamageLocation::Superblock,
                STRUCTURE,
                CorruptKind::NumberRange,
            );
            return Ok(());
        }
        let Some(raw) = self.read_inode(nr)? else {
            return Ok(());
        };
        match Inode::parse(&raw, nr, &self.geometry, &self.checksums) {
            Err(corrupt) => self.add_early(&corrupt),
            Ok(inode) => {
                if let Some(blocks) = self.orphan_blocks(nr, &inode)? {
                    self.read_all_slots(nr, &inode, &blocks)?;
                }
            }
        }
        Ok(())
    }

    /// The blocks of the orphan file in order; `None` if it is damaged.
    pub(crate) fn orphan_blocks(
        &mut self,
        nr: InodeNr,
        inode: &Inode,
    ) -> Step<Option<Vec<BlockNr>>> {
        let len = inode.size / self.block_bytes();
        let is_whole = inode.size.is_multiple_of(self.block_bytes());
        if !is_whole || !(1..=ORPHAN_FILE_BLOCKS_MAX.into()).contains(&len) {
            self.add_problem(DamageLocation::Inode(nr), STRUCTURE, CorruptKind::BadSize);
            return Ok(None);
        }
        let source = MapSource {
            device: self.device,
            geometry: &self.geometry,
            checksums: self.checksums,
        };
        let map = match FileMap::read_before(source, nr, inode, len) {
            Ok(map) => map,
            Err(Error::Corrupt(corrupt)) => {
                self.add_early(&corrupt);
                return Ok(None);
            }
            Err(error) => return Err(Stop::Failed(error)),
        };
        let mut blocks = Vec::new();
        for extent in &map.extents {
            if !self.may_map(&(extent.start.0..extent.physical_end())) {
                let problem = CorruptKind::OutsideData;
                self.add_problem(DamageLocation::Inode(nr), STRUCTURE, problem);
                return Ok(None);
            }
            if u64::from(extent.logical.0) == u64_of(blocks.len()) {
                blocks.extend((extent.start.0..extent.physical_end()).map(BlockNr));
            }
        }
        blocks.truncate(clamp_usize(len));
        if u64_of(blocks.len()) < len {
            self.add_problem(DamageLocation::Inode(nr), STRUCTURE, CorruptKind::Hole);
            return Ok(None);
        }
        Ok(Some(blocks))
    }

    fn read_all_slots(&mut self, nr: InodeNr, inode: &Inode, blocks: &[BlockNr]) -> Step {
        let seed = self.checksums.inode_seed(nr, inode.generation);
        let mut is_sound = true;
        for block in blocks {
            is_sound &= self.read_slots(*block, seed)?;
        }
        let is_claimed = self.geometry.features.has(Feature::ORPHAN_PRESENT);
        let is_empty = self.orphan_file.is_empty();
        if !is_claimed && !is_empty {
            self.add_problem(
                DamageLocation::Inode(nr),
                STRUCTURE,
                CorruptKind::OrphansDenied,
            );
        }
        // A mount sets the mark at its start; so it is there if the log had to be replayed.
        let was_mounted =
            self.subject.replayed.is_some() || self.geometry.features.has(Feature::RECOVER);
        if is_claimed && is_empty && is_sound && !was_mounted {
            self.add_problem(
                DamageLocation::Inode(nr),
                STRUCTURE,
                CorruptKind::OrphansClaimed,
            );
        }
        Ok(())
    }

    /// Reads the slots of a block; false if it is damaged.
    fn read_slots(&mut self, nr: BlockNr, seed: Option<Seed>) -> Step<bool> {
        let block = self.read(nr)?;
        if let Err(corrupt) = verify_orphan_block(&block, nr, seed) {
            self.add_corrupt(&corrupt);
            return Ok(false);
        }
        if seed.is_none() && orphan_checksum(&block) != 0 {
            let problem = CorruptKind::SealWithoutFeature;
            self.add_problem(DamageLocation::Block(nr), BLOCK, problem);
            return Ok(false);
        }
        let slots = 0..orphan_slots_per_block(block.len());
        let all = slots.filter_map(|slot| orphan_slot(&block, slot));
        let (found, others): (Vec<_>, Vec<_>) = all.partition(|nr| self.may_be_orphan(nr.0));
        self.take(u64_of(found.len()) * BYTES_EACH)?;
        self.orphan_file.extend(found);
        if others.is_empty() {
            return Ok(true);
        }
        self.add_problem(
            DamageLocation::Block(nr),
            STRUCTURE,
            CorruptKind::NumberRange,
        );
        Ok(false)
    }

    /// Collects them. With the error state set, neither a mount nor e2fsck frees any.
    pub(crate) fn find_orphans(&mut self) -> Step {
        let (marked, last) = (self.superblock.state, self.superblock.last_orphan);
        if marked & state::ERROR != 0 {
            return Ok(());
        }
        let mut found: BTreeSet<u32> = self.orphan_file.iter().map(|nr| nr.0).collect();
        let (mut next, mut met) = (last, BTreeSet::new());
        while self.may_be_orphan(next) && met.insert(next) {
            self.take(BYTES_EACH)?;
            let Some(inode) = self.read_inode(InodeNr(next))? else {
                break;
            };
            next = RawInode(&inode).dtime();
        }
        found.append(&mut met);
        self.orphans = Arc::new(found);
        Ok(())
    }

    fn may_be_orphan(&self, nr: u32) -> bool {
        nr >= self.geometry.first_inode && self.geometry.contains_inode(InodeNr(nr))
    }

    pub(crate) fn is_orphan(&self, nr: InodeNr) -> bool {
        self.orphans.contains(&nr.0)
    }
}
