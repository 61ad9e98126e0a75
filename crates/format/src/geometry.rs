//! Layout of a file system: groups, superblock copies, descriptors, inodes.
//!
//! Invariants: a [`Geometry`] comes from [`crate::Superblock::geometry`] only, which checks every
//! number. So no method here divides by zero or overflows for a group below `group_count`, a block
//! below `blocks_count`, or an inode from 1 to `inodes_count`. Each method states its result for
//! other arguments.
//!
//! References: kernel doc `filesystems/ext4/blockgroup.rst` and `group_descr.rst`.

#![allow(
    clippy::arithmetic_side_effects,
    reason = "divisors are not zero and factors have 32 bits, by the invariants of `Geometry`"
)]

use crate::{BlockNr, Feature, Features, GroupNr, InodeNr};
use uext4_num::{clamp_u32, low_u32};

#[cfg(test)]
mod tests;

/// Sizes and counts of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Geometry {
    /// The three feature sets of the superblock.
    pub features: Features,
    /// log2 of the block size in bytes.
    pub block_bits: u32,
    /// log2 of the blocks of a cluster.
    pub cluster_bits: u32,
    /// Blocks of the file system.
    pub blocks_count: u64,
    /// Inodes of the file system.
    pub inodes_count: u32,
    /// First block of group 0.
    pub first_data_block: u32,
    /// Blocks of every group but the last.
    pub blocks_per_group: u32,
    /// Clusters of every group but the last.
    pub clusters_per_group: u32,
    /// Inodes of every group.
    pub inodes_per_group: u32,
    /// The number of block groups; the last may be shorter.
    pub group_count: u32,
    /// Bytes of a group descriptor.
    pub desc_size: u16,
    /// Bytes of an inode in the inode table, 128 or more.
    pub inode_size: u16,
    /// First inode that is not reserved.
    pub first_inode: u32,
    /// Blocks kept free after the descriptors of each copy.
    pub reserved_gdt_blocks: u32,
    /// First descriptor block that is in its meta group, with `meta_bg`.
    pub first_meta_bg: u32,
    /// The groups with copies, with `sparse_super2`.
    pub backup_bgs: [u32; 2],
    /// log2 of the groups of a flexible group; 0 without `flex_bg`.
    pub log_groups_per_flex: u32,
}

/// A run of consecutive blocks of the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRun {
    /// The first block of the run.
    pub start: BlockNr,
    /// The number of blocks of the run.
    pub len_blocks: u32,
}

impl Geometry {
    /// Bytes of a block: a power of two from 1 KiB.
    #[inline]
    pub fn block_size(&self) -> u32 {
        1 << self.block_bits
    }

    /// Bytes of a cluster; those of a block without `bigalloc`.
    #[inline]
    pub fn cluster_size(&self) -> u64 {
        1 << (self.block_bits + self.cluster_bits)
    }

    /// Blocks of a cluster; 1 without `bigalloc`.
    #[inline]
    pub fn blocks_per_cluster(&self) -> u32 {
        1 << self.cluster_bits
    }

    /// Bytes of the file system.
    #[inline]
    pub fn size_bytes(&self) -> u64 {
        self.blocks_count << self.block_bits
    }

    /// Clusters of the file system, counting a partial last one.
    pub fn clusters_count(&self) -> u64 {
        let blocks = self.blocks_count - u64::from(self.first_data_block);
        self.blocks_to_clusters(blocks)
    }

    /// Clusters that hold this many blocks, rounded up.
    #[inline]
    pub fn blocks_to_clusters(&self, blocks: u64) -> u64 {
        blocks.div_ceil(u64::from(self.blocks_per_cluster()))
    }

    /// True for a block inside the file system that is not before group 0.
    #[inline]
    pub fn contains(&self, block: BlockNr) -> bool {
        block.0 >= u64::from(self.first_data_block) && block.0 < self.blocks_count
    }

    /// True when all blocks of the run are inside the file system.
    pub fn contains_run(&self, start: BlockNr, len_blocks: u64) -> bool {
        let end = start.0.checked_add(len_blocks);
        self.contains(start) && end.is_some_and(|end| end <= self.blocks_count)
    }

    /// Groups of a flexible group; 1 without `flex_bg`.
    #[inline]
    pub fn groups_per_flex(&self) -> u32 {
        1 << self.log_groups_per_flex
    }

    /// The group of a block; the last group for blocks past the end.
    #[inline]
    pub fn group_of_block(&self, block: BlockNr) -> GroupNr {
        let blocks = block.0.saturating_sub(u64::from(self.first_data_block));
        let group = blocks / u64::from(self.blocks_per_group);
        GroupNr(low_u32(group.min(u64::from(self.group_count - 1))))
    }

