//! Over-allocation of data requests: reserves more than is needed now, and preallocates the rest.
//!
//! Not here: the window's size (`file::window`), the preallocated runs (`preallocation`).

use super::preallocation::Piece;
use super::{FilePreallocation, Space, Want};
use crate::state::base::Base;
use crate::types::error::Result;
use std::ops::Range;
use uext4_alloc::{Privilege, Run, Stat};
use uext4_format::{BlockNr, BlockRun};
use uext4_sync::Arc;
use uext4_sync::atomic::{AtomicU32, Ordering};

/// No preallocation while fewer clusters are free than this many times its size.
const SCARCE_TIMES: u64 = 4;

/// Tunables of sysfs that shape requests.
pub(crate) struct Shaping {
    /// `mb_stream_req`: files of more blocks are streams.
    pub(crate) stream_req_blocks: AtomicU32,
    /// `mb_group_prealloc`: clusters of a locality group's run for small files.
    pub(crate) group_prealloc_clusters: AtomicU32,
}

impl Shaping {
    /// The defaults. Runs for small files consist of whole stripes.
    pub(super) fn new(cluster_bits: u32, stripe_clusters: u32) -> Self {
        let run = (512_u32 >> cluster_bits).max(32);
        Self {
            stream_req_blocks: 16.into(),
            group_prealloc_clusters: run.next_multiple_of(stripe_clusters.max(1)).into(),
        }
    }
}

/// The window to reserve around a request, in clusters of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// First cluster of the request.
    pub(crate) at: u32,
    /// Clusters of the window; contains `at`.
    pub(crate) range: Range<u32>,
    /// Goal for the start of the window.
    pub(crate) goal: Option<BlockNr>,
}

impl Window {
    fn len(&self) -> u32 {
        self.range.end - self.range.start
    }

    /// Position of a run of `len` clusters that must cover `needed` clusters: at the window's end
    /// if that covers the request, else at its start, else at the request.
    fn position(&self, len: u32, needed: u32) -> u32 {
        let at_end = self.range.end.checked_sub(len);
        [at_end, Some(self.range.start)]
            .into_iter()
            .flatten()
            .find(|start| *start <= self.at && self.at + needed <= start + len)
            .unwrap_or(self.at)
    }
}

impl Space {
    /// Tunables that may change while mounted.
    pub(crate) fn shaping(&self) -> &Shaping {
        &self.shaping
    }

    /// Takes up to `want.len_blocks` blocks that are preallocated for cluster `at`.
    ///
    /// # Errors
    /// [`crate::Error::NoSpace`] if all free clusters are held back from the caller.
    pub(crate) fn reserve_held(
        &self,
        want: &Want,
        file: &FilePreallocation,
        at: u32,
    ) -> Result<Option<BlockRun>> {
        if file.is_empty() {
            return Ok(None);
        }
        let granted = self.claim(want)?;
        let run = self.preallocations.take(file, at, granted);
        let used = run.map_or(0, |run| run.len);
        self.preallocations.restore(used.into());
        self.unclaim(want, granted - used);
        Ok(run.map(|run| self.to_blocks(run)))
    }

    /// Reserves the window; returns the part for the request, and preallocates the rest.
    ///
    /// # Errors
    /// As `reserve`.
    pub(crate) fn reserve_window(
        &self,
        base: &Base,
        want: &Want,
        window: &Window,
        file: &Arc<FilePreallocation>,
    ) -> Result<BlockRun> {
        if self.is_scarce(window.len()) {
            return self.reserve(base, want);
        }
        let granted = self.claim(want)?;
        let want = Want {
            goal: window.goal,
            ..*want
        };
        let (run, extra) = self.take_more(base, &want, granted, window.len())?;
        let needed = run.len - extra;
        let start = window.position(run.len, needed);
        let skip = window.at - start;
        let front = Run::new(run.start, skip);
        let used = Run::new(front.end(), needed);
        let back = Run::new(used.end(), extra - skip);
        self.keep(
            file,
            Piece {
                logical: start,
                run: front,
            },
        );
        self.keep(
            file,
            Piece {
                logical: window.at + needed,
                run: back,
            },
        );
        Ok(self.to_blocks(used))
    }

