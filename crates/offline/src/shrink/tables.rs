//! Bitmaps and inode tables of groups that stay, which lie behind the new end: where they go, and
//! their moves.
//!
//! An inode table is one run. Where no run is free, a window before the end becomes free: the one
//! with the fewest blocks in use, all of files. With `flex_bg` it may be anywhere, else it is in
//! the group. A copy of a table is written first; then a transaction has the descriptor and
//! bitmaps.

use super::layout::Layout;
use super::moves::Mover;
use crate::space;
use std::ops::Range;
use uext4_format::bitmap::{clear_bits, set_bits};
use uext4_format::{BlockNr, Geometry, GroupDescriptor, GroupNr};
use uext4_num::usize_of;
use uext4_volume::{InTheWay, Result};

/// What a descriptor has the place of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    InodeTable,
    BlockBitmap,
    InodeBitmap,
}

impl Part {
    const ALL: [Self; 3] = [Self::InodeTable, Self::BlockBitmap, Self::InodeBitmap];

    fn run(self, geometry: &Geometry, of: &GroupDescriptor) -> (u64, u64) {
        match self {
            Self::InodeTable => (of.inode_table.0, geometry.inode_table_blocks().into()),
            Self::BlockBitmap => (of.block_bitmap.0, 1),
            Self::InodeBitmap => (of.inode_bitmap.0, 1),
        }
    }

    fn clusters(self, geometry: &Geometry, of: &GroupDescriptor) -> Range<u64> {
        let (start, len) = self.run(geometry, of);
        space::clusters(geometry, start, len)
    }
}

/// One of them with its new place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TableMove {
    group: GroupNr,
    part: Part,
    to: BlockNr,
}

impl TableMove {
    /// Changes the place in the descriptor of its group.
    pub(super) fn apply(&self, descriptor: &mut GroupDescriptor) {
        match self.part {
            Part::InodeTable => descriptor.inode_table = self.to,
            Part::BlockBitmap => descriptor.block_bitmap = self.to,
            Part::InodeBitmap => descriptor.inode_bitmap = self.to,
        }
    }

    /// Changes the place in the descriptors of all groups.
    pub(super) fn apply_to(&self, groups: &mut [GroupDescriptor]) {
        if let Some(descriptor) = groups.get_mut(usize_of(self.group.0)) {
            self.apply(descriptor);
        }
    }
}

/// The moves, and the clusters before the end that they need: these become free before.
pub(super) struct TablePlan {
    pub(super) moves: Vec<TableMove>,
    /// Ranges of clusters, sorted, without overlap.
    pub(super) windows: Vec<Range<u64>>,
}

impl TablePlan {
    /// Plans the moves for a smaller geometry, or tells which block is in the way.
    pub(super) fn of(layout: &Layout, new: &Geometry) -> std::result::Result<Self, InTheWay> {
        let end = new.blocks_count >> new.cluster_bits;
        let mut places = Places::new(layout, end);
        let mut plan = Self {
            moves: Vec::new(),
            windows: Vec::new(),
        };
        // The long ones first.
        for part in Part::ALL {
            for (group, descriptor) in (0..new.group_count).map(GroupNr).zip(&layout.groups) {
                let now = part.clusters(new, descriptor);
                if now.end <= end {
                    continue;
                }
                let zone = space::zone(new, group, end);
                let block = (now.end << new.cluster_bits) - 1;
                let len = now.end - now.start;
                let run = places.take(len, zone);
                let run = run.ok_or(InTheWay::Metadata { block })?;
                plan.moves.push(TableMove {
                    group,
                    part,
                    to: BlockNr(run.start << new.cluster_bits),
                });
                plan.windows.push(run);
            }
        }
        plan.windows = space::merged(plan.windows);
        Ok(plan)
    }
}

/// Where metadata may go.
struct Places {
    /// Clusters before the end that are free or can become so.
    movable: Vec<Range<u64>>,
    /// Free ones among them.
    free: Vec<Range<u64>>,
}

impl Places {
    fn new(layout: &Layout, end: u64) -> Self {
        let geometry = &layout.geometry;
        let mut fixed = space::of_metadata(geometry, &layout.groups);
        fixed.push(0..u64::from(geometry.first_data_block));
        let pins = layout.pins.iter().map(|pin| &pin.blocks);
        let pins = pins.map(|run| space::clusters(geometry, run.start, run.end - run.start));
        fixed.extend(pins);
        Self {
            movable: space::without(std::slice::from_ref(&(0..end)), &space::merged(fixed)),
            free: space::before(&layout.free, end),
        }
    }

