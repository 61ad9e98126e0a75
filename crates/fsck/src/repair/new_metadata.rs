//! New bitmaps and inode tables, at places that nothing has.
//!
//! They are written at once, before a descriptor leads to them.

use super::patch::Patch;
use super::places::{Taken, run};
use crate::state::{Step, Stop};
use std::ops::Range;
use uext4_format::{
    BlockNr, Feature, GroupDescriptor, GroupNr, RawInode, block_bitmap_checksum,
    inode_bitmap_checksum,
};
use uext4_num::{clamp_usize, usize_of};

/// Bytes of a table that are written at once.
const WRITE_BYTES: u64 = 1 << 20;

impl Patch<'_, '_> {
    /// Makes an empty inode table: at this place, else where there is free space.
    pub(super) fn new_table(
        &mut self,
        group: GroupNr,
        place: Option<BlockNr>,
        taken: &Taken,
    ) -> Step<Option<BlockNr>> {
        let len = u64::from(self.check.geometry.inode_table_blocks());
        let place = match place {
            Some(place) => Some(place),
            None => self.find_run(group, len, taken)?,
        };
        if let Some(place) = place {
            self.clear_blocks(run(place, len))?;
        }
        Ok(place)
    }

    /// Writes zeroes at once.
    fn clear_blocks(&mut self, mut blocks: Range<u64>) -> Step {
        let block_size = self.check.block_bytes();
        let max = (WRITE_BYTES / block_size).max(1);
        let zeroes = vec![0; clamp_usize(max * block_size)];
        while !blocks.is_empty() {
            self.check.tick()?;
            let len = (blocks.end - blocks.start).min(max);
            let bytes = &zeroes[..clamp_usize(len * block_size)];
            let written = self.check.device.write_at(blocks.start * block_size, bytes);
            written.map_err(|error| Stop::Failed(error.into()))?;
            blocks.start += len;
        }
        Ok(())
    }

    /// Free blocks for metadata of a group, in the group if possible. Those come first that bitmaps
    /// have free as well: what has lost its inodes is marked there. Only those if not all damage is
    /// known.
    pub(super) fn find_run(
        &mut self,
        group: GroupNr,
        len: u64,
        taken: &Taken,
    ) -> Step<Option<BlockNr>> {
        let geometry = self.check.geometry;
        let first = geometry.group_first_block(group);
        let own = run(first, geometry.blocks_in_group(group).into());
        let all = GroupDescriptor::places(group, &geometry);
        for trusts in [true, false] {
            if !trusts && self.space.has_gaps {
                break;
            }
            if let Some(found) = self.find_run_in(own.clone(), len, trusts, taken)? {
                return Ok(Some(found));
            }
            if !geometry.features.has(Feature::FLEX_BG) {
                continue;
            }
            let key = (trusts, len > 1);
            let from = self.space.searched.get(&key).copied().unwrap_or(0);
            let range = from.max(all.start)..all.end;
            let found = self.find_run_in(range, len, trusts, taken)?;
            let next = found.map_or(all.end, |found| found.0);
            self.space.searched.insert(key, next);
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Free clusters that follow each other, the first in a range of blocks.
    fn find_run_in(
        &mut self,
        blocks: Range<u64>,
        len: u64,
        trusts_bitmaps: bool,
        taken: &Taken,
    ) -> Step<Option<BlockNr>> {
        let bits = self.check.geometry.cluster_bits;
        let wanted = len.div_ceil(1 << bits);
        let base = u64::from(self.check.geometry.first_data_block);
        let start = blocks.start.saturating_sub(base).div_ceil(1 << bits);
        let end = (blocks.end.saturating_sub(base) >> bits).min(self.whole_clusters());
        let mut next = start;
        while let Some(first) = self.first_unnamed(next..end) {
            let mut behind = first;
            while behind < end && behind - first < wanted {
                self.check.tick()?;
                let here = behind..behind + 1;
                let block = self.first_block(behind);
                let is_free = self.check.claimed.has_none(&here)
                    && !self.is_spared(&here)
                    && taken.0.has_none(&run(block, 1 << bits))
                    && !(trusts_bitmaps && self.is_marked(block)?);
                if !is_free {
                    break;
                }
                behind += 1;
            }
            if behind - first == wanted {
                return Ok(Some(self.first_block(first)));
            }
            next = behind + 1;
        }
        Ok(None)
    }

    /// Writes a block bitmap with what is known to be in use. The last pass counts again.
    pub(super) fn fill_block_bitmap(
        &mut self,
        group: GroupNr,
        descriptor: &mut GroupDescriptor,
        taken: &Taken,
    ) -> Step {
        let geometry = self.check.geometry;
        let start = geometry.group_first_block(group).0;
        let first = self.check.clusters(start..start + 1).start;
        let ratio = u64::from(geometry.blocks_per_cluster());
        let len = geometry.clusters_in_group(group);
        let mut bytes = vec![0xFF; usize_of(geometry.block_size())];
        for bit in 0..len {
            let cluster = first + u64::from(bit);
            let one = cluster..cluster + 1;
            let is_used = self.check.claimed.has(cluster)
                || self.is_spared(&one)
                || !taken.0.has_none(&run(self.first_block(cluster), ratio));
            if is_used {
                continue;
            }
            if let Some(byte) = bytes.get_mut(usize_of(bit / 8)) {
                *byte &= !(1 << (bit % 8));
            }
        }
        if let Some(seed) = self.check.checksums.metadata {
            let checksum = block_bitmap_checksum(seed, &bytes, &geometry);
            descriptor.set_block_bitmap_checksum(checksum, &geometry);
        }
        self.write_data(descriptor.block_bitmap, &bytes)
    }

    /// Writes an inode bitmap with the inodes of the table that have links.
    pub(super) fn fill_inode_bitmap(
        &mut self,
        group: GroupNr,
        descriptor: &mut GroupDescriptor,
    ) -> Step {
        let geometry = self.check.geometry;
        let per_block = geometry.inodes_per_block();
        let size = usize::from(geometry.inode_size);
        let mut bitmap = vec![0xFF; usize_of(geometry.block_size())];
        for at in 0..geometry.inode_table_blocks() {
            let bytes = self.read(BlockNr(descriptor.inode_table.0 + u64::from(at)))?;
            for (slot, raw) in (0..per_block).zip(bytes.chunks_exact(size)) {
                let index = at.saturating_mul(per_block).saturating_add(slot);
                let is_used = RawInode(raw).links() != 0
                    || self.check.is_reserved(geometry.inode_at(group, index));
                if index >= geometry.inodes_per_group || is_used {
                    continue;
                }
                if let Some(byte) = bitmap.get_mut(usize_of(index / 8)) {
                    *byte &= !(1 << (index % 8));
                }
            }
        }
        if let Some(seed) = self.check.checksums.metadata {
            let checksum = inode_bitmap_checksum(seed, &bitmap, &geometry);
            descriptor.set_inode_bitmap_checksum(checksum, &geometry);
        }
        self.write_data(descriptor.inode_bitmap, &bitmap)
    }
}