    /// The group of a block and the block's offset in it, in blocks.
    #[inline]
    pub fn split_block(&self, block: BlockNr) -> (GroupNr, u32) {
        let group = self.group_of_block(block);
        let offset = block.0.saturating_sub(self.group_first_block(group).0);
        (group, clamp_u32(offset))
    }

    /// The group of a block and the bit of its cluster in the group's bitmap.
    #[inline]
    pub fn split_block_to_cluster(&self, block: BlockNr) -> (GroupNr, u32) {
        let (group, offset) = self.split_block(block);
        (group, offset >> self.cluster_bits)
    }

    /// First block of a group.
    #[inline]
    pub fn group_first_block(&self, group: GroupNr) -> BlockNr {
        let blocks = u64::from(group.0) * u64::from(self.blocks_per_group);
        BlockNr(blocks + u64::from(self.first_data_block))
    }

    /// Blocks of a group: the last one may be short; 0 past the last.
    pub fn blocks_in_group(&self, group: GroupNr) -> u32 {
        let left = self
            .blocks_count
            .saturating_sub(self.group_first_block(group).0);
        low_u32(left.min(u64::from(self.blocks_per_group)))
    }

    /// Clusters of a group, counting a partial last one; 0 past the last group.
    pub fn clusters_in_group(&self, group: GroupNr) -> u32 {
        self.blocks_in_group(group)
            .div_ceil(self.blocks_per_cluster())
    }

    /// True for an inode number of this file system.
    #[inline]
    pub fn contains_inode(&self, ino: InodeNr) -> bool {
        ino.0 >= 1 && ino.0 <= self.inodes_count
    }

    /// The group of an inode and its index there; `None` for numbers not on this file system.
    #[inline]
    pub fn split_inode(&self, ino: InodeNr) -> Option<(GroupNr, u32)> {
        let index = ino
            .0
            .checked_sub(1)
            .filter(|index| *index < self.inodes_count)?;
        Some((
            GroupNr(index / self.inodes_per_group),
            index % self.inodes_per_group,
        ))
    }

    /// The inode at an index of a group.
    #[inline]
    pub fn inode_at(&self, group: GroupNr, index: u32) -> InodeNr {
        InodeNr(
            group
                .0
                .wrapping_mul(self.inodes_per_group)
                .wrapping_add(index)
                .wrapping_add(1),
        )
    }

    /// Block and byte offset of an inode, by its index in the group whose table is given.
    #[inline]
    pub fn inode_location(&self, table: BlockNr, index: u32) -> (BlockNr, u32) {
        let byte = u64::from(index) * u64::from(self.inode_size);
        let block = table.0.saturating_add(byte >> self.block_bits);
        (BlockNr(block), low_u32(byte) & (self.block_size() - 1))
    }

    /// Blocks of a group's inode table.
    pub fn inode_table_blocks(&self) -> u32 {
        let bytes = u64::from(self.inodes_per_group) * u64::from(self.inode_size);
        clamp_u32(bytes.div_ceil(u64::from(self.block_size())))
    }

    /// Inodes in one block of the inode table.
    pub fn inodes_per_block(&self) -> u32 {
        self.block_size() / u32::from(self.inode_size)
    }

    /// Group descriptors in one block of the descriptor table.
    pub fn descriptors_per_block(&self) -> u32 {
        self.block_size() / u32::from(self.desc_size)
    }

    /// Blocks of all descriptors.
    pub fn descriptor_blocks_count(&self) -> u32 {
        self.group_count.div_ceil(self.descriptors_per_block())
    }

    /// True when the group holds a copy of the superblock.
    pub fn has_super(&self, group: GroupNr) -> bool {
        let nr = group.0;
        if nr == 0 {
            return true;
        }
        if self.features.has(Feature::SPARSE_SUPER2) {
            return self.backup_bgs.contains(&nr);
        }
        if nr == 1 || !self.features.has(Feature::SPARSE_SUPER) {
            return true;
        }
        LARGEST_POWERS.iter().any(|power| power % nr == 0)
    }

    /// Block that holds the superblock copy of a group, if it has one.
    ///
    /// In group 0 of a file system with blocks of more than 1 KiB it starts at byte 1024 of it.
    pub fn superblock_block(&self, group: GroupNr) -> Option<BlockNr> {
        let first = self.group_first_block(group).0 + u64::from(self.boot_blocks(group));
        self.has_super(group).then_some(BlockNr(first))
    }

    /// Block of the primary copy of descriptor block `index`.
    pub fn descriptor_block(&self, index: u32) -> BlockNr {
        if !self.in_meta_groups(index) {
            let primary = self.group_first_block(GroupNr(0)).0;
            let boot = u64::from(self.boot_blocks(GroupNr(0)));
            return BlockNr(primary + boot + 1 + u64::from(index));
        }
        let group = GroupNr(index.saturating_mul(self.descriptors_per_block()));
        self.after_superblock(group)
    }

