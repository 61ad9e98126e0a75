//! Clusters as sets of ranges: what metadata take, what is free, what is marked.

use std::collections::BTreeSet;
use std::ops::Range;
use uext4_format::{Feature, Geometry, GroupDescriptor, GroupNr};
use uext4_num::{clamp_usize, u64_of};

/// The clusters of a run of blocks.
pub(super) fn clusters(geometry: &Geometry, start: u64, len_blocks: u64) -> Range<u64> {
    let bits = geometry.cluster_bits;
    match len_blocks {
        0 => start >> bits..start >> bits,
        len => start >> bits..((start + len - 1) >> bits) + 1,
    }
}

/// The clusters of superblocks, descriptors, reserved blocks, bitmaps and inode tables of the
/// groups of `geometry`: sorted, without overlap.
pub(super) fn of_metadata(geometry: &Geometry, groups: &[GroupDescriptor]) -> Vec<Range<u64>> {
    let count = clamp_usize(geometry.group_count);
    let numbered = (0..).map(GroupNr).zip(groups).take(count);
    merged(
        numbered
            .flat_map(|(group, at)| {
                let base = geometry.base_metadata_blocks(group);
                let table = geometry.inode_table_blocks();
                [
                    clusters(geometry, geometry.group_first_block(group).0, base.into()),
                    clusters(geometry, at.block_bitmap.0, 1),
                    clusters(geometry, at.inode_bitmap.0, 1),
                    clusters(geometry, at.inode_table.0, table.into()),
                ]
            })
            .collect(),
    )
}

/// The clusters before `end` in which the metadata of a group may be.
pub(super) fn zone(geometry: &Geometry, group: GroupNr, end: u64) -> Range<u64> {
    if geometry.features.has(Feature::FLEX_BG) {
        return 0..end;
    }
    let all = of_group(geometry, group);
    all.start..all.end.min(end)
}

/// Clusters of a group.
pub(super) fn of_group(geometry: &Geometry, group: GroupNr) -> Range<u64> {
    let start = geometry.group_first_block(group).0;
    let len = geometry.blocks_in_group(group);
    clusters(geometry, start, len.into())
}

/// The ranges, sorted and joined.
pub(super) fn merged(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut().filter(|last| last.end >= range.start) {
            Some(last) => last.end = last.end.max(range.end),
            None => joined.push(range),
        }
    }
    joined
}

/// Ranges in their order, of which each that follows another without a gap is joined to it.
pub(super) fn joined(ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    let mut joined: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut().filter(|last| last.end == range.start) {
            Some(last) => last.end = range.end,
            None => joined.push(range),
        }
    }
    joined
}

/// What is in `all` and not in `kept`; both are sorted, without overlap.
pub(super) fn without(all: &[Range<u64>], kept: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut left = Vec::new();
    let mut kept = kept.iter().peekable();
    for range in all {
        let mut at = range.start;
        while kept.next_if(|kept| kept.end <= at).is_some() {}
        while let Some(hole) = kept.peek().filter(|kept| kept.start < range.end) {
            if at < hole.start {
                left.push(at..hole.start);
            }
            at = at.max(hole.end);
            if at >= range.end {
                break;
            }
            kept.next();
        }
        if at < range.end {
            left.push(at..range.end);
        }
    }
    left
}

/// Number of clusters in the ranges, which do not overlap.
pub(super) fn total(ranges: &[Range<u64>]) -> u64 {
    ranges.iter().map(|range| range.end - range.start).sum()
}

/// The part of sorted ranges before a cluster.
pub(super) fn before(ranges: &[Range<u64>], end: u64) -> Vec<Range<u64>> {
    let cut = ranges.iter().map(|range| range.start..range.end.min(end));
    cut.filter(|range| !range.is_empty()).collect()
}

/// The parts of a range that are in sorted ranges without overlap.
pub(super) fn common(
    range: Range<u64>,
    ranges: &[Range<u64>],
) -> impl Iterator<Item = Range<u64>> + '_ {
    let first = ranges.partition_point(|other| other.end <= range.start);
    let met = ranges[first..].iter();
    let met = met.take_while(move |other| other.start < range.end);
    met.map(move |other| other.start.max(range.start)..other.end.min(range.end))
}

