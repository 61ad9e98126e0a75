//! Repair of group descriptors.

use super::Outcome;
use super::known_places::{Own, Places};
use super::patch::Patch;
use super::places::Named;
use crate::problems::Task;
use crate::report::Finding;
use crate::state::Step;
use std::collections::BTreeMap;
use uext4_format::{BlockNr, CorruptKind, GroupDescriptor, GroupNr, group_flag};
use uext4_num::{low_u32, usize_of};

impl Patch<'_, '_> {
    /// Lets places be that a sound backup has as well. Other groups, and those that overlap others,
    /// are placed by what is found there (`places`). Counts and checksums of bitmaps follow later.
    pub(super) fn repair_descriptors(
        &mut self,
        tasks: &BTreeMap<Task, Vec<Finding>>,
    ) -> Step<Vec<Outcome>> {
        let mut unplaced = BTreeMap::new();
        for (task, findings) in tasks {
            let group = GroupNr(low_u32(task.nr));
            let mut problems = findings.iter().map(|finding| finding.corrupt.problem);
            let overlaps = problems.any(|problem| problem == CorruptKind::GroupOverlap);
            let own = self.bounded(group)?;
            let backup = self.backup_descriptor(group)?;
            let backup_places = backup.as_ref().map(Places::of);
            let is_at_its_places =
                backup_places == Some(Places::of(&own)) || !findings.iter().any(is_about_places);
            if is_at_its_places && !overlaps && self.is_possible(group, &own) {
                self.write_descriptor(group, &own)?;
            } else {
                let own = self.own(group, findings);
                unplaced.insert(group, Named { own, backup });
            }
        }
        let impossible = self.assign_groups(unplaced)?;
        let numbers = tasks.keys().map(|task| GroupNr(low_u32(task.nr)));
        let outcomes = numbers.map(|group| {
            if impossible.contains(&group) {
                Outcome::Impossible
            } else {
                Outcome::Repaired
            }
        });
        Ok(outcomes.collect())
    }

    fn own(&self, group: GroupNr, findings: &[Finding]) -> Own {
        let mut problems = findings.iter().map(|finding| &finding.corrupt.problem);
        let read = self.check.descriptors.get(usize_of(group.0));
        if read.is_some_and(Option::is_some) {
            Own::Sound
        } else if problems.any(|problem| matches!(problem, CorruptKind::Checksum { .. })) {
            Own::Unsealed
        } else {
            Own::Impossible
        }
    }

    /// A descriptor with possible counts, and nothing for unused: backups are as old as the file
    /// system.
    pub(super) fn bounded(&mut self, group: GroupNr) -> Step<GroupDescriptor> {
        let mut bounded = self.descriptor(group)?;
        let geometry = self.check.geometry;
        bounded.flags &= group_flag::INODE_ZEROED;
        bounded.itable_unused = 0;
        let clusters = geometry.clusters_in_group(group);
        bounded.free_clusters = bounded.free_clusters.min(clusters);
        bounded.free_inodes = bounded.free_inodes.min(geometry.inodes_per_group);
        bounded.used_dirs = bounded.used_dirs.min(geometry.inodes_per_group);
        Ok(bounded)
    }

    /// Whether what a descriptor names is inside of the file system.
    fn is_possible(&self, group: GroupNr, descriptor: &GroupDescriptor) -> bool {
        let geometry = &self.check.geometry;
        let mut bytes = vec![0; usize::from(geometry.desc_size)];
        let checksums = &self.check.checksums;
        descriptor.write_to(&mut bytes, group, geometry, checksums);
        GroupDescriptor::parse(&bytes, group, geometry, checksums).is_ok()
    }

    /// The descriptor in the first group with a backup of the table, if it is sound.
    fn backup_descriptor(&mut self, group: GroupNr) -> Step<Option<GroupDescriptor>> {
        let geometry = self.check.geometry;
        let (primary, at) = geometry.descriptor_location(group);
        let index = group.0 / geometry.descriptors_per_block();
        for holder in (1..geometry.group_count).map(GroupNr) {
            self.check.tick()?;
            let Some((first, run)) = geometry.descriptor_run(holder) else {
                continue;
            };
            let Some(offset) = index.checked_sub(first).filter(|at| *at < run.len_blocks) else {
                continue;
            };
            let block = BlockNr(run.start.0 + u64::from(offset));
            if block == primary || !geometry.contains(block) {
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

/// Whether a problem says that the places of a descriptor may be wrong.
fn is_about_places(finding: &Finding) -> bool {
    matches!(
        finding.corrupt.problem,
        CorruptKind::Checksum { .. }
            | CorruptKind::BlockBitmapRange { .. }
            | CorruptKind::InodeBitmapRange { .. }
            | CorruptKind::InodeTableRange { .. }
    )
}
