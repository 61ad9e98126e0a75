//! Unmounting: everything home, the log empty, the superblock clean.

use super::lifecycle::Lifecycle;
use crate::superblock::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET};
use crate::{Error, Filesystem, Fs, OnError, Result, credits};
use uext4_device::Claimant;

impl Filesystem {
    /// Unmounts: commits what is running, brings everything home, marks the journal empty and the
    /// file system clean. Later operations answer [`crate::Error::ReadOnly`]. Calling it again
    /// does nothing.
    ///
    /// # Errors
    /// What kept the file system from becoming clean; the next mount recovers it. Or, of a file
    /// system that is clean, why data that waited could not be written.
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

    /// What is done when damage is met: what `errors=` or the superblock says.
    pub fn on_error(&self) -> OnError {
        self.fs.superblock.policy(&self.fs)
    }

    /// Whether changes are taken now.
    ///
    /// # Errors
    /// [`crate::Error::ReadOnly`], also after a failure; [`crate::Error::Shutdown`].
    pub fn check_writable(&self) -> Result<()> {
        self.fs.writable()
    }

    /// Takes or gives up the claim on the block device that holds the file system.
    ///
    /// # Errors
    /// [`crate::Error::Device`] when somebody else has claimed it.
    pub fn claim_device_for(&self, claimant: Claimant) -> Result<()> {
        Ok(self.fs.device.claim_for(claimant)?)
    }

    /// Stops at once without writing anything more, as if power were cut. For crash tests.
    pub fn abandon(&self) {
        self.fs.state.close();
        self.fs.space.stop_learning();
        self.fs.journal.abort(uext4_journal::Error::Closed);
        self.fs.flusher.end();
        let mut life = self.fs.lifecycle.lock();
        if std::mem::take(&mut life.is_frozen) {
            self.fs.changes.open();
        }
        if let Some(mmp) = &life.mmp {
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
        self.space.stop_learning();
        self.flusher.end();
        let mut life = self.lifecycle.lock();
        let thawed = if std::mem::take(&mut life.is_frozen) {
            self.thaw_journal()
        } else {
            self.changes.close();
            Ok(())
        };
        let closed = self.close_still(&mut life);
        self.changes.open();
        thawed.and(closed)
    }

    /// Closes while no change is under way.
    fn close_still(&self, life: &mut Lifecycle) -> Result<()> {
        let writable = self.writable().is_ok();
        let mut done = match writable {
            true => self.write_last(life),
            false => Ok(()),
        };
        if !self.state.close() {
            return Ok(());
        }
        if writable {
            let closed = self.journal.close().map_err(Error::from);
            done = done.and(closed.and_then(|()| self.mark_clean()));
            done = done.and(self.check_all_exposures());
        } else {
            self.record_failure();
        }
        match (self.state.failure(), life.mmp.take()) {
            (Some(cause), mmp) => {
                // Nothing more is written: other hosts see that the claim is not renewed.
                if let Some(mmp) = mmp {
                    mmp.stop();
                }
                Err(cause.clone())
            }
            (None, Some(mmp)) => done.and(mmp.release()),
            (None, None) => done,
        }
    }

    /// Brings all that waits to the journal. What one step does not achieve keeps the others from
    /// nothing.
    ///
    /// # Errors
    /// The first.
    fn write_last(&self, life: &Lifecycle) -> Result<()> {
        let reaped = self.note(self.reap_all());
        let written = self.note(self.write_out_all());
        let times = self.note(self.log_lazy_times());
        let totals = self.note(self.log_totals(life));
        let told = self.delayed.untold.check();
        reaped.and(written).and(told).and(times).and(totals)
    }

    fn log_totals(&self, life: &Lifecycle) -> Result<()> {
        let handle = self.start(credits::ATTRIBUTES)?;
        self.superblock.update_counts(self, &handle);
        let written = life.written_bytes() >> 10;
        self.superblock.update(&handle, |disk| {
            disk.kbytes_written = disk.kbytes_written.saturating_add(written);
        });
        Ok(())
    }

    /// What ended writing is noted on the device, if that takes it. The cause is the answer of the
    /// unmount, whatever fails here.
    fn record_failure(&self) {
        let _best_effort = match self.state.failure() {
            Some(Error::Corrupt(_)) => self.journal.close().map_err(Error::from),
            Some(Error::Journal(uext4_journal::Error::Closed)) | None => Ok(()),
            // A read that failed is noted in the journal, as damage is.
            Some(Error::Journal(_)) if self.journal.check().is_ok() => {
                self.journal.close().map_err(Error::from)
            }
            Some(Error::Journal(_)) => self.record_stop(),
            Some(_) => Ok(()),
        };
    }

    /// The journal was stopped: the errors are added to the superblock that the device has.
    fn record_stop(&self) -> Result<()> {
        let there = super::read_superblock(&*self.device, None)?;
        let bytes: [u8; SUPERBLOCK_BYTES] = self.superblock.with_stop(self, there).to_bytes();
        self.device.write_at(SUPERBLOCK_OFFSET, &bytes)?;
        Ok(self.device.flush()?)
    }
}

/// Writes the superblock straight to its place.
pub(super) fn write_superblock(fs: &Fs) -> Result<()> {
    let bytes: [u8; SUPERBLOCK_BYTES] = fs.superblock.read().disk.to_bytes();
    Ok(fs.device.write_at(SUPERBLOCK_OFFSET, &bytes)?)
}
