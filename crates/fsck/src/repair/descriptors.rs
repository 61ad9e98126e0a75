//! Repair of group descriptors.

use super::Outcome;
use super::patch::Patch;
use crate::state::Step;
use uext4_format::{BlockNr, GroupDescriptor, GroupNr, group_flag};
use uext4_num::usize_of;

impl Patch<'_, '_> {
    /// Takes the locations from a sound backup, else its own if they are possible, and nothing for
    /// unused: backups are as old as the file system. Counts and checksums of bitmaps follow later.
    pub(super) fn repair_descriptor(&mut self, group: GroupNr) -> Step<Outcome> {
        let mut repaired = self.descriptor(group)?;
        if let Some(backup) = self.backup_descriptor(group)? {
            repaired.block_bitmap = backup.block_bitmap;
            repaired.inode_bitmap = backup.inode_bitmap;
            repaired.inode_table = backup.inode_table;
        }
        let geometry = self.check.geometry;
        repaired.flags &= group_flag::INODE_ZEROED;
        repaired.itable_unused = 0;
        let clusters = geometry.clusters_in_group(group);
        repaired.free_clusters = repaired.free_clusters.min(clusters);
        repaired.free_inodes = repaired.free_inodes.min(geometry.inodes_per_group);
        repaired.used_dirs = repaired.used_dirs.min(geometry.inodes_per_group);
        let mut bytes = vec![0; usize::from(geometry.desc_size)];
        repaired.write_to(&mut bytes, group, &geometry, &self.check.checksums);
        let parsed = GroupDescriptor::parse(&bytes, group, &geometry, &self.check.checksums);
        if parsed.is_err() {
            return Ok(Outcome::Impossible);
        }
        self.write_descriptor(group, &repaired)?;
        Ok(Outcome::Repaired)
    }

    /// The descriptor in the first group with a backup of the table, if it is sound.
    fn backup_descriptor(&mut self, group: GroupNr) -> Step<Option<GroupDescriptor>> {
        let geometry = self.check.geometry;
        let (primary, at) = geometry.descriptor_location(group);
        let index = group.0 / geometry.descriptors_per_block();
        for holder in (1..geometry.group_count).map(GroupNr) {
            let Some((first, run)) = geometry.descriptor_run(holder) else {
                continue;
            };
            let Some(offset) = index.checked_sub(first).filter(|at| *at < run.len_blocks) else {
                continue;
            };
            let block = BlockNr(run.start.0 + u64::from(offset));
            if block == primary {
                continue;
            }
            let bytes = self.read(block)?;
            let bytes = bytes.get(usize_of(at)..).unwrap_or_default();
            let checksums = &self.check.checksums;
            let parsed = GroupDescriptor::parse(bytes, group, &geometry, checksums);
            return Ok(parsed.ok());
        }
        Ok(None)
    }
}
