//! The last cluster of a file system whose end is not that of a cluster.
//!
//! The bitmap counts it as any other, but some of its blocks are not there, and a block of a file
//! stands at its own offset in a cluster. So it is given to no file: the first request that the
//! engine answers with it leaves it reserved. Other implementations may have given it to a file;
//! a run of blocks never reaches behind the end of the file system.

use super::Space;
use uext4_alloc::{ClusterNr, Privilege, Run};
use uext4_format::BlockNr;

impl Space {
    /// Blocks of the file system from `start` on, at most `len_blocks`.
    pub(crate) fn clamp_to_end(&self, start: BlockNr, len_blocks: u64) -> u32 {
        let left = self.geometry().blocks_count.saturating_sub(start.0);
        left.min(len_blocks).min(u32::MAX.into()) as u32
    }

    /// What of a run that the engine reserved may be used, if that is at least `min` clusters. The
    /// partial cluster stays reserved; a run that gets too short is given back.
    pub(super) fn without_partial(&self, run: Run, min: u32) -> Option<Run> {
        let volume = self.engine.volume();
        let whole = u64::from(self.geometry().blocks_per_cluster());
        let last = ClusterNr(volume.clusters() - 1);
        let is_partial = u64::from(self.clamp_to_end(volume.block_of(last), whole)) < whole;
        if run.end().0 <= last.0 || !is_partial {
            return Some(run);
        }
        // Without a claim the last cluster that is promised is missed: as if it was not free.
        let _claimed = self.claims.claim(1, 1, Privilege::Metadata);
        let rest = Run::new(run.start, run.len - 1);
        if rest.len >= min.max(1) {
            return Some(rest);
        }
        if rest.len > 0 {
            self.engine.release(rest);
        }
        None
    }
}
