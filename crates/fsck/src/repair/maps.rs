//! Repair of maps: a new map of the blocks that the old one still names.

use super::Outcome;
use super::patch::Patch;
use crate::inodes::has_extent_header;
use crate::report::Finding;
use crate::state::{Step, Stop};
use uext4_format::extent::{Extent, ExtentState};
use uext4_format::{BlockNr, CorruptKind, Feature, FileType, Inode, InodeFlags, InodeNr};
use uext4_mkfs::{block_tables, extent_tree};
use uext4_num::u64_of;

/// Memory of a map in the making, for each of its extents, in bytes.
const BYTES_PER_EXTENT: u64 = 16;
/// Tables hold block numbers of 32 bits.
const TABLE_BLOCKS: u64 = 1 << 32;

/// Reason why a map is not made.
enum Refused {
    NoSpace,
    Stopped(Stop),
}

impl Patch<'_, '_> {
    /// Repairs the map of an inode. Blocks that another structure claimed first get a copy.
    pub(super) fn repair_map(&mut self, nr: InodeNr, findings: &[Finding]) -> Step<Outcome> {
        let Some(mut inode) = self.inode(nr)? else {
            return Ok(Outcome::Impossible);
        };
        if self.is_journal(nr) && self.mend_journal(nr)? == Outcome::Repaired {
            return Ok(Outcome::Repaired);
        }
        set_format(&mut inode);
        let has_tables = !inode.flags.contains(InodeFlags::EXTENTS);
        if has_tables && self.is_fast_link(&inode) {
            return self.repair_target(nr, inode);
        }
        let is_bigalloc = self.check.geometry.features.has(Feature::BIGALLOC);
        if has_tables && !is_bigalloc {
            return self.repair_tables(nr, inode);
        }
        let mut found = self.mapped_by(nr, &inode)?;
        for extent in &found {
            self.spare(extent.start.0..extent.physical_end())?;
        }
        inode.flags.insert(InodeFlags::EXTENTS);
        self.set_written(nr, &inode, &mut found);
        let extents = match self.set_apart(nr, found.clone())? {
            Some(apart) => apart,
            None if findings.iter().all(is_about_owners) => return Ok(Outcome::Impossible),
            None => self.aligned(found),
        };
        if !self.set_map(nr, &mut inode, &extents)? {
            return Ok(Outcome::Impossible);
        }
        self.write_inode(nr, &inode)?;
        Ok(Outcome::Repaired)
    }

    /// The blocks that an inode maps, in ascending order without overlap: those inside of the data
    /// area, and aligned to clusters. Nodes that cannot be read are left out.
    pub(crate) fn extents_of(&mut self, nr: InodeNr, inode: &Inode) -> Step<Vec<Extent>> {
        let found = self.mapped_by(nr, inode)?;
        Ok(self.aligned(found))
    }

    fn aligned(&self, mut extents: Vec<Extent>) -> Vec<Extent> {
        extents.retain(|extent| self.is_aligned(extent));
        extents
    }

    /// Whether an extent has the offsets in its clusters that it has in the file.
    pub(super) fn is_aligned(&self, extent: &Extent) -> bool {
        let ratio = u64::from(self.check.geometry.blocks_per_cluster());
        extent.start.0 % ratio == u64::from(extent.logical.0) % ratio
    }

    /// Gives an inode a new map of these extents, in the format that its flag EXTENTS says, with
    /// nodes in new blocks. The caller writes the inode. False if there is no space, or tables do
    /// not reach the blocks.
    pub(crate) fn set_map(
        &mut self,
        nr: InodeNr,
        inode: &mut Inode,
        extents: &[Extent],
    ) -> Step<bool> {
        let bytes = u64_of(extents.len()) * BYTES_PER_EXTENT;
        self.check.take(bytes)?;
        let block_size = self.check.geometry.block_size();
        let seed = self.check.checksums.inode_seed(nr, inode.generation);
        let goal = extents.first().map_or(BlockNr(0), |extent| extent.start);
        let built = if inode.flags.contains(InodeFlags::EXTENTS) {
            let take: &mut dyn FnMut() -> _ = &mut || self.take_node(goal, u64::MAX);
            extent_tree(extents, block_size, seed, take).map(Some)
        } else {
            let take: &mut dyn FnMut(_) -> _ = &mut |goal| self.take_node(goal, TABLE_BLOCKS);
            block_tables(extents, block_size, take)
        };
        self.check.give_back(bytes);
        let map = match built {
            Ok(Some(map)) => map,
            Ok(None) | Err(Refused::NoSpace) => return Ok(false),
            Err(Refused::Stopped(stop)) => return Err(stop),
        };
        for (block, bytes) in map.nodes {
            self.write_new(block, bytes)?;
        }
        inode.i_block = map.i_block;
        Ok(true)
    }

    /// Allocates a block of a map, with a number below `end`.
    fn take_node(&mut self, goal: BlockNr, end: u64) -> Result<BlockNr, Refused> {
        match self.allocate(goal) {
            Ok(Some(block)) if block.0 < end => Ok(block),
            Ok(_) => Err(Refused::NoSpace),
            Err(stop) => Err(Refused::Stopped(stop)),
        }
    }

    /// Lets extents that must have been written be so: those of a directory, and of a file of the
    /// file system itself up to its size.
    fn set_written(&self, nr: InodeNr, inode: &Inode, extents: &mut [Extent]) {
        let end = match inode.file_type() {
            Some(FileType::Directory) => u64::MAX,
            _ if self.check.hidden.contains(nr) => inode.size.div_ceil(self.check.block_bytes()),
            _ => 0,
        };
        for extent in extents {
            if u64::from(extent.logical.0) < end {
                extent.state = ExtentState::Written;
            }
        }
    }
}

/// Lets an inode with the root of a tree have extents, whatever its flag says.
pub(super) fn set_format(inode: &mut Inode) {
    if has_extent_header(inode) {
        inode.flags.insert(InodeFlags::EXTENTS);
    }
}

/// Whether a problem of a map is only that its blocks are not its own, or not in their clusters.
fn is_about_owners(finding: &Finding) -> bool {
    matches!(
        finding.corrupt.problem,
        CorruptKind::DataShared | CorruptKind::Misaligned
    )
}
