//! Places of larger inode tables: runs that are free now, with `flex_bg` near the other tables of
//! the flex group, else in the group. Blocks in use stay where they are.

use crate::bitmaps::free_clusters;
use crate::space;
use std::collections::BTreeMap;
use std::ops::Range;
use uext4_format::{BlockNr, Feature, Geometry, GroupDescriptor, GroupNr, group_flag};
use uext4_num::u64_of;
use uext4_volume::Volume;
use uext4_volume::{ResizeError, Result};

/// The first block of the new table of each group.
pub(super) fn find(
    volume: &Volume,
    groups: &[GroupDescriptor],
    new: &Geometry,
) -> Result<Vec<BlockNr>> {
    let blocks = new.inode_table_blocks();
    let len = u64::from(blocks).div_ceil(new.blocks_per_cluster().into());
    check_free(groups, new, len)?;
    let mut free = FreeClusters::read(volume, groups)?;
    let end = new.blocks_count.div_ceil(new.blocks_per_cluster().into());
    let flex_bits = u32::from(volume.superblock.log_groups_per_flex).min(31);
    let mut last_end = 0;
    let mut places = Vec::with_capacity(groups.len());
    for group in (0..new.group_count).map(GroupNr) {
        let flex = GroupNr(group.0 >> flex_bits << flex_bits);
        let flex = new.group_first_block(flex).0 >> new.cluster_bits;
        let zone = space::zone(new, group, end);
        let start = free.take(len, &zone, flex.max(last_end));
        let start = start.ok_or_else(|| no_run(new, group))?;
        last_end = start + len;
        places.push(BlockNr(start << new.cluster_bits));
    }
    Ok(places)
}

/// Refuses, by the counts of groups alone, tables of `len` clusters that cannot fit.
fn check_free(groups: &[GroupDescriptor], new: &Geometry, len: u64) -> Result<()> {
    let free = groups.iter().map(|group| u64::from(group.free_clusters));
    let (free, wanted) = (free.sum::<u64>(), len * u64_of(groups.len()));
    if free < wanted {
        let (free, wanted) = (free << new.cluster_bits, wanted << new.cluster_bits);
        return Err(ResizeError::TableSpace { wanted, free }.into());
    }
    let has_flex = new.features.has(Feature::FLEX_BG);
    let full = (0..)
        .map(GroupNr)
        .zip(groups)
        .find(|(_, group)| u64::from(group.free_clusters) < len);
    match full {
        Some((group, _)) if !has_flex => Err(no_run(new, group).into()),
        _ => Ok(()),
    }
}

fn no_run(new: &Geometry, group: GroupNr) -> ResizeError {
    let (group, blocks) = (group.0, new.inode_table_blocks());
    if new.features.has(Feature::FLEX_BG) {
        ResizeError::Tables { group, blocks }
    } else {
        ResizeError::OwnTables { group, blocks }
    }
}

/// Free clusters: ends of their runs by start.
struct FreeClusters(BTreeMap<u64, u64>);

impl FreeClusters {
    fn read(volume: &Volume, groups: &[GroupDescriptor]) -> Result<Self> {
        let geometry = &volume.geometry;
        let metadata = space::of_metadata(geometry, groups);
        let (mut runs, mut unwritten) = (Vec::new(), Vec::new());
        for (group, descriptor) in (0..).map(GroupNr).zip(groups) {
            if descriptor.has_flag(group_flag::BLOCK_UNINIT) {
                // All but metadata.
                unwritten.push(space::of_group(geometry, group));
            } else {
                runs.extend(free_clusters(volume, descriptor, group)?);
            }
        }
        runs.extend(space::without(&unwritten, &metadata));
        Ok(Self::of(runs))
    }

    fn of(runs: Vec<Range<u64>>) -> Self {
        let runs = space::merged(runs).into_iter();
        Self(runs.map(|run| (run.start, run.end)).collect())
    }

    /// Takes the first `len` clusters in a row in `zone` from `near` on, or before it.
    fn take(&mut self, len: u64, zone: &Range<u64>, near: u64) -> Option<u64> {
        let behind = near.max(zone.start)..zone.end;
        let found = self.first(len, behind);
        let start = found.or_else(|| self.first(len, zone.clone()))?;
        let (run, end) = self.0.range(..=start).next_back().map(|(a, b)| (*a, *b))?;
        self.0.remove(&run);
        for (from, to) in [(run, start), (start + len, end)] {
            if from < to {
                self.0.insert(from, to);
            }
        }
        Some(start)
    }

    fn first(&self, len: u64, zone: Range<u64>) -> Option<u64> {
        if zone.is_empty() {
            return None;
        }
        let around = self.0.range(..zone.start).next_back();
        let inside = self.0.range(zone.clone());
        let mut starts = around.into_iter().chain(inside).map(|(start, end)| {
            let start = (*start).max(zone.start);
            (start, end.min(&zone.end).saturating_sub(start))
        });
        starts.find(|(_, there)| *there >= len).map(|found| found.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_run_with_room_is_taken() {
        let mut free = FreeClusters::of(vec![0..4, 10..30, 40..47]);
        assert_eq!(free.take(5, &(0..100), 12), Some(12));
        assert_eq!(free.take(5, &(0..100), 28), Some(40));
        assert_eq!(free.take(5, &(0..100), 60), Some(17));
        assert_eq!(free.take(5, &(0..20), 0), None);
        assert_eq!(free.take(2, &(11..20), 0), None);
        assert_eq!(free.take(8, &(0..100), 0), Some(22));
        assert_eq!(free.take(3, &(50..50), 0), None);
        assert_eq!(free.take(4, &(0..100), 99), Some(0));
    }
}
