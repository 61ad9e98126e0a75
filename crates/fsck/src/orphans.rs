//! Collects orphans: a deleted orphan may be marked in use, and its deletion time may be a link of
//! the orphan list.

use crate::{Check, Step, Stop};
use std::collections::BTreeSet;
use uext4_format::orphan_file::{
    ORPHAN_FILE_BLOCKS_MAX, orphan_slot, orphan_slots_per_block, verify_orphan_block,
};
use uext4_format::{
    BlockNr, CorruptKind, Feature, Inode, InodeNr, Place, RawInode, Seed, superblock::state,
};
use uext4_num::{clamp_usize, u64_of};
use uext4_volume::{Error, FileMap, MapSource};

const STRUCTURE: &str = "orphan file";

/// Memory for each, in bytes.
const BYTES_EACH: u64 = 16;

impl Check<'_> {
    /// Reads the slots of the orphan file. Damage of the file is a finding; its other blocks count.
    pub(crate) fn read_orphan_file(&mut self) -> Step {
        if !self.geometry.features.has(Feature::ORPHAN_FILE) {
            return Ok(());
        }
        let nr = InodeNr(self.superblock.orphan_file_inum);
        let Some(raw) = self.read_inode(nr)? else {
            return Ok(());
        };
        let size = usize::from(self.geometry.inode_size);
        let raw = raw.get(..size).unwrap_or(&raw);
        let inode = match Inode::parse(raw, nr, &self.geometry, &self.checksums) {
            Ok(inode) => inode,
            Err(corrupt) => {
                self.add_corrupt(&corrupt);
                return Ok(());
            }
        };
        let blocks = inode.size / self.block_bytes();
        let is_whole = inode.size.is_multiple_of(self.block_bytes());
        if !is_whole || !(1..=ORPHAN_FILE_BLOCKS_MAX.into()).contains(&blocks) {
            self.add_problem(Place::Inode(nr), STRUCTURE, CorruptKind::BadSize);
            return Ok(());
        }
        let source = MapSource {
            device: self.device,
            geometry: &self.geometry,
            checksums: self.checksums,
        };
        match FileMap::read_before(source, nr, &inode, blocks) {
            Err(Error::Corrupt(corrupt)) => self.add_corrupt(&corrupt),
            Err(error) => return Err(Stop::Failed(error)),
            Ok(map) => {
                let extents = map.extents.iter();
                let mapped = extents.flat_map(|extent| extent.start.0..extent.physical_end());
                let mapped: Vec<u64> = mapped.take(clamp_usize(blocks)).collect();
                if u64_of(mapped.len()) < blocks {
                    self.add_problem(Place::Inode(nr), STRUCTURE, CorruptKind::Hole);
                }
                let seed = self.checksums.inode_seed(nr, inode.generation);
                for block in mapped {
                    self.read_slots(BlockNr(block), seed)?;
                }
            }
        }
        Ok(())
    }

    fn read_slots(&mut self, nr: BlockNr, seed: Option<Seed>) -> Step {
        let block = self.read(nr)?;
        if let Err(corrupt) = verify_orphan_block(&block, nr, seed) {
            self.add_corrupt(&corrupt);
            return Ok(());
        }
        let slots = 0..orphan_slots_per_block(block.len());
        let before = self.orphan_file.len();
        self.orphan_file
            .extend(slots.filter_map(|slot| orphan_slot(&block, slot)));
        self.take(u64_of(self.orphan_file.len() - before) * BYTES_EACH)
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
        self.orphans = found;
        Ok(())
    }

    fn may_be_orphan(&self, nr: u32) -> bool {
        nr >= self.geometry.first_inode && self.geometry.contains_inode(InodeNr(nr))
    }

    pub(crate) fn is_orphan(&self, nr: InodeNr) -> bool {
        self.orphans.contains(&nr.0)
    }
}
