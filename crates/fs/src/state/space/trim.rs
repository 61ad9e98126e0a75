//! Discard of free space (`fstrim`).
//!
//! Runs are reserved while they are discarded, so no file gets them. They count as preallocated: a
//! request that finds no space meanwhile waits and retries.

use super::Space;
use super::loaders::BitmapLoader;
use crate::state::base::Base;
use crate::types::error::{Error, Result};
use std::ops::Range;
use uext4_alloc::{ClusterNr, Run};
use uext4_format::GroupNr;
use uext4_num::clamp_u32;

impl Space {
    /// Discards free space; see [`crate::Filesystem::trim`].
    pub(crate) fn trim(&self, base: &Base, bytes: Range<u64>, min_len_bytes: u64) -> Result<u64> {
        let geometry = self.geometry();
        let block_size = u64::from(geometry.block_size());
        let cluster_bytes = block_size << geometry.cluster_bits;
        let min_len = min_len_bytes.div_ceil(cluster_bytes).max(1);
        let too_short = bytes.end.saturating_sub(bytes.start) < block_size;
        let behind = bytes.start / block_size >= geometry.blocks_count;
        if too_short || behind || min_len > u64::from(geometry.clusters_per_group) {
            return Err(Error::Invalid("nothing can be trimmed in this range"));
        }
        let skipped = u64::from(geometry.first_data_block) * block_size;
        let cluster = |byte: u64| byte.saturating_sub(skipped);
        let start = cluster(bytes.start).div_ceil(cluster_bytes);
        let end = (cluster(bytes.end) / cluster_bytes).min(self.engine.volume().clusters());
        let mut trimmed = 0;
        let whole = Run::new(ClusterNr(start), u32::MAX);
        let volume = self.engine.volume();
        let first = volume
            .locate(whole.start)
            .map_or(volume.groups, |(group, _)| group.0);
        for nr in (first..volume.groups).map(GroupNr) {
            if volume.first_cluster(nr).0 >= end {
                break;
            }
            // At most the clusters of a group.
            trimmed += self.trim_group(base, nr, start..end, clamp_u32(min_len))?;
        }
        Ok(trimmed * cluster_bytes)
    }

    /// Discards the free runs of one group inside `range`; returns how many clusters.
    fn trim_group(&self, base: &Base, nr: GroupNr, range: Range<u64>, min_len: u32) -> Result<u64> {
        if self.engine.group_free(nr) < min_len {
            return Ok(0);
        }
        let clusters = u64::from(self.engine.volume().clusters_in(nr));
        self.preallocations.withhold(clusters);
        let trimmed = self.trim_withheld(base, nr, range, min_len);
        self.preallocations.restore(clusters);
        trimmed
    }

    fn trim_withheld(
        &self,
        base: &Base,
        nr: GroupNr,
        range: Range<u64>,
        min_len: u32,
    ) -> Result<u64> {
        let loader = BitmapLoader {
            base,
            space: self,
            failed: Default::default(),
        };
        let runs = self
            .engine
            .take_free_runs(nr, min_len, &loader)
            .map_err(|_| {
                loader
                    .failed
                    .take()
                    .unwrap_or(Error::Invalid("the bitmap of a group cannot be used"))
            })?;
        let mut trimmed = Ok(0);
        for run in runs {
            if let Ok(sum) = &mut trimmed
                && let Some(part) = cut(run, &range).filter(|part| part.len >= min_len)
            {
                match self.discard(part) {
                    Ok(()) => *sum += u64::from(part.len),
                    Err(error) => trimmed = Err(error),
                }
            }
            self.engine.release(run);
        }
        trimmed
    }

    fn discard(&self, run: Run) -> Result<()> {
        let block_size = u64::from(self.geometry().block_size());
        let run = self.to_blocks(run);
        let bytes = u64::from(run.len_blocks) * block_size;
        Ok(self.device.discard(run.start.0 * block_size, bytes)?)
    }
}

/// The part of a run inside a range of clusters.
fn cut(run: Run, range: &Range<u64>) -> Option<Run> {
    let start = run.start.0.max(range.start);
    let end = run.end().0.min(range.end);
    // At most the run's length.
    (start < end).then(|| Run::new(ClusterNr(start), clamp_u32(end - start)))
}
