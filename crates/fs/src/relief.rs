//! Giving memory back when the system runs short of it.
//!
//! Data that wait to be written are not ours to drop; their thread writes half of them out.
//! Not here: blocks in free-space trees and summaries of groups, which have a limit of their own.

use crate::{Filesystem, Fs};
use serde::Serialize;
use uext4_sync::atomic::Ordering::Relaxed;

/// What was dropped; each could be read again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Relief {
    /// Extents known of the maps of files.
    pub extents: u64,
    /// Metadata blocks.
    pub blocks: u64,
    /// Inodes.
    pub inodes: u64,
}

impl Filesystem {
    /// Drops about a quarter of what is in memory only to be fast, what was not used lately first.
    /// For programs that learn that memory is short; a mount does it by itself. Operations go on
    /// meanwhile. No lock is held for longer than it takes to look through one shard of a cache.
    pub fn relieve_memory(&self) -> Relief {
        let fs: &Fs = &self.fs;
        fs.reliefs.fetch_add(1, Relaxed);
        // Without a thread what waits is at most what the mount asked for.
        fs.flusher.relieve();
        // Inodes hold extents, and directories know blocks.
        let extents = fs.extent_status.shed();
        let inodes = fs.inodes.shed();
        let blocks = fs.blocks.shed();
        Relief {
            extents,
            blocks,
            inodes,
        }
    }
}
