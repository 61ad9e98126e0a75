//! Loads the bitmaps of a group on first use, and validates them against its descriptor.
//!
//! A loaded bitmap stays in memory with the group. For a group that was never written (uninit), the
//! bitmap is computed instead: only metadata are in use.
//! Not here: reading bitmaps without caching them (`look.rs`).

use super::Space;
use super::group::{BlockState, Group, InodeState};
use crate::state::base::Base;
use crate::types::error::Result;
use uext4_alloc::{Bitmap, InodeBits, Stat};
use uext4_format::{Corrupt, CorruptKind, DamageLocation, GroupNr, group_flag};
use uext4_journal::Object;
use uext4_num::clamp_u32;

impl Space {
    /// Fills in the block bitmap of a locked half: from disk, or computed for an uninit group.
    pub(super) fn load_blocks(
        &self,
        base: &Base,
        nr: GroupNr,
        half: &mut BlockState,
    ) -> Result<()> {
        if half.used.is_some() {
            return Ok(());
        }
        let bits = self.geometry().clusters_in_group(nr);
        let used = if half.uninit {
            self.computed_bitmap(nr, bits)
        } else {
            let descriptor = half.descriptor();
            let bytes = base.journal.read_block(descriptor.block_bitmap)?;
            self.engine.stats().count(Stat::BitmapsRead);
            descriptor.verify_block_bitmap(&bytes, nr, self.geometry(), &self.layout.checksums)?;
            let used = Bitmap::from_bytes(&bytes, bits);
            self.check_own_metadata(nr, &used)?;
            used
        };
        let (descriptor, bitmap) = (half.free_clusters, used.count_clear());
        if bitmap != descriptor {
            let problem = CorruptKind::FreeCount { descriptor, bitmap };
            return Err(Corrupt::new(DamageLocation::Group(nr), "block bitmap", problem).into());
        }
        half.used = Some(used);
        Ok(())
    }

    /// The inode bitmap of a group: from disk, or empty for an uninit group.
    pub(super) fn inode_bits<'a>(
        &self,
        base: &Base,
        nr: GroupNr,
        group: &'a Group,
    ) -> Result<&'a InodeBits> {
        let cell = &group.inodes.map.bits;
        if let Some(bits) = cell.get() {
            return Ok(bits);
        }
        let half = group.inodes.live().write_unlogged();
        if let Some(bits) = cell.get() {
            return Ok(bits);
        }
        let used = self.load_inodes(base, nr, &half)?;
        Ok(cell.get_or_init(|| InodeBits::new(&used)))
    }

    fn load_inodes(&self, base: &Base, nr: GroupNr, half: &InodeState) -> Result<Bitmap> {
        let bits = self.geometry().inodes_per_group;
        let descriptor = half.descriptor();
        let used = if half.has_flag(group_flag::INODE_UNINIT) {
            Bitmap::new(bits)
        } else {
            let bytes = base.journal.read_block(descriptor.inode_bitmap)?;
            descriptor.verify_inode_bitmap(&bytes, nr, self.geometry(), &self.layout.checksums)?;
            Bitmap::from_bytes(&bytes, bits)
        };
        let (descriptor, bitmap) = (descriptor.free_inodes, used.count_clear());
        if bitmap != descriptor {
            let problem = CorruptKind::FreeCount { descriptor, bitmap };
            return Err(Corrupt::new(DamageLocation::Group(nr), "inode bitmap", problem).into());
        }
        Ok(used)
    }

    /// The block bitmap of an uninit group: metadata only.
    pub(super) fn computed_bitmap(&self, nr: GroupNr, bits: u32) -> Bitmap {
        let mut used = Bitmap::new(bits);
        for (from, to) in self.metadata_clusters(nr) {
            used.fill_range(from..to.min(bits));
        }
        used
    }

    /// Checks that the bitmap marks the group's metadata, so that no file gets those blocks.
    pub(super) fn check_own_metadata(&self, nr: GroupNr, used: &Bitmap) -> Result<()> {
        if self
            .metadata_clusters(nr)
            .all(|(from, to)| used.is_set(from..to.min(used.len())))
        {
            return Ok(());
        }
        let problem = CorruptKind::MetadataFree;
        Err(Corrupt::new(DamageLocation::Group(nr), "block bitmap", problem).into())
    }

    /// Clusters of the group that hold metadata.
    fn metadata_clusters(&self, nr: GroupNr) -> impl Iterator<Item = (u32, u32)> + '_ {
        let geometry = self.geometry();
        let first = geometry.group_first_block(nr).0;
        let end = first + u64::from(geometry.blocks_in_group(nr));
        let bits = geometry.cluster_bits;
        self.zones.inside(first..end).map(move |range| {
            let from = (range.start - first) >> bits;
            let to = (range.end - first).div_ceil(1 << bits);
            (clamp_u32(from), clamp_u32(to))
        })
    }
}
