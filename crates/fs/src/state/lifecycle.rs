//! State of a mount that mount, remount, freeze and unmount share.
//!
//! Locking: behind the file system's lock of rank [`uext4_sync::Rank::Mount`], which each of them
//! holds for its whole run. To quiesce the file system, the freeze barrier `Fs::changes` is closed
//! first: no change is in progress then, and later ones wait.

use crate::types::options::MountOptions;
use uext4_format::superblock::SUPERBLOCK_BYTES;
use uext4_journal::Log;
use uext4_volume::Media;
use uext4_volume::mmp::MmpGuard;

/// What mount, remount, freeze and unmount share.
pub(crate) struct Lifecycle {
    /// The options in force, after remounts.
    pub(crate) options: MountOptions,
    pub(crate) media: Media,
    /// Location of the log, if the file system has one.
    pub(crate) log: Option<Log>,
    pub(crate) mmp: Option<MmpGuard>,
    pub(crate) is_frozen: bool,
    /// A read-only mount found orphans of a crash, or no mark of a clean unmount.
    pub(crate) must_recover: bool,
    /// Fast commits were replayed in memory, and cannot be written home in one step.
    pub(crate) keeps_fast_commits: bool,
    /// The on-disk superblock when the mount became read-only.
    pub(crate) left: [u8; SUPERBLOCK_BYTES],
}

impl Lifecycle {
    /// Location of the log, if there is one.
    pub(crate) fn log(&self) -> Option<&Log> {
        self.log.as_ref()
    }

    /// Bytes that the mount wrote to the file system's device.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.media.home.written_bytes()
    }
}
