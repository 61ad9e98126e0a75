//! Repair of the size and of the block count of inodes, from their maps.

use super::Outcome;
use super::patch::Patch;
use crate::inodes::inline_bytes;
use crate::report::Finding;
use crate::state::Step;
use uext4_format::extent::{Extent, ExtentNode, ExtentState};
use uext4_format::xattr::VALUE_MAX_BYTES;
use uext4_format::{CorruptKind, Feature, FileType, Inode, InodeFlags, InodeNr, LogicalBlock};
use uext4_num::{clamp_u16, clamp_u32, u64_of};
use uext4_volume::has_map;

/// log2 of the bytes of a sector.
const SECTOR_BITS: u32 = 9;

impl Patch<'_, '_> {
    pub(super) fn repair_sizes(&mut self, nr: InodeNr, findings: &[Finding]) -> Step<Outcome> {
        if nr == InodeNr::RESIZE && self.check.geometry.features.has(Feature::RESIZE_INODE) {
            return self.repair_resize_inode(findings);
        }
        let Some(mut inode) = self.inode(nr)? else {
            return Ok(Outcome::Impossible);
        };
        let has = |wanted: CorruptKind| {
            let mut problems = findings.iter().map(|finding| finding.corrupt.problem);
            problems.any(|problem| problem == wanted)
        };
        // The check has not counted the block of a target that its size has in the inode.
        let is_table = has(CorruptKind::TargetLength) && self.is_link_table(&inode);
        if has(CorruptKind::BlocksWrong) && !is_table && !self.set_sectors(nr, &mut inode) {
            return Ok(Outcome::Impossible);
        }
        if has(CorruptKind::TargetLength) {
            return self.repair_target(nr, inode);
        }
        if has(CorruptKind::SizeWrong) && self.is_journal(nr) {
            let restored = self.restore_journal(nr)?;
            if restored == Outcome::Repaired {
                return Ok(restored);
            }
        }
        if has(CorruptKind::SizeWrong)
            && !self.close_holes(nr, &mut inode)?
            && !self.cut_off(nr, &mut inode)?
        {
            inode.size = self.size_of(nr, &inode)?;
        }
        self.write_inode(nr, &inode)?;
        Ok(Outcome::Repaired)
    }

    /// Sets the block count that the check has found, in the unit that the inode uses; false if it
    /// does not fit.
    fn set_sectors(&self, nr: InodeNr, inode: &mut Inode) -> bool {
        let Some(sectors) = self.check.derived.sectors(nr) else {
            return false;
        };
        let geometry = &self.check.geometry;
        let in_blocks = geometry.features.has(Feature::HUGE_FILE)
            && inode.flags.contains(InodeFlags::HUGE_FILE);
        if in_blocks {
            inode.blocks_raw = sectors >> (geometry.block_bits - SECTOR_BITS);
            return true;
        }
        inode.set_sectors(sectors, geometry).is_ok()
    }

    /// Closes the holes of a value or of the orphan file, which have none, and cuts them off at
    /// their end. Closes those of another file that has as many blocks as its size needs, and of a
    /// directory whose size cannot cover them. False for another inode.
    fn close_holes(&mut self, nr: InodeNr, inode: &mut Inode) -> Step<bool> {
        let block_bytes = self.check.block_bytes();
        let is_value = self.check.is_orphan_file(nr)
            || (inode.flags.contains(InodeFlags::EA_INODE)
                && (1..=u64_of(VALUE_MAX_BYTES)).contains(&inode.size));
        let is_directory = inode.file_type() == Some(FileType::Directory);
        let has_clusters = self.check.geometry.features.has(Feature::BIGALLOC);
        if !has_map(inode) || has_clusters {
            return Ok(false);
        }
        let extents = self.extents_of(nr, inode)?;
        let blocks: u64 = extents.iter().map(|extent| u64::from(extent.len)).sum();
        let end = extents.last().map_or(0, Extent::logical_end);
        let has_large = self.check.geometry.features.has(Feature::LARGE_DIR);
        let is_huge = is_directory && !has_large && end * block_bytes > u64::from(u32::MAX);
        let needed = inode.size.div_ceil(block_bytes);
        let wanted = if is_value || blocks == needed {
            needed
        } else if is_huge {
            blocks
        } else {
            return Ok(false);
        };
        if is_directory {
            inode.size = wanted * block_bytes;
        }
        self.set_map(nr, inode, &without_holes(&extents, wanted))
    }

    /// Cuts off what is behind the end, if that is less than what is before it and a hole is
    /// between them. Only in trees with nodes, as e2fsck does: there an index says where its node
    /// ends, so that the number of a block far behind it is wrong, and not the size.
    fn cut_off(&mut self, nr: InodeNr, inode: &mut Inode) -> Step<bool> {
        let is_file = inode.file_type() == Some(FileType::Regular);
        let has_nodes = inode.flags.contains(InodeFlags::EXTENTS)
            && ExtentNode::new(&inode.i_block[..]).depth() > 0;
        if !is_file || !has_nodes || !has_map(inode) {
            return Ok(false);
        }
        let end = inode.size.div_ceil(self.check.block_bytes());
        let extents = self.extents_of(nr, inode)?;
        let (before, behind): (Vec<_>, Vec<_>) = extents
            .into_iter()
            .partition(|extent| u64::from(extent.logical.0) < end);
        let blocks = |part: &[Extent]| part.iter().map(|one| u64::from(one.len)).sum::<u64>();
        let has_hole = before.last().is_none_or(|last| last.logical_end() <= end)
            && behind
                .first()
                .is_some_and(|next| u64::from(next.logical.0) > end);
        if !has_hole || blocks(&before) <= blocks(&behind) {
            return Ok(false);
        }
        self.set_map(nr, inode, &before)
    }

    /// The size that covers all data of an inode.
    fn size_of(&mut self, nr: InodeNr, inode: &Inode) -> Step<u64> {
        if inode.flags.contains(InodeFlags::INLINE_DATA) {
            return Ok(inline_bytes(nr, inode));
        }
        if !has_map(inode) {
            return Ok(0);
        }
        let extents = self.extents_of(nr, inode)?;
        let mut written = extents.iter().rev();
        let last = written.find(|extent| extent.state == ExtentState::Written);
        Ok(last.map_or(0, Extent::logical_end) * self.check.block_bytes())
    }
}

/// The first `blocks` blocks of these extents, one behind the other.
fn without_holes(extents: &[Extent], blocks: u64) -> Vec<Extent> {
    let (mut row, mut next) = (Vec::new(), 0);
    for extent in extents {
        let len = u64::from(extent.len).min(blocks - next);
        if len == 0 {
            break;
        }
        row.push(Extent {
            logical: LogicalBlock(clamp_u32(next)),
            len: clamp_u16(len),
            ..*extent
        });
        next += len;
    }
    row
}
