//! The places that are known for the metadata of a group: those that its descriptor and its backup
//! name, those that follow from the groups beside, and that of mkfs.

use super::patch::Patch;
use super::places::{Unplaced, run};
use crate::state::Step;
use std::ops::Range;
use uext4_format::{BlockNr, Feature, GroupDescriptor, GroupNr};
use uext4_num::usize_of;

/// Groups beside that are looked at.
const BESIDE_MAX: u32 = 4;

/// What is known about the descriptor of a group.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Own {
    /// It is sound in itself.
    Sound,
    /// Its checksum is wrong.
    Unsealed,
    /// It names places that are not there.
    Impossible,
}

/// Where the metadata of a group is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Places {
    pub(super) block_bitmap: BlockNr,
    pub(super) inode_bitmap: BlockNr,
    pub(super) inode_table: BlockNr,
}

impl Places {
    pub(super) fn of(descriptor: &GroupDescriptor) -> Self {
        Self {
            block_bitmap: descriptor.block_bitmap,
            inode_bitmap: descriptor.inode_bitmap,
            inode_table: descriptor.inode_table,
        }
    }

    pub(super) fn zones(&self, table_blocks: u64) -> [Range<u64>; 3] {
        [
            run(self.block_bitmap, 1),
            run(self.inode_bitmap, 1),
            run(self.inode_table, table_blocks),
        ]
    }
}

impl Patch<'_, '_> {
    /// The places that are known for the metadata of a group, the best first. The same are in it
    /// once for each source, and twice for a descriptor with a checksum that is right.
    pub(super) fn known_places(
        &mut self,
        group: GroupNr,
        unplaced: &Unplaced,
    ) -> Step<Vec<Places>> {
        let own_places = Places::of(&self.bounded(group)?);
        let usual = self.usual_places(group, unplaced);
        let named = unplaced.get(&group);
        let own = named.map_or(Own::Impossible, |named| named.own);
        let features = &self.check.geometry.features;
        let is_sealed = features.has(Feature::METADATA_CSUM) || features.has(Feature::UNINIT_BG);
        let times = if is_sealed { 2 } else { 1 };
        let backup = named.and_then(|named| named.backup.as_ref());
        let mut known = Vec::new();
        known.extend(
            backup
                .into_iter()
                .flat_map(|backup| vec![Places::of(backup); times]),
        );
        match own {
            Own::Sound => {
                known.extend(vec![own_places; times]);
                known.extend(usual);
            }
            Own::Unsealed => {
                known.extend(usual);
                known.push(own_places);
            }
            Own::Impossible => {
                known.push(own_places);
                known.extend(usual);
            }
        }
        Ok(known)
    }

    /// The places that the backup of a descriptor names, and those of one without damage.
    pub(super) fn named_places(
        &mut self,
        group: GroupNr,
        unplaced: &Unplaced,
    ) -> Step<Vec<Places>> {
        let own = Places::of(&self.bounded(group)?);
        let stated = unplaced.get(&group);
        let is_sound = stated.is_some_and(|stated| stated.own == Own::Sound);
        let backup = stated.and_then(|stated| stated.backup.as_ref());
        let backup = backup.map(Places::of);
        Ok(backup.into_iter().chain(is_sound.then_some(own)).collect())
    }

    /// Where the metadata of a group is by the groups beside, and by the order of mkfs.
    pub(super) fn usual_places(&self, group: GroupNr, unplaced: &Unplaced) -> Vec<Places> {
        let geometry = &self.check.geometry;
        let table_blocks = u64::from(geometry.inode_table_blocks());
        let is_flexible = geometry.features.has(Feature::FLEX_BG);
        let members = if is_flexible {
            geometry.groups_per_flex()
        } else {
            1
        };
        let first = GroupNr(group.0 - group.0 % members);
        let at = u64::from(group.0 - first.0);
        let base = u64::from(geometry.base_metadata_blocks(first));
        let start = geometry.group_first_block(first).0 + base;
        let count = u64::from(members.min(geometry.group_count - first.0));
        // mke2fs leaves room for groups that are not there, or none; for a single one it does.
        let mut counts = vec![count, u64::from(members)];
        counts.dedup();
        if count == 1 {
            counts.reverse();
        }
        let usual = counts.into_iter().map(|count| Places {
            block_bitmap: BlockNr(start + at),
            inode_bitmap: BlockNr(start + count + at),
            inode_table: BlockNr(start + 2 * count + at * table_blocks),
        });
        let mut usual: Vec<Places> = usual.collect();
        let beside = first.0.max(group.0.saturating_sub(BESIDE_MAX))
            ..(first.0.saturating_add(members))
                .min(group.0.saturating_add(BESIDE_MAX))
                .min(geometry.group_count);
        for other in beside.map(GroupNr).filter(|other| *other != group) {
            let descriptor = self.check.descriptors.get(usize_of(other.0));
            let Some(descriptor) = descriptor.and_then(Option::as_ref) else {
                continue;
            };
            if unplaced.contains_key(&other) {
                continue;
            }
            let shifted = |block: BlockNr, each: u64| {
                let block = i128::from(block.0)
                    + (i128::from(group.0) - i128::from(other.0)) * i128::from(each);
                BlockNr(u64::try_from(block).unwrap_or(0))
            };
            usual.push(Places {
                block_bitmap: shifted(descriptor.block_bitmap, 1),
                inode_bitmap: shifted(descriptor.inode_bitmap, 1),
                inode_table: shifted(descriptor.inode_table, table_blocks),
            });
        }
        usual
    }
}
