//! Updates the log's records after images were replaced, written home or revoked.
//!
//! Locking: the log's space ([`uext4_sync::Rank::JournalState`]); under it, when blocks are
//! scanned, one shard of the images ([`uext4_sync::Rank::Checkpoint`]).

use crate::config::Tracking;
use crate::engine::Engine;
use crate::log_space::OpenLog;
use crate::newest::Entry;

impl Engine {
    /// These images are no longer the newest of their blocks, or at home.
    pub(crate) fn retire<'a>(&self, log: &OpenLog, retired: impl Iterator<Item = &'a Entry>) {
        match self.tracking {
            Tracking::Counted => log.retire(retired),
            Tracking::Scanned => log.scan(|block| self.images.owner(block)),
        }
    }
}
