//! Growth of a mounted file system: takes over what the device has.
//!
//! No change is in progress, the journal is at rest, and no thread learns. So the descriptors on
//! the device have all there is to know of space. Old groups that the growth changed begin again,
//! as after a mount: the last one, whose bitmap is longer, and a few whose descriptors are new.
//!
//! Invariants: readers go on. A group has its descriptor, its zones and its places in all arrays
//! before the geometry says that it exists; the arrays were made for `groups_max` groups.
//! Not here: the writes (`resize`).

use super::Space;
use super::claims::Reserves;
use super::descriptors::{inode_summary, summary};
use super::load::{overhead_blocks, volume};
use crate::types::error::{ResizeError, Result};
use uext4_format::{Geometry, GroupNr, Superblock};
use uext4_journal::Object;
use uext4_sync::atomic::Ordering;
use uext4_volume::{DescriptorTable, Survey};

/// The descriptors on the device before a growth.
pub(crate) struct BeforeGrowth(DescriptorTable);

impl Space {
    /// Refuses a size for whose groups no memory is kept.
    pub(crate) fn check_growth(&self, wanted: &Geometry) -> Result<()> {
        let groups_max = self.engine.volume().groups_max;
        if wanted.group_count <= groups_max {
            return Ok(());
        }
        let blocks = u64::from(groups_max) * u64::from(wanted.blocks_per_group);
        let limit_bytes = (u64::from(wanted.first_data_block) + blocks) << wanted.block_bits;
        Err(ResizeError::GrowthLimit { limit_bytes }.into())
    }

    /// Gives up what is reserved in memory, and reads the descriptors.
    pub(crate) fn before_growth(&self) -> Result<BeforeGrowth> {
        while self.discard_preallocations() > 0 {}
        let there = DescriptorTable::read(&*self.device, self.geometry())?;
        Ok(BeforeGrowth(there))
    }

    /// Takes over the file system that the device has now, with this superblock.
    ///
    /// # Errors
    /// Those of the device, and damage; the space must not be used then.
    pub(crate) fn grow(
        &self,
        BeforeGrowth(before): &BeforeGrowth,
        disk: &Superblock,
    ) -> Result<()> {
        let (old, new) = (*self.geometry(), disk.geometry()?);
        let there = DescriptorTable::read(&*self.device, &new)?;
        let (free_before, survey) = (
            Survey::of(before, &old).free_clusters,
            Survey::of(&there, &new),
        );
        let free = survey.free_clusters.saturating_sub(free_before);
        let changed = (0..old.group_count).map(GroupNr);
        let changed: Vec<GroupNr> = changed.filter(|nr| there.differs(before, *nr)).collect();
        self.raw.replace(there);
        let overhead = overhead_blocks(disk, &new, &survey.zones);
        self.overhead_blocks.store(overhead, Ordering::Relaxed);
        self.zones.replace(survey.zones);
        self.layout.geometry.replace(new);
        for nr in &changed {
            let descriptor = self
                .raw
                .parse(*nr, &self.layout.geometry, &self.layout.checksums)?;
            let half = &self.group(*nr)?.blocks;
            half.live().write_unlogged().renew(descriptor);
        }
        let unclaimed = self.grow_allocator(&new, &changed);
        self.claims.grow(free, unclaimed, Reserves::of(disk, &new));
        Ok(())
    }

    /// Returns how many clusters were reserved in changed groups (a partial last one, which is
    /// whole now), or were unusable there.
    fn grow_allocator(&self, new: &Geometry, changed: &[GroupNr]) -> u64 {
        let volume = volume(new, self.engine.volume().groups_max);
        self.policy
            .grow(volume.clone(), &|nr| inode_summary(&self.raw, new, nr));
        self.engine
            .grow(volume, changed, &|nr| summary(&self.raw, new, nr))
    }
}
