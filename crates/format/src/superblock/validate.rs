//! Validation of a superblock, which yields a [`Geometry`] without further checks.

use super::{Superblock, corrupt};
use crate::geometry::Geometry;
use crate::{Corrupt, Feature};

/// Largest block: 64 KiB, the largest `log_block_size` is 6.
const LOG_BLOCK_SIZE_MAX: u32 = 6;
/// Largest `log_cluster_size`: clusters of 1 GiB.
const LOG_CLUSTER_SIZE_MAX: u32 = 20;
/// Physical block numbers have 48 bits.
const BLOCKS_COUNT_MAX: u64 = 1 << 48;
/// Sizes in bytes stay within a signed 64-bit offset.
const BYTES_COUNT_MAX: u64 = 1 << 62;
/// Largest descriptor: the smallest block.
const DESC_SIZE_MAX: u16 = 1024;
/// Smallest first inode that is not reserved.
const FIRST_INO_MIN: u32 = 11;

fn ensure(holds: bool, problem: &'static str) -> Result<(), Corrupt> {
    if holds { Ok(()) } else { Err(corrupt(problem)) }
}

impl Superblock {
    /// Checks all sizes and counts and derives the geometry.
    ///
    /// # Errors
    /// [`Corrupt`] naming the first number that is out of its limits or contradicts another.
    pub fn geometry(&self) -> Result<Geometry, Corrupt> {
        let block_bits = self.checked_block_bits()?;
        let cluster_bits = self.checked_cluster_bits()?;
        let desc_size = self.checked_desc_size()?;
        let (inode_size, first_inode) = self.checked_inode_size(1 << block_bits)?;
        self.check_per_group(1 << block_bits, cluster_bits, inode_size)?;
        let group_count = self.checked_group_count(block_bits, cluster_bits)?;
        let geometry = Geometry {
            features: self.features(),
            block_bits,
            cluster_bits,
            blocks_count: self.blocks_count,
            inodes_count: self.inodes_count,
            first_data_block: self.first_data_block,
            blocks_per_group: self.blocks_per_group,
            clusters_per_group: self.clusters_per_group,
            inodes_per_group: self.inodes_per_group,
            group_count,
            desc_size,
            inode_size,
            first_inode,
            reserved_gdt_blocks: u32::from(self.reserved_gdt_blocks),
            first_meta_bg: self.first_meta_bg,
            backup_bgs: self.backup_bgs,
            log_groups_per_flex: self.checked_log_groups_per_flex()?,
        };
        self.check_descriptors(&geometry)?;
        Ok(geometry)
    }

    fn checked_block_bits(&self) -> Result<u32, Corrupt> {
        ensure(
            self.log_block_size <= LOG_BLOCK_SIZE_MAX,
            "block size is out of range",
        )?;
        Ok(self.log_block_size.saturating_add(10))
    }

    fn checked_cluster_bits(&self) -> Result<u32, Corrupt> {
        let bits = self.log_cluster_size.checked_sub(self.log_block_size);
        if self.features().has(Feature::BIGALLOC) {
            ensure(
                self.log_cluster_size <= LOG_CLUSTER_SIZE_MAX,
                "cluster size is out of range",
            )?;
            return bits.ok_or(corrupt("cluster size is below the block size"));
        }
        // The field once held the fragment size. The kernel and e2fsck reject any other value.
        ensure(bits == Some(0), "fragment size is not block size")?;
        Ok(0)
    }

    fn checked_desc_size(&self) -> Result<u16, Corrupt> {
        if !self.features().has(Feature::SIXTY_FOUR_BIT) {
            return Ok(32);
        }
        let in_range = (64..=DESC_SIZE_MAX).contains(&self.desc_size);
        ensure(
            in_range && self.desc_size.is_power_of_two(),
            "descriptor size is wrong",
        )?;
        Ok(self.desc_size)
    }

    fn checked_inode_size(&self, block_size: u32) -> Result<(u16, u32), Corrupt> {
        if self.rev_level == 0 {
            return Ok((128, FIRST_INO_MIN));
        }
        let in_range = self.inode_size >= 128 && u32::from(self.inode_size) <= block_size;
        ensure(
            in_range && self.inode_size.is_power_of_two(),
            "inode size is wrong",
        )?;
        ensure(self.first_ino >= FIRST_INO_MIN, "first inode is too small")?;
        Ok((self.inode_size, self.first_ino))
    }

