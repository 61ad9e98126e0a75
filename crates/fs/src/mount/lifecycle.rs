//! What mount, remount, freeze and unmount know of a mount.
//!
//! Locking: behind the file system's lock of rank [`uext4_sync::Rank::Mount`], held while one of
//! them works. Whoever brings the file system to rest closes `Fs::changes` first, so that no
//! change is under way and later ones wait.

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
    /// As they are now.
    pub(super) options: MountOptions,
    pub(super) media: Media,
    /// Where the log stands, if the file system has one.
    pub(super) log: Option<Log>,
    pub(super) mmp: Option<MmpGuard>,
    pub(super) is_frozen: bool,
    /// A read-only mount found orphans of a crash, or no mark of a clean unmount.
    pub(super) must_recover: bool,
    /// Fast commits were replayed in memory, where they cannot be brought home from at once.
    pub(super) keeps_fast_commits: bool,
    /// The superblock on the device when the mount became read-only.
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

    /// Where the log stands, if there is one.
    pub(crate) fn log(&self) -> Option<&Log> {
        self.log.as_ref()
    }

    /// Bytes that the mount wrote to the file system's device.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.media.home.written_bytes()
    }

    /// Reads the superblock of the device itself.
    pub(super) fn superblock_below(&self) -> Result<[u8; SUPERBLOCK_BYTES]> {
        let mut bytes = [0; SUPERBLOCK_BYTES];
        let device = self.media.home.base();
        device.read_past_cache_at(SUPERBLOCK_OFFSET, &mut bytes)?;
        Ok(bytes)
    }
}

impl Fs {
    /// Brings everything home: the log is empty, the superblock says that nothing needs recovery,
    /// all is flushed. No change is under way; handles wait until the journal is resumed.
    pub(super) fn rest(&self) -> Result<()> {
        self.note(self.reap())?;
        self.log_lazy_times()?;
        let handle = self.start(credits::ATTRIBUTES)?;
        self.superblock.update_counts(self, &handle);
        drop(handle);
        self.journal.quiesce()?;
        self.mark_clean()
    }

    /// The log is empty and everything is home: the last write says that no recovery is needed.
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

    /// The opposite of [`Self::mark_clean`]: on the device before anything else is written.
    pub(super) fn mark_in_use(&self) -> Result<()> {
        say_in_use(&mut self.superblock.write_unlogged().disk);
        write_superblock(self)?;
        Ok(self.device.flush()?)
    }
}

/// Says that the file system is in use: what a crash leaves must be recovered.
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