    /// Reserves from the runs for small files of this thread's shard.
    ///
    /// # Errors
    /// As `reserve`.
    pub(crate) fn reserve_local(&self, base: &Base, want: &Want) -> Result<BlockRun> {
        let granted = self.claim(want)?;
        if let Some(run) = self.take_local(want, granted) {
            self.preallocations.restore(run.len.into());
            return Ok(self.to_blocks(run));
        }
        let at_once = self.shaping.group_prealloc_clusters.load(Ordering::Relaxed);
        let at_once = if self.is_scarce(at_once) {
            granted
        } else {
            at_once
        };
        let (run, extra) = self.take_more(base, want, granted, at_once)?;
        let used = Run::new(run.start, run.len - extra);
        if extra > 0 {
            let much = self.preallocations.keep_local(Run::new(used.end(), extra));
            self.let_go(much.as_slice());
        }
        Ok(self.to_blocks(used))
    }

    fn take_local(&self, want: &Want, len: u32) -> Option<Run> {
        let cluster = |block: BlockNr| self.engine.volume().cluster_of(block);
        let goal = want.goal.and_then(cluster).map_or(0, |cluster| cluster.0);
        let end = want
            .end
            .and_then(cluster)
            .map_or(u64::MAX, |cluster| cluster.0);
        self.preallocations.take_local(goal, len, end)
    }

    /// Takes up to `len` clusters, `granted` of them claimed; returns how many are preallocated.
    /// They count before the search: for example, a thread that finds no run meanwhile waits and
    /// discards them ([`Space::take`]). If they counted later, it could report `NoSpace`.
    fn take_more(&self, base: &Base, want: &Want, granted: u32, len: u32) -> Result<(Run, u32)> {
        let min = want.min_blocks.div_ceil(1 << self.geometry().cluster_bits);
        let more = len.saturating_sub(granted);
        self.preallocations.withhold(more.into());
        let taken = self.take(base, want, granted + more, min);
        let used = taken.as_ref().map_or(0, |run| run.len.min(granted));
        let extra = taken
            .as_ref()
            .map_or(0, |run| run.len.saturating_sub(granted));
        self.preallocations.restore(u64::from(more - extra));
        self.unclaim(want, granted - used);
        let stats = self.engine.stats();
        stats.add(Stat::Preallocated, extra.into());
        Ok((taken?, extra))
    }

    fn keep(&self, file: &Arc<FilePreallocation>, piece: Piece) {
        if piece.run.len > 0 && !self.preallocations.keep(file, piece) {
            self.let_go(&[piece.run]);
        }
    }

    fn is_scarce(&self, clusters: u32) -> bool {
        let needed = SCARCE_TIMES * u64::from(clusters);
        !self.claims.has(needed, Privilege::Metadata)
    }

    /// Returns preallocated runs to the engine.
    fn let_go(&self, runs: &[Run]) {
        for run in runs {
            self.engine.release(*run);
            self.preallocations.restore(run.len.into());
            self.engine.stats().add(Stat::Discarded, run.len.into());
        }
    }

    /// Discards the file's preallocation. May be called with live objects locked.
    pub(crate) fn discard_preallocation(&self, file: &FilePreallocation) {
        self.let_go(&self.preallocations.drain_file(file));
    }

    /// Discards the preallocations of all files and threads; returns the number of runs.
    pub(crate) fn discard_preallocations(&self) -> usize {
        let runs = self.preallocations.drain();
        self.let_go(&runs);
        runs.len()
    }

    /// Preallocated clusters of files and threads; they count as free.
    pub(crate) fn preallocated_clusters(&self) -> u64 {
        self.preallocations.clusters()
    }

    /// The range around cluster `at` of the file without preallocation.
    pub(crate) fn gap_around(&self, file: &FilePreallocation, at: u32) -> Range<u64> {
        let (start, end) = file.gap(at);
        start..end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_run_still_covers_the_request() {
        let window = Window {
            at: 40,
            range: 32..64,
            goal: None,
        };
        assert_eq!(window.position(32, 1), 32);
        assert_eq!(window.position(25, 1), 39, "at the end of the window");
        assert_eq!(window.position(10, 1), 32, "at its start");
        assert_eq!(window.position(4, 1), 40, "at the request");
        assert_eq!(window.position(4, 4), 40);
    }
}