    /// Block and byte offset of the primary copy of a group's descriptor.
    pub fn descriptor_location(&self, group: GroupNr) -> (BlockNr, u32) {
        let per_block = self.descriptors_per_block();
        let offset = (group.0 % per_block) * u32::from(self.desc_size);
        (self.descriptor_block(group.0 / per_block), offset)
    }

    /// The copies of descriptor blocks that a group holds: index of the first, and their blocks.
    ///
    /// Group 0 holds the primary ones. Reserved blocks are not counted: see
    /// [`Self::reserved_gdt_run`].
    pub fn descriptor_run(&self, group: GroupNr) -> Option<(u32, BlockRun)> {
        let index = group.0 / self.descriptors_per_block();
        if self.in_meta_groups(index) {
            let place = group.0 % self.descriptors_per_block();
            let holds = place == 0 || place == 1 || place == self.descriptors_per_block() - 1;
            let run = BlockRun {
                start: self.after_superblock(group),
                len_blocks: 1,
            };
            return holds.then_some((index, run));
        }
        let len_blocks = self.classic_descriptor_blocks();
        let run = BlockRun {
            start: self.after_superblock(group),
            len_blocks,
        };
        (self.has_super(group) && len_blocks > 0).then_some((0, run))
    }

    /// The blocks of a group that are reserved for more descriptors.
    pub fn reserved_gdt_run(&self, group: GroupNr) -> Option<BlockRun> {
        let holds = self.reserved_gdt_blocks > 0
            && self.has_super(group)
            && !self.in_meta_groups(group.0 / self.descriptors_per_block());
        let after = u64::from(self.classic_descriptor_blocks());
        let start = BlockNr(self.after_superblock(group).0 + after);
        holds.then_some(BlockRun {
            start,
            len_blocks: self.reserved_gdt_blocks,
        })
    }

    /// The groups that hold copies of the reserved blocks of group 0.
    pub fn reserved_gdt_copies(&self) -> impl Iterator<Item = GroupNr> {
        (1..self.group_count)
            .map(GroupNr)
            .filter(|group| self.reserved_gdt_run(*group).is_some())
    }

    /// The copy in a group of `primary`, a reserved block of group 0, as the resize inode names it:
    /// a multiple of the group size after it, even if group 0 alone begins with a boot block.
    pub fn reserved_gdt_copy(&self, primary: BlockNr, group: GroupNr) -> BlockNr {
        let distance = u64::from(group.0) * u64::from(self.blocks_per_group);
        BlockNr(primary.0.saturating_add(distance))
    }

    /// Blocks at the start of a group for its own superblock copy, descriptors and reserved blocks
    /// (and the boot block before them). A bitmap marked BLOCK_UNINIT has these in use besides
    /// bitmaps and inode tables that lie in this group.
    pub fn base_metadata_blocks(&self, group: GroupNr) -> u32 {
        let superblock = u32::from(self.has_super(group));
        let boot = if superblock == 1 {
            self.boot_blocks(group)
        } else {
            0
        };
        let descriptors = self
            .descriptor_run(group)
            .map_or(0, |(_, run)| run.len_blocks);
        let reserved = self.reserved_gdt_run(group).map_or(0, |run| run.len_blocks);
        boot.saturating_add(superblock)
            .saturating_add(descriptors)
            .saturating_add(reserved)
    }

    /// Blocks before the superblock in group 0: with clusters and blocks of 1 KiB, group 0 starts
    /// at block 0 while the superblock stays at byte 1024.
    fn boot_blocks(&self, group: GroupNr) -> u32 {
        u32::from(group.0 == 0 && self.first_data_block == 0 && self.block_bits == 10)
    }

    fn after_superblock(&self, group: GroupNr) -> BlockNr {
        let boot = self.boot_blocks(group);
        let superblock = u32::from(self.has_super(group));
        BlockNr(self.group_first_block(group).0 + u64::from(boot + superblock))
    }

    fn in_meta_groups(&self, index: u32) -> bool {
        self.features.has(Feature::META_BG) && index >= self.first_meta_bg
    }

    fn classic_descriptor_blocks(&self) -> u32 {
        if self.features.has(Feature::META_BG) {
            self.first_meta_bg
        } else {
            self.descriptor_blocks_count()
        }
    }
}

/// The largest powers of 3, 5 and 7 below 2^32; a divisor of one of them is a smaller one.
const LARGEST_POWERS: [u32; 3] = [3_486_784_401, 1_220_703_125, 1_977_326_743];
