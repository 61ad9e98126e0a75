//! Brings a mount to rest, and marks the superblock clean or in use.

use super::close::write_superblock;
use crate::state::engine::Fs;
use crate::state::superblock::SuperState;
use crate::types::credits;
use crate::types::error::Result;
use uext4_format::{Feature, superblock};

impl Fs {
    /// Quiesces the file system: everything home and flushed, the log empty, the superblock marked
    /// clean. No change is in progress; handles wait until the journal resumes.
    pub(super) fn rest(&self) -> Result<()> {
        self.base.record_result(self.reap())?;
        self.log_lazy_times()?;
        let handle = self.start(credits::ATTRIBUTES)?;
        self.log_counts(&handle);
        drop(handle);
        self.base.journal.quiesce()?;
        self.mark_clean()
    }

    /// Marks the superblock clean, as the last write: the log is empty and everything is home. A
    /// file system that was not clean before the mount stays so: only e2fsck makes it clean.
    pub(crate) fn mark_clean(&self) -> Result<()> {
        let no_orphans = self.orphans.is_empty();
        {
            let mut state = self.base.superblock.write_unlogged();
            let mut features = state.disk.features();
            features.remove(Feature::RECOVER);
            if no_orphans {
                features.remove(Feature::ORPHAN_PRESENT);
            }
            state.disk.set_features(features);
            let may_be_clean = state.was_valid && state.disk.state & superblock::state::ERROR == 0;
            if may_be_clean && !features.has(Feature::HAS_JOURNAL) {
                state.disk.state |= superblock::state::VALID;
            }
        }
        write_superblock(self)?;
        Ok(self.base.device.flush()?)
    }

    /// The opposite of [`Self::mark_clean`]; durable before any other write.
    pub(crate) fn mark_in_use(&self) -> Result<()> {
        say_in_use(&mut self.base.superblock.write_unlogged());
        write_superblock(self)?;
        Ok(self.base.device.flush()?)
    }
}

/// Marks the superblock in use, so that the next mount recovers after a crash.
pub(super) fn say_in_use(found: &mut SuperState) {
    found.was_valid = found.disk.state & superblock::state::VALID != 0;
    let disk = &mut found.disk;
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
