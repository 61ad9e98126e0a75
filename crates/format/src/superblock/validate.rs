//! Validation of a superblock, which yields a [`Geometry`] without further checks.

use super::{Superblock, corrupt};
use crate::geometry::Geometry;
use crate::{Corrupt, CorruptKind as Kind, Feature, InodeNr};
use uext4_num::clamp_u32;

/// Largest block: 64 KiB, the largest `log_block_size` is 6.
const LOG_BLOCK_SIZE_MAX: u32 = 6;
/// Largest `log_cluster_size`: clusters of 1 GiB.
const LOG_CLUSTER_SIZE_MAX: u32 = 20;
/// Physical block numbers have 48 bits.
const BLOCKS_COUNT_MAX: u64 = 1 << 48;
/// Sizes in bytes stay within a signed 64-bit offset.
const BYTES_COUNT_MAX: u64 = 1 << 62;
/// Largest descriptor in bytes: the smallest block.
pub const DESC_SIZE_MAX: u32 = 1024;
/// Smallest first inode that is not reserved.
const FIRST_INO_MIN: u32 = InodeNr::FIRST_ORDINARY.0;

fn ensure(holds: bool, problem: Kind) -> Result<(), Corrupt> {
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
            Kind::BlockSize {
                found: self.log_block_size,
            },
        )?;
        Ok(self.log_block_size.saturating_add(10))
    }

    fn checked_cluster_bits(&self) -> Result<u32, Corrupt> {
        let bits = self.log_cluster_size.checked_sub(self.log_block_size);
        if self.features().has(Feature::BIGALLOC) {
            ensure(
                self.log_cluster_size <= LOG_CLUSTER_SIZE_MAX,
                Kind::ClusterSize {
                    found: self.log_cluster_size,
                },
            )?;
            return bits.ok_or(corrupt(Kind::ClusterBelowBlock));
        }
        // The field once held the fragment size. The kernel and e2fsck reject any other value.
        ensure(bits == Some(0), Kind::FragmentSize)?;
        Ok(0)
    }

    fn checked_desc_size(&self) -> Result<u16, Corrupt> {
        if !self.features().has(Feature::SIXTY_FOUR_BIT) {
            return Ok(32);
        }
        let in_range = (64..=DESC_SIZE_MAX).contains(&u32::from(self.desc_size));
        ensure(
            in_range && self.desc_size.is_power_of_two(),
            Kind::DescriptorSize {
                found: self.desc_size,
            },
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
            Kind::InodeSize {
                found: self.inode_size,
            },
        )?;
        ensure(
            self.first_ino >= FIRST_INO_MIN,
            Kind::FirstInode {
                found: self.first_ino,
            },
        )?;
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
            Kind::GroupSize {
                found: clusters,
                max: bits_of_bitmap,
            },
        )?;
        ensure(
            clusters.is_multiple_of(8),
            Kind::GroupSizeUneven { found: clusters },
        )?;
        ensure(
            blocks == u64::from(self.blocks_per_group),
            Kind::ClustersAndBlocks,
        )?;
        ensure(
            self.clusters_per_group == clusters,
            Kind::ClustersPerGroup {
                found: self.clusters_per_group,
                expected: clusters,
            },
        )?;
        let inodes_per_block = block_size.checked_div(u32::from(inode_size)).unwrap_or(0);
        let inodes = self.inodes_per_group;
        ensure(
            inodes >= inodes_per_block,
            Kind::InodesBelowBlock {
                found: inodes,
                min: inodes_per_block,
            },
        )?;
        ensure(
            inodes <= bits_of_bitmap,
            Kind::InodesAboveBitmap {
                found: inodes,
                max: bits_of_bitmap,
            },
        )?;
        ensure(
            inodes.is_multiple_of(8),
            Kind::InodesUneven { found: inodes },
        )
    }

    fn checked_group_count(&self, block_bits: u32, cluster_bits: u32) -> Result<u32, Corrupt> {
        let first = u32::from(block_bits == 10 && cluster_bits == 0);
        let bigalloc = self.features().has(Feature::BIGALLOC);
        let expected = self.first_data_block == first || (bigalloc && self.first_data_block <= 1);
        ensure(
            expected,
            Kind::FirstDataBlock {
                found: self.first_data_block,
            },
        )?;
        let bytes_fit = self.blocks_count <= BYTES_COUNT_MAX >> block_bits;
        ensure(
            bytes_fit,
            Kind::ByteSize {
                blocks: self.blocks_count,
            },
        )?;
        ensure(
            self.blocks_count <= BLOCKS_COUNT_MAX,
            Kind::BlockCount {
                found: self.blocks_count,
            },
        )?;
        let wide = self.features().has(Feature::SIXTY_FOUR_BIT);
        ensure(
            wide || self.blocks_count >> 32 == 0,
            Kind::BlockCountWide {
                found: self.blocks_count,
            },
        )?;
        let data_blocks = self
            .blocks_count
            .saturating_sub(u64::from(self.first_data_block));
        ensure(
            data_blocks > 0,
            Kind::BlockCountSmall {
                found: self.blocks_count,
            },
        )?;
        let groups = data_blocks.div_ceil(u64::from(self.blocks_per_group));
        let inodes = groups.checked_mul(u64::from(self.inodes_per_group));
        ensure(
            inodes == Some(u64::from(self.inodes_count)),
            Kind::InodeCount {
                found: self.inodes_count,
                groups: clamp_u32(groups),
            },
        )?;
        ensure(
            self.first_ino <= self.inodes_count,
            Kind::InodeCountSmall {
                found: self.inodes_count,
            },
        )?;
        ensure(
            self.r_blocks_count <= self.blocks_count,
            Kind::ReservedBlocks {
                found: self.r_blocks_count,
            },
        )?;
        u32::try_from(groups).map_err(|_| corrupt(Kind::GroupCount { found: groups }))
    }

    fn checked_log_groups_per_flex(&self) -> Result<u32, Corrupt> {
        if !self.features().has(Feature::FLEX_BG) {
            return Ok(0);
        }
        ensure(
            self.log_groups_per_flex < 32,
            Kind::FlexSize {
                found: self.log_groups_per_flex,
            },
        )?;
        Ok(u32::from(self.log_groups_per_flex))
    }

    fn check_descriptors(&self, geometry: &Geometry) -> Result<(), Corrupt> {
        let reserved = geometry.reserved_gdt_blocks;
        ensure(
            reserved <= geometry.block_size() / 4,
            Kind::ReservedDescriptors { found: reserved },
        )?;
        if geometry.features.has(Feature::META_BG) {
            let fits = self.first_meta_bg <= geometry.descriptor_blocks_count();
            ensure(
                fits,
                Kind::FirstMetaGroup {
                    found: self.first_meta_bg,
                },
            )?;
        }
        let base = geometry.base_metadata_blocks(crate::GroupNr(0));
        let whole = u64::from(geometry.blocks_per_group).min(geometry.blocks_count);
        ensure(u64::from(base) < whole, Kind::DescriptorsSpace)
    }
}