    /// Takes a run of `len` clusters in `zone`: the one with most of them free.
    fn take(&mut self, len: u64, zone: Range<u64>) -> Option<Range<u64>> {
        let sums = Sums::of(&self.free);
        let mut best: Option<(u64, u64)> = None;
        for part in space::common(zone, &self.movable) {
            if part.end - part.start < len {
                continue;
            }
            let last = part.end - len;
            let ends = space::common(part.clone(), &self.free)
                .flat_map(|free| [free.start, free.end.saturating_sub(len)]);
            for start in ends.chain([part.start]) {
                let start = start.clamp(part.start, last);
                let used = len - sums.between(start..start + len);
                if best.is_none_or(|found| (used, start) < found) {
                    best = Some((used, start));
                }
            }
        }
        let (_, start) = best?;
        let run = start..start + len;
        self.movable = space::without(&self.movable, std::slice::from_ref(&run));
        self.free = space::without(&self.free, std::slice::from_ref(&run));
        Some(run)
    }
}

/// Sizes of sorted ranges, summed.
struct Sums<'a> {
    ranges: &'a [Range<u64>],
    /// Clusters of the ranges before each.
    before: Vec<u64>,
}

impl<'a> Sums<'a> {
    fn of(ranges: &'a [Range<u64>]) -> Self {
        let mut sum = 0;
        Self {
            before: ranges
                .iter()
                .map(|range| {
                    let before = sum;
                    sum += range.end - range.start;
                    before
                })
                .collect(),
            ranges,
        }
    }

    fn below(&self, cluster: u64) -> u64 {
        let after = self.ranges.partition_point(|range| range.start < cluster);
        let Some(at) = after.checked_sub(1) else {
            return 0;
        };
        let range = &self.ranges[at];
        self.before[at] + (cluster.min(range.end) - range.start)
    }

    fn between(&self, range: Range<u64>) -> u64 {
        self.below(range.end) - self.below(range.start)
    }
}

impl Mover<'_> {
    /// Moves bitmaps and inode tables. Nothing else waits for a commit.
    pub(super) fn move_tables(&mut self, moves: &[TableMove]) -> Result<()> {
        for moved in moves {
            self.move_table(moved)?;
            self.commit_if_full()?;
        }
        self.commit()
    }

    fn move_table(&mut self, moved: &TableMove) -> Result<()> {
        let geometry = *self.volume.geometry();
        let all = (0..geometry.group_count).map(GroupNr);
        let groups = all.map(|group| self.descriptors.get(group));
        let mut groups = groups.collect::<Result<Vec<_>>>()?;
        let before = space::of_metadata(&geometry, &groups);
        let mut descriptor = groups[usize_of(moved.group.0)].clone();
        let (from, len) = moved.part.run(&geometry, &descriptor);
        self.copy_blocks(from, moved.to.0, len)?;
        moved.apply(&mut descriptor);
        moved.apply_to(&mut groups);
        let after = space::of_metadata(&geometry, &groups);
        // Without a bitmap on the device, that of the group follows from its descriptor.
        self.bitmap(moved.group)?;
        let blocks = |run: &Range<u64>| {
            let start = run.start << geometry.cluster_bits;
            (start, (run.end - run.start) << geometry.cluster_bits)
        };
        for (start, len) in space::without(&after, &before).iter().map(blocks) {
            self.mark(start, len, set_bits)?;
        }
        for (start, len) in space::without(&before, &after).iter().map(blocks) {
            self.mark(start, len, clear_bits)?;
        }
        self.descriptors.set(moved.group, &descriptor);
        self.count_overhead(space::total(&before), space::total(&after));
        Ok(())
    }

    /// Clusters of two tables may be the same: then the overhead changes.
    fn count_overhead(&mut self, before: u64, after: u64) {
        let known = self.volume.superblock().overhead_clusters;
        if known != 0 {
            let now = (u64::from(known) + after).saturating_sub(before);
            self.volume.set_overhead(uext4_num::clamp_u32(now));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_where_most_is_free() {
        let mut places = Places {
            movable: vec![0..100, 200..300],
            free: vec![10..14, 50..60, 210..230],
        };
        assert_eq!(places.take(20, 0..300), Some(210..230));
        assert_eq!(places.take(12, 0..300), Some(48..60));
        assert_eq!(places.take(12, 0..40), Some(2..14));
        assert_eq!(places.take(86, 0..300), None);
        assert_eq!(places.free, []);
    }

    #[test]
    fn sums_count_parts_of_ranges() {
        let ranges = [3..5, 10..20];
        let sums = Sums::of(&ranges);
        assert_eq!(sums.between(0..100), 12);
        assert_eq!(sums.between(4..12), 3);
        assert_eq!(sums.between(5..10), 0);
        assert_eq!(sums.between(15..16), 1);
    }
}
