//! Unmounting: everything home, the log empty, the superblock clean.

use crate::superblock::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET};
use crate::{Filesystem, Fs, Result, credits};
use uext4_format::{Feature, superblock};

impl Filesystem {
    /// Unmounts: commits what is running, brings everything home, marks the journal empty and the
    /// file system clean. Later operations answer [`crate::Error::ReadOnly`]. Calling it again
    /// does nothing.
    ///
    /// # Errors
    /// What kept the file system from becoming clean; the next mount recovers it.
    pub fn unmount(&self) -> Result<()> {
        self.fs.close()
    }

    /// What made the mount read-only for good: a write or flush of the journal or of metadata that
    /// failed, or damage with `errors=remount-ro`. From then on nothing is written, operations that
    /// change something answer [`crate::Error::ReadOnly`], and the next mount recovers what was
    /// durable. `None` while all is well.
    pub fn failure(&self) -> Option<crate::Error> {
        let _notices_a_failed_commit = self.fs.writable();
        self.fs.state.failure().cloned()
    }

    /// Stops at once without writing anything more, as if power were cut. For crash tests.
    pub fn abandon(&self) {
        self.fs.state.close();
        self.fs.journal.abort(uext4_journal::Error::Closed);
        if let Some(mmp) = &self.fs.mmp {
            mmp.stop();
        }
    }
}

impl Drop for Filesystem {
    fn drop(&mut self) {
        // Whoever wants to know about errors calls `unmount`.
        let _ = self.fs.close();
    }
}

impl Fs {
    fn close(&self) -> Result<()> {
        let writable = self.writable().is_ok();
        if writable {
            self.note(self.reap_all())?;
            self.log_lazy_times()?;
            let handle = self.start(credits::ATTRIBUTES)?;
            self.superblock.update_counts(self, &handle);
        }
        if !self.state.close() {
            return Ok(());
        }
        if writable {
            self.journal.commit_running()?;
            self.journal.close()?;
            self.mark_clean()?;
        }
        match (self.state.failure(), &self.mmp) {
            (Some(cause), mmp) => {
                // Nothing more is written: other hosts see that the claim is not renewed.
                if let Some(mmp) = mmp {
                    mmp.stop();
                }
                Err(cause.clone())
            }
            (None, Some(mmp)) => mmp.release(),
            (None, None) => Ok(()),
        }
    }

    /// The log is empty and everything is home: the last write says that no recovery is needed.
    fn mark_clean(&self) -> Result<()> {
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
}

/// Writes the superblock straight to its place.
pub(super) fn write_superblock(fs: &Fs) -> Result<()> {
    let bytes: [u8; SUPERBLOCK_BYTES] = fs.superblock.read().disk.to_bytes();
    Ok(fs.device.write_at(SUPERBLOCK_OFFSET, &bytes)?)
}
