//! Free space fragmentation: extents by length, and their distribution over the device.

use super::Space;
use crate::state::base::Base;
use crate::types::error::Result;
use serde::{Deserialize, Serialize};
use std::ops::Range;
use uext4_alloc::ClusterNr;
use uext4_format::GroupNr;
use uext4_journal::Object;
use uext4_num::{clamp_u16, clamp_usize, u64_of, usize_of};

/// Free extents of a range of lengths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FreeExtents {
    /// Shortest length in this row, in bytes; the longest is one cluster less than twice that.
    pub from_bytes: u64,
    /// Number of free extents in this row.
    pub extents: u64,
    /// Total length in bytes.
    pub bytes: u64,
}

/// The free space of a file system; free extents may span groups.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FreeFragments {
    /// Size of the file system in bytes.
    pub size_bytes: u64,
    /// Size of a cluster in bytes.
    pub cluster_bytes: u64,
    /// Free space in bytes.
    pub free_bytes: u64,
    /// Number of free extents.
    pub extents: u64,
    /// Length of the shortest extent in bytes; 0 if none is free.
    pub min_bytes: u64,
    /// Length of the longest extent in bytes.
    pub max_bytes: u64,
    /// Extents by power of two of their length, without empty rows.
    pub histogram: Vec<FreeExtents>,
    /// Free share of each slice of the device in thousandths; all slices but the last have the same
    /// size.
    pub picture: Vec<u16>,
}

impl Space {
    /// Reads all block bitmaps; see [`crate::Filesystem::free_fragments`].
    pub(crate) fn fragments(&self, base: &Base, slices: usize) -> Result<FreeFragments> {
        let volume = self.engine.volume();
        let mut survey = Survey::new(volume.clusters(), slices);
        for nr in (0..volume.groups).map(GroupNr) {
            let first = volume.first_cluster(nr).0;
            self.each_free_run(base, nr, |run| {
                survey.add(first + u64::from(run.start)..first + u64::from(run.end));
            })?;
        }
        let block_size = u64::from(self.geometry().block_size());
        let cluster_bytes = block_size << self.geometry().cluster_bits;
        Ok(survey.finish(cluster_bytes, self.geometry().blocks_count * block_size))
    }

    /// The free runs of each group by the bitmaps, in blocks, ascending.
    pub(crate) fn free_runs(&self, base: &Base) -> Result<Vec<Range<u64>>> {
        let volume = self.engine.volume();
        let mut runs: Vec<Range<u64>> = Vec::new();
        for nr in (0..volume.groups).map(GroupNr) {
            let first = volume.first_cluster(nr).0;
            let block = |cluster: u32| volume.block_of(ClusterNr(first + u64::from(cluster))).0;
            self.each_free_run(base, nr, |run| {
                let end = block(run.end);
                runs.push(block(run.start)..end);
            })?;
        }
        Ok(runs)
    }

    /// Blocks behind the last one in use, by the bitmaps.
    pub(crate) fn free_at_end(&self, base: &Base) -> Result<u64> {
        let end = self.geometry().blocks_count;
        let mut start = end;
        for run in self.free_runs(base)?.iter().rev() {
            if run.end < start {
                break;
            }
            start = run.start;
        }
        Ok(end - start)
    }

    /// Calls `visit` with the free runs of a group, ascending. A bitmap that is not cached is not
    /// cached afterwards.
    fn each_free_run(
        &self,
        base: &Base,
        nr: GroupNr,
        mut visit: impl FnMut(Range<u32>),
    ) -> Result<()> {
        let mut half = self.group(nr)?.blocks.live().write_unlogged();
        let known = half.used.is_some();
        self.load_blocks(base, nr, &mut half)?;
        let used = half.used.as_ref().expect("load_blocks fills the bitmap in");
        let mut at = 0;
        while let Some(run) = used.next_clear_run(at) {
            at = run.end;
            visit(run);
        }
        if !known {
            half.used = None;
        }
        Ok(())
    }
}

/// Accumulated counts, in clusters.
struct Survey {
    clusters: u64,
    slice_clusters: u64,
    open: Range<u64>,
    by_order: [FreeExtents; 64],
    min: u64,
    max: u64,
    picture: Vec<u64>,
}

impl Survey {
    fn new(clusters: u64, slices: usize) -> Self {
        let slice_clusters = clusters.div_ceil(u64_of(slices.max(1))).max(1);
        Self {
            clusters,
            slice_clusters,
            open: 0..0,
            by_order: [FreeExtents::default(); 64],
            min: u64::MAX,
            max: 0,
            // At most `slices`.
            picture: vec![0; clamp_usize(clusters.div_ceil(slice_clusters))],
        }
    }

    /// Adds the next free run, ascending; merges it with the preceding one if they touch.
    fn add(&mut self, run: Range<u64>) {
        let mut at = run.start;
        while at < run.end {
            let slice = at / self.slice_clusters;
            let end = run.end.min((slice + 1) * self.slice_clusters);
            self.picture[clamp_usize(slice)] += end - at;
            at = end;
        }
        if self.open.end == run.start {
            self.open.end = run.end;
        } else {
            self.close();
            self.open = run;
        }
    }

    fn close(&mut self) {
        let len = self.open.end - self.open.start;
        if len > 0 {
            let row = &mut self.by_order[usize_of(len.ilog2())];
            row.extents += 1;
            row.bytes += len;
            self.min = self.min.min(len);
            self.max = self.max.max(len);
        }
    }

    fn finish(mut self, cluster_bytes: u64, size_bytes: u64) -> FreeFragments {
        self.close();
        let rows = self
            .by_order
            .iter()
            .enumerate()
            .filter(|(_, row)| row.extents > 0);
        let histogram: Vec<_> = rows
            .map(|(order, row)| FreeExtents {
                from_bytes: cluster_bytes << order,
                bytes: row.bytes * cluster_bytes,
                ..*row
            })
            .collect();
        FreeFragments {
            size_bytes,
            cluster_bytes,
            free_bytes: histogram.iter().map(|row| row.bytes).sum(),
            extents: histogram.iter().map(|row| row.extents).sum(),
            min_bytes: if self.max == 0 {
                0
            } else {
                self.min * cluster_bytes
            },
            max_bytes: self.max * cluster_bytes,
            picture: self
                .picture
                .iter()
                .enumerate()
                .map(|(slice, free)| {
                    let start = u64_of(slice) * self.slice_clusters;
                    let len = self.slice_clusters.min(self.clusters - start);
                    clamp_u16(free * 1000 / len) // at most 1000
                })
                .collect(),
            histogram,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_touch_are_one() {
        let mut survey = Survey::new(100, 10);
        survey.add(0..5);
        survey.add(20..32);
        survey.add(32..40);
        survey.add(99..100);
        let found = survey.finish(4096, 100 * 4096);
        assert_eq!((found.extents, found.free_bytes), (3, 26 * 4096));
        assert_eq!((found.min_bytes, found.max_bytes), (4096, 20 * 4096));
        let rows: Vec<_> = found
            .histogram
            .iter()
            .map(|row| (row.from_bytes / 4096, row.extents))
            .collect();
        assert_eq!(rows, [(1, 1), (4, 1), (16, 1)]);
        assert_eq!(found.picture, [500, 0, 1000, 1000, 0, 0, 0, 0, 0, 100]);
    }
}