    fn check_per_group(
        &self,
        block_size: u32,
        cluster_bits: u32,
        inode_size: u16,
    ) -> Result<(), Corrupt> {
        let bits_of_bitmap = block_size.saturating_mul(8);
        let clusters = if self.features().has(Feature::BIGALLOC) {
            self.clusters_per_group
        } else {
            self.blocks_per_group
        };
        let blocks = u64::from(clusters) << cluster_bits;
        ensure(
            clusters > 0 && clusters <= bits_of_bitmap,
            "group size does not fit its bitmap",
        )?;
        ensure(clusters.is_multiple_of(8), "group size is no multiple of 8")?;
        ensure(
            blocks == u64::from(self.blocks_per_group),
            "clusters and blocks of a group differ",
        )?;
        ensure(
            self.clusters_per_group == clusters,
            "clusters of a group are wrong",
        )?;
        let inodes_per_block = block_size.checked_div(u32::from(inode_size)).unwrap_or(0);
        let inodes = self.inodes_per_group;
        ensure(
            inodes >= inodes_per_block,
            "inodes of a group do not fill a block",
        )?;
        ensure(
            inodes <= bits_of_bitmap,
            "inodes of a group do not fit their bitmap",
        )?;
        ensure(
            inodes.is_multiple_of(8),
            "inodes of a group are no multiple of 8",
        )
    }

    fn checked_group_count(&self, block_bits: u32, cluster_bits: u32) -> Result<u32, Corrupt> {
        let first = u32::from(block_bits == 10 && cluster_bits == 0);
        let bigalloc = self.features().has(Feature::BIGALLOC);
        let expected = self.first_data_block == first || (bigalloc && self.first_data_block <= 1);
        ensure(expected, "first data block is wrong")?;
        let bytes_fit = self.blocks_count <= BYTES_COUNT_MAX >> block_bits;
        ensure(bytes_fit, "size in bytes is out of range")?;
        ensure(
            self.blocks_count <= BLOCKS_COUNT_MAX,
            "block count is out of range",
        )?;
        let wide = self.features().has(Feature::SIXTY_FOUR_BIT);
        ensure(
            wide || self.blocks_count >> 32 == 0,
            "block count needs the 64bit feature",
        )?;
        let data_blocks = self
            .blocks_count
            .saturating_sub(u64::from(self.first_data_block));
        ensure(data_blocks > 0, "block count is too small")?;
        let groups = data_blocks.div_ceil(u64::from(self.blocks_per_group));
        let inodes = groups.checked_mul(u64::from(self.inodes_per_group));
        ensure(
            inodes == Some(u64::from(self.inodes_count)),
            "inode count is wrong",
        )?;
        ensure(
            self.first_ino <= self.inodes_count,
            "inode count is below the reserved inodes",
        )?;
        ensure(
            self.r_blocks_count <= self.blocks_count,
            "reserved blocks exceed all blocks",
        )?;
        u32::try_from(groups).map_err(|_| corrupt("group count is out of range"))
    }

    fn checked_log_groups_per_flex(&self) -> Result<u32, Corrupt> {
        if !self.features().has(Feature::FLEX_BG) {
            return Ok(0);
        }
        ensure(
            self.log_groups_per_flex < 32,
            "flexible group size is out of range",
        )?;
        Ok(u32::from(self.log_groups_per_flex))
    }

    fn check_descriptors(&self, geometry: &Geometry) -> Result<(), Corrupt> {
        let reserved = geometry.reserved_gdt_blocks;
        ensure(
            reserved <= geometry.block_size() / 4,
            "reserved descriptor blocks exceed a block",
        )?;
        if geometry.features.has(Feature::META_BG) {
            let fits = self.first_meta_bg <= geometry.descriptor_blocks_count();
            ensure(fits, "first meta group is out of range")?;
        }
        let base = geometry.base_metadata_blocks(crate::GroupNr(0));
        let whole = u64::from(geometry.blocks_per_group).min(geometry.blocks_count);
        ensure(
            u64::from(base) < whole,
            "descriptors do not fit into the first group",
        )
    }
}
