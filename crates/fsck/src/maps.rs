//! Check of maps: extent trees and block tables, claimed block by block.

use super::slots::written_inodes;
use crate::state::{Check, Step};
use crate::subject::SharedData;
use std::ops::Range;
use uext4_format::extent::{Expect, ExtentNode, ExtentState};
use uext4_format::indirect::{DIRECT_BLOCKS, pointer};
use uext4_format::{
    BlockNr, Corrupt, CorruptKind, DamageLocation, Feature, FileType, Inode, InodeFlags, InodeNr,
    Seed,
};
use uext4_num::{clamp_u32, u64_of, usize_of};

/// Result of a walk over a map.
#[derive(Default)]
pub(crate) struct Mapped {
    /// Clusters of data, and blocks (as clusters) of the map itself.
    pub(crate) clusters: u64,
    /// Exclusive end of the data, in logical blocks (without preallocated ones).
    pub(crate) end: u64,
    /// Of a directory: its logical and device blocks.
    pub(crate) blocks: Vec<(u64, BlockNr)>,
    /// Read-only walk: claims nothing, fills `blocks`.
    looks: bool,
    /// Blocks of which every extent must be written: all of a directory, the size of an internal
    /// file.
    must_be_written: u64,
    /// Damaged, so that it is not walked again.
    pub(crate) is_bad: bool,
    last: Option<(u64, u64)>,
}

/// Direct entries of the inode, and levels of tables behind the other three.
const DIRECT: usize = usize_of(DIRECT_BLOCKS);
const LEVELS: usize = 3;
/// Slots that the header of a node may omit.
pub(crate) const ROOM_SPARED: usize = 2;

