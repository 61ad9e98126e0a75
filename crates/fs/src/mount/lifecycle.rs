//! State of a mount that mount, remount, freeze and unmount share.
//!
//! Locking: behind the file system's lock of rank [`uext4_sync::Rank::Mount`], which each of them
//! holds for its whole run. To quiesce the file system, the freeze barrier `Fs::changes` is closed
//! first: no change is in progress then, and later ones wait.

use super::close::write_superblock;
use super::fast_commit::Outcome;
use super::medium::Media;
use super::mmp::MmpGuard;
use super::open::Plan;
use crate::options::Access;
use crate::superblock::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET};
use crate::{Fs, MountOptions, Result, credits};
use uext4_format::{Feature, superblock};
use uext4_journal::Log;

/// See the module.
pub(crate) struct Lifecycle {
    /// The options in force.
    pub(super) options: MountOptions,
    pub(super) media: Media,
    /// Location of the log, if the file system has one.
    pub(super) log: Option<Log>,
    pub(super) mmp: Option<MmpGuard>,
    pub(super) is_frozen: bool,
    /// A read-only mount found orphans of a crash, or no mark of a clean unmount.
    pub(super) must_recover: bool,
    /// Fast commits were replayed in memory, and cannot be written home in one step.
    pub(super) keeps_fast_commits: bool,
    /// The on-disk superblock when the mount became read-only.
    pub(super) left: [u8; SUPERBLOCK_BYTES],
}

impl Lifecycle {
    pub(super) fn new(media: Media, plan: &Plan, mmp: Option<MmpGuard>) -> Result<Self> {
        let mut left = [0; SUPERBLOCK_BYTES];
        let device = media.home.base();
        device.read_past_cache_at(SUPERBLOCK_OFFSET, &mut left)?;
        Ok(Self {
            options: plan.options.clone(),
            media,
            log: plan.log.clone(),
            mmp,
            is_frozen: false,
            keeps_fast_commits: plan.fast_commits == Outcome::Replayed
                && plan.options.access == Access::ReadOnly,
            must_recover: plan.recovering && plan.options.access == Access::ReadOnly,
            left,
        })
    }

    /// Location of the log, if there is one.
    pub(crate) fn log(&self) -> Option<&Log> {
        self.log.as_ref()
    }

    /// Bytes that the mount wrote to the file system's device.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.media.home.written_bytes()
    }

    /// Reads the superblock of the device itself, past the cache.
    pub(super) fn superblock_below(&self) -> Result<[u8; SUPERBLOCK_BYTES]> {
        let mut bytes = [0; SUPERBLOCK_BYTES];
        let device = self.media.home.base();
        device.read_past_cache_at(SUPERBLOCK_OFFSET, &mut bytes)?;
        Ok(bytes)
    }
}

impl Fs {
    /// Quiesces the file system: everything home and flushed, the log empty, the superblock marked
    /// clean. No change is in progress; handles wait until the journal resumes.
    pub(super) fn rest(&self) -> Result<()> {
        self.note(self.reap())?;
        self.log_lazy_times()?;
        let handle = self.start(credits::ATTRIBUTES)?;
        self.superblock.update_counts(self, &handle);
        drop(handle);
        self.journal.quiesce()?;
        self.mark_clean()
    }

    /// Marks the superblock clean, as the last write: the log is empty and everything is home.
    pub(super) fn mark_clean(&self) -> Result<()> {
        let no_orphans = self.orphans.is_empty();
        {
            let mut state = self.superblock.write_unlogged();
            let mut features = state.disk.features();
            features.remove(Feature::RECOVER);
            if no_orphans {
                features.remove(Feature::ORPHAN_PRESENT);
            }
            state.disk.set_features(features);
            if state.disk.state & superblock::state::ERROR == 0 {
                state.disk.state |= superblock::state::VALID;
            }
        }
        write_superblock(self)?;
        Ok(self.device.flush()?)
    }

    /// The opposite of [`Self::mark_clean`]; durable before any other write.
    pub(super) fn mark_in_use(&self) -> Result<()> {
        say_in_use(&mut self.superblock.write_unlogged().disk);
        write_superblock(self)?;
        Ok(self.device.flush()?)
    }
}

/// Marks the superblock in use, so that the next mount recovers after a crash.
pub(super) fn say_in_use(disk: &mut uext4_format::Superblock) {
    let mut features = disk.features();
    if features.has(Feature::HAS_JOURNAL) {
        features.insert(Feature::RECOVER);
    } else {
        disk.state &= !superblock::state::VALID;
    }
    if features.has(Feature::ORPHAN_FILE) {
        features.insert(Feature::ORPHAN_PRESENT);
    }
    disk.set_features(features);
}
