//! The partial last cluster of a file system that does not end at a cluster boundary.
//!
//! The bitmap counts it like any other, but some of its blocks do not exist, and a block of a file
//! has a fixed offset in its cluster. So no file gets it: the first request that the engine serves
//! from it leaves it reserved. Other implementations may have allocated it to a file; a run of
//! blocks never extends past the end of the file system.

use super::Space;
use uext4_alloc::{ClusterNr, Privilege, Run};
use uext4_format::BlockNr;
use uext4_num::clamp_u32;

impl Space {
    /// Number of existing blocks from `start` on, at most `len_blocks`.
    pub(crate) fn clamp_to_end(&self, start: BlockNr, len_blocks: u64) -> u32 {
        let left = self.geometry().blocks_count.saturating_sub(start.0);
        clamp_u32(left.min(len_blocks))
    }

    /// The usable part of a run that the engine reserved, if it has at least `min` clusters. The
    /// partial cluster stays reserved; a run that becomes too short is returned.
    pub(super) fn without_partial(&self, run: Run, min: u32) -> Option<Run> {
        let volume = self.engine.volume();
        let whole = u64::from(self.geometry().blocks_per_cluster());
        let last = ClusterNr(volume.clusters() - 1);
        let is_partial = u64::from(self.clamp_to_end(volume.block_of(last), whole)) < whole;
        if run.end().0 <= last.0 || !is_partial {
            return Some(run);
        }
        // Claimed, so that the free count excludes it. Without a free cluster to claim, the count
        // stays one too high.
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
