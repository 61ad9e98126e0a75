//! Shrinker: drops cached objects under memory pressure.
//!
//! Dirty data cannot be dropped; the flusher writes half of them out.
//! Not here: blocks in free-space trees and summaries of groups, which have their own limit.

use crate::ops::filesystem::Filesystem;
use crate::state::engine::Fs;
use serde::Serialize;
use uext4_sync::atomic::Ordering::Relaxed;

/// Dropped objects; each can be read again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Reclaimed {
    /// Cached extents of file maps.
    pub extents: u64,
    /// Cached metadata blocks: directories, maps, attributes.
    pub blocks: u64,
    /// Cached inodes.
    pub inodes: u64,
}

impl Filesystem {
    /// Drops about a quarter of all cached objects, least recently used first. For programs that
    /// detect memory pressure; a mount also does it by itself. Operations continue meanwhile: no
    /// lock is held for longer than a pass over one shard of a cache.
    pub fn reclaim_memory(&self) -> Reclaimed {
        let fs: &Fs = &self.fs;
        fs.reclaims.fetch_add(1, Relaxed);
        // Without a flusher thread, dirty data are bounded by the mount's limit.
        fs.flusher.reclaim();
        // Inodes hold extents, and directories hold blocks, so the order is extents, inodes,
        // blocks.
        let extents = fs.extent_status.shed();
        let inodes = fs.inodes.shed();
        let blocks = fs.blocks.shed();
        Reclaimed {
            extents,
            blocks,
            inodes,
        }
    }
}