impl Check<'_> {
    /// Claims the blocks that an inode maps.
    pub(crate) fn claim_map(&mut self, nr: InodeNr, inode: &Inode) -> Step<Mapped> {
        let mut mapped = Mapped::default();
        self.walk_map(nr, inode, &mut mapped)?;
        Ok(mapped)
    }

    /// The blocks of a directory with a claimed map.
    pub(crate) fn blocks_of(&mut self, nr: InodeNr, inode: &Inode) -> Step<Vec<(u64, BlockNr)>> {
        let mut mapped = Mapped {
            looks: true,
            ..Mapped::default()
        };
        self.walk_map(nr, inode, &mut mapped)?;
        Ok(mapped.blocks)
    }

    fn walk_map(&mut self, nr: InodeNr, inode: &Inode, mapped: &mut Mapped) -> Step {
        if !inode.flags.contains(InodeFlags::EXTENTS) {
            return self.walk_tables(nr, inode, mapped);
        }
        mapped.must_be_written = match inode.file_type() {
            Some(FileType::Directory) => u64::MAX,
            _ if self.hidden.contains(nr) => inode.size.div_ceil(self.block_bytes()),
            _ => 0,
        };
        let geometry = &self.geometry;
        let blocks = u64::from(geometry.first_data_block)..geometry.blocks_count;
        let root = ExtentNode::new(&inode.i_block[..]);
        let expect = Expect::root(blocks);
        if let Err(corrupt) = root.validate(&expect, DamageLocation::Inode(nr)) {
            self.add_once(mapped, &corrupt);
            return Ok(());
        }
        self.check_room(&root, DamageLocation::Inode(nr), mapped);
        let checksums = Some(&self.checksums).filter(|_| root.depth() > 0);
        let seed = checksums.and_then(|checksums| checksums.inode_seed(nr, inode.generation));
        self.walk_node(nr, seed, &root, &expect, mapped)
    }

    /// Checks the slot count of a node: all that fit, minus up to two, once reserved for a
    /// checksum.
    fn check_room<B: AsRef<[u8]>>(
        &mut self,
        node: &ExtentNode<B>,
        place: DamageLocation,
        mapped: &mut Mapped,
    ) {
        if node.max() + ROOM_SPARED < node.capacity() {
            let problem = CorruptKind::SmallLimit;
            self.add_once(mapped, &Corrupt::new(place, "extent header", problem));
        }
    }

    fn walk_node<B: AsRef<[u8]>>(
        &mut self,
        nr: InodeNr,
        seed: Option<Seed>,
        node: &ExtentNode<B>,
        expect: &Expect,
        mapped: &mut Mapped,
    ) -> Step {
        if node.depth() == 0 {
            for extent in node.extents() {
                let start = extent.start.0;
                let run = start..start + u64::from(extent.len);
                let logical = u64::from(extent.logical.0);
                if extent.state == ExtentState::Written {
                    mapped.end = mapped.end.max(logical + u64::from(extent.len));
                } else if logical < mapped.must_be_written {
                    let place = DamageLocation::InodeBlock(nr, extent.start);
                    let problem = CorruptKind::NeverWritten;
                    self.add_once(mapped, &Corrupt::new(place, "inode map", problem));
                }
                self.claim_data(nr, logical, run, mapped)?;
            }
            return Ok(());
        }
        for (at, index) in node.indexes().enumerate() {
            if !self.claim_own(nr, index.child, mapped)? {
                continue;
            }
            let bytes = self.read(index.child)?;
            let child = ExtentNode::new(&bytes[..]);
            let place = DamageLocation::InodeBlock(nr, index.child);
            let expect = expect.child(node, at);
            let sound = child.validate(&expect, place);
            let sound =
                sound.and_then(|()| seed.map_or(Ok(()), |seed| child.verify_checksum(seed, place)));
            let starts = child.key(0) == Some(index.logical);
            if sound.is_ok() && !starts {
                let problem = CorruptKind::BeginsElsewhere;
                self.add_once(mapped, &Corrupt::new(place, "extent block", problem));
            }
            match sound {
                Ok(()) => {
                    self.check_room(&child, place, mapped);
                    self.walk_node(nr, seed, &child, &expect, mapped)?;
                }
                Err(corrupt) => self.add_once(mapped, &corrupt),
            }
        }
        Ok(())
    }

    fn add_once(&mut self, mapped: &mut Mapped, corrupt: &Corrupt) {
        mapped.is_bad = true;
        if !mapped.looks {
            self.add_corrupt(corrupt);
        }
    }

    fn walk_tables(&mut self, nr: InodeNr, inode: &Inode, mapped: &mut Mapped) -> Step {
        let per_table = self.block_bytes() / 4;
        let word = |at: usize| pointer(&inode.i_block, at).0;
        let mut logical = 0;
        for at in 0..DIRECT {
            self.claim_one(nr, logical, word(at), mapped)?;
            logical += 1;
        }
        for level in 0..LEVELS {
            let covered = per_table.pow(clamp_u32(level) + 1);
            self.walk_table(nr, logical, word(DIRECT + level), level, mapped)?;
            logical += covered;
        }
        Ok(())
    }

    fn walk_table(
        &mut self,
        nr: InodeNr,
        first: u64,
        block: u64,
        level: usize,
        mapped: &mut Mapped,
    ) -> Step {
        if block == 0 || !self.claim_own(nr, BlockNr(block), mapped)? {
            return Ok(());
        }
        let bytes = self.read(BlockNr(block))?;
        let per_table = u64_of(bytes.len()) / 4;
        for at in 0..bytes.len() / 4 {
            let child = pointer(&bytes, at).0;
            if child == 0 {
                continue;
            }
            let logical = first + u64_of(at) * per_table.pow(clamp_u32(level));
            match level {
                0 => self.claim_one(nr, logical, child, mapped)?,
                _ => self.walk_table(nr, logical, child, level - 1, mapped)?,
            }
        }
        Ok(())
    }

    fn claim_one(&mut self, nr: InodeNr, logical: u64, block: u64, mapped: &mut Mapped) -> Step {
        if block == 0 {
            return Ok(());
        }
        mapped.end = mapped.end.max(logical + 1);
        self.claim_data(nr, logical, block..block + 1, mapped)
    }

    /// Claims a block of the map itself; false if it must not be visited.
    fn claim_own(&mut self, nr: InodeNr, block: BlockNr, mapped: &mut Mapped) -> Step<bool> {
        let run = block.0..block.0.saturating_add(1);
        let place = DamageLocation::InodeBlock(nr, block);
        if mapped.looks {
            // A second walk happens only if every block of the map was claimed by its first one.
            return Ok(true);
        }
        if !self.may_map(&run) {
            let problem = CorruptKind::MapOutside;
            self.add_once(mapped, &Corrupt::new(place, "inode map", problem));
            return Ok(false);
        }
        mapped.clusters += 1;
        let clusters = self.clusters(run);
        if self.claim_for(nr, clusters)? == 1 {
            return Ok(true);
        }
        let problem = CorruptKind::MapShared;
        self.add_once(mapped, &Corrupt::new(place, "inode map", problem));
        Ok(false)
    }

    /// Whether blocks of data may have more than one owner.
    pub(crate) fn may_share_data(&self) -> bool {
        let is_feature = self.geometry.features.has(Feature::SHARED_BLOCKS);
        is_feature && self.subject.shared_data == SharedData::Kept
    }

    pub(crate) fn may_map(&self, run: &Range<u64>) -> bool {
        let geometry = &self.geometry;
        geometry.contains_run(BlockNr(run.start), run.end.saturating_sub(run.start))
            && self.is_clear(run)
    }

    /// Whether the run is in a never written part of an inode table: damage there loses no inode.
    pub(crate) fn is_unwritten_table(&mut self, run: &Range<u64>) -> bool {
        if self.unwritten_tables.is_empty() {
            self.unwritten_tables = self.find_unwritten_tables();
        }
        let parts = &self.unwritten_tables;
        let next = parts.partition_point(|part| part.end < run.end);
        parts.get(next).is_some_and(|part| part.start <= run.start)
    }

    /// Ascending, so that the map of bad blocks, which may have many, is checked in one pass.
    fn find_unwritten_tables(&self) -> Vec<Range<u64>> {
        let geometry = &self.geometry;
        let per_block = u64::from(geometry.inodes_per_block());
        let mut parts: Vec<_> = self
            .descriptors
            .iter()
            .flatten()
            .map(|descriptor| {
                let table = descriptor.inode_table.0;
                let written = u64::from(written_inodes(descriptor, geometry)).div_ceil(per_block);
                table + written..table + u64::from(geometry.inode_table_blocks())
            })
            .collect();
        parts.sort_by_key(|part| (part.end, part.start));
        parts
    }

    fn claim_data(
        &mut self,
        nr: InodeNr,
        logical: u64,
        run: Range<u64>,
        mapped: &mut Mapped,
    ) -> Step {
        let sound = self.may_map(&run);
        if nr == InodeNr::BAD_BLOCKS && !sound && self.is_unwritten_table(&run) {
            return self.tick();
        }
        if mapped.looks {
            if sound {
                self.take((run.end - run.start) * 16)?;
                let places = run.enumerate();
                let places = places.map(|(at, block)| (logical + u64_of(at), BlockNr(block)));
                mapped.blocks.extend(places);
            }
            return Ok(());
        }
        let place = DamageLocation::InodeBlock(nr, BlockNr(run.start));
        if !sound {
            let problem = CorruptKind::DataOutside;
            self.add_once(mapped, &Corrupt::new(place, "inode map", problem));
            return Ok(());
        }
        // A cluster of the file is one of the device, at the same offsets.
        let ratio = 1 << self.geometry.cluster_bits;
        let mut clusters = self.clusters(run.clone());
        let logical_cluster = logical >> self.geometry.cluster_bits;
        let is_parted = mapped
            .last
            .is_some_and(|(last, there)| last == logical_cluster && there != clusters.start);
        let is_misaligned = run.start % ratio != logical % ratio || is_parted;
        if nr != InodeNr::BAD_BLOCKS && is_misaligned {
            self.add_once(
                mapped,
                &Corrupt::new(place, "inode map", CorruptKind::Misaligned),
            );
        }
        // Contiguous extents of one file may share a cluster.
        if mapped.last == Some((logical_cluster, clusters.start)) {
            clusters.start += 1;
        }
        let last = (logical + (run.end - run.start) - 1) >> self.geometry.cluster_bits;
        if let Some(end) = self.clusters(run).end.checked_sub(1) {
            mapped.last = Some((last, end));
        }
        let wanted = clusters.end.saturating_sub(clusters.start);
        mapped.clusters += wanted;
        let may_share = self.may_share_data();
        if self.claim_for(nr, clusters)? != wanted && !may_share {
            let problem = CorruptKind::DataShared;
            self.add_once(mapped, &Corrupt::new(place, "inode map", problem));
        }
        self.tick()
    }
}