/// Free clusters by length of their runs.
pub(super) struct FreeRuns {
    /// Length, and first cluster.
    by_len: BTreeSet<(u64, u64)>,
}

impl FreeRuns {
    pub(super) fn new(runs: &[Range<u64>]) -> Self {
        let by_len = runs.iter().map(|run| (run.end - run.start, run.start));
        Self {
            by_len: by_len.collect(),
        }
    }

    /// Takes up to `len` clusters: of the shortest run that has as many, else the longest run.
    pub(super) fn take(&mut self, len: u64) -> Option<Range<u64>> {
        let fits = self.by_len.range((len, 0)..).next();
        let found = fits.or(self.by_len.last()).copied()?;
        self.by_len.remove(&found);
        let (there, start) = found;
        let taken = there.min(len);
        if taken < there {
            self.by_len.insert((there - taken, start + taken));
        }
        Some(start..start + taken)
    }

    /// What is left, sorted.
    pub(super) fn into_runs(self) -> Vec<Range<u64>> {
        merged(
            self.by_len
                .into_iter()
                .map(|(len, start)| start..start + len)
                .collect(),
        )
    }
}

/// A set of clusters, one bit each.
pub(super) struct Marks(Vec<u64>);

impl Marks {
    pub(super) fn new(clusters: u64) -> Self {
        Self(vec![0; clamp_usize(clusters.div_ceil(64))])
    }

    /// Adds clusters; returns the first that was there already, or is none of these clusters.
    pub(super) fn add(&mut self, range: Range<u64>) -> Option<u64> {
        let mut known = None;
        for at in range {
            let Some(word) = self.0.get_mut(clamp_usize(at / 64)) else {
                return known.or(Some(at));
            };
            let bit = 1 << (at % 64);
            if *word & bit != 0 && known.is_none() {
                known = Some(at);
            }
            *word |= bit;
        }
        known
    }

    /// The first cluster that is in one of the sets only.
    pub(super) fn first_difference(&self, other: &Self) -> Option<u64> {
        let pairs = self.0.iter().zip(&other.0);
        let different = pairs.map(|(a, b)| a ^ b).enumerate();
        let mut different = different.filter(|(_, bits)| *bits != 0);
        let (at, bits) = different.next()?;
        Some(u64_of(at) * 64 + u64::from(bits.trailing_zeros()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_join_and_leave_holes() {
        let all = merged(vec![20..30, 0..5, 5..9, 25..40]);
        assert_eq!(all, [0..9, 20..40]);
        assert_eq!(
            without(&all, &[2..3, 8..22, 25..26, 39..50]),
            [0..2, 3..8, 22..25, 26..39]
        );
        assert_eq!(without(&all, &[]), all);
        assert_eq!(total(&all), 29);
        assert_eq!(before(&all, 21), [0..9, 20..21]);
        assert_eq!(common(5..25, &all).collect::<Vec<_>>(), [5..9, 20..25]);
        assert_eq!(common(9..20, &all).count(), 0);
        assert_eq!(joined(vec![4..6, 6..9, 1..2, 2..4]), [4..9, 1..4]);
    }

    #[test]
    fn a_run_is_as_short_as_possible() {
        let mut free = FreeRuns::new(&[0..4, 10..30, 40..47]);
        assert_eq!(free.take(5), Some(40..45));
        assert_eq!(free.take(100), Some(10..30));
        assert_eq!(free.take(2), Some(45..47));
        assert_eq!(free.take(1), Some(0..1));
        assert_eq!(free.take(9), Some(1..4));
        assert!(free.into_runs().is_empty());
    }

    #[test]
    fn marks_tell_overlaps_and_differences() {
        let (mut a, mut b) = (Marks::new(200), Marks::new(200));
        assert_eq!(a.add(60..130), None);
        assert_eq!(a.add(129..131), Some(129));
        assert_eq!(Marks::new(200).add(190..1 << 60), Some(256));
        assert_eq!(
            Marks::new(200).add(u64::MAX - 1..u64::MAX),
            Some(u64::MAX - 1)
        );
        b.add(60..130);
        assert_eq!(a.first_difference(&b), Some(130));
    }
}
