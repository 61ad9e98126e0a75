//! Unmount: writes everything home, empties the log, marks the superblock clean.

use crate::ops::filesystem::Filesystem;
use crate::state::engine::Fs;
use crate::state::lifecycle::Lifecycle;
use crate::types::credits;
use crate::types::error::{Error, Result};
use crate::types::options::OnError;
use uext4_device::Claimant;
use uext4_format::superblock::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET};

impl Filesystem {
    /// Unmounts: commits the running transaction, writes everything home, marks the journal empty
    /// and the file system clean. A second call does nothing.
    ///
    /// This also holds where clones of it or [`crate::path::Paths`] live: their later operations
    /// return [`crate::Error::Unmounted`], and the image may be mounted again, unless the caller of
    /// [`Self::mount`] kept the device.
    ///
    /// # Errors
    /// The error that kept the file system from becoming clean; the next mount recovers it. If it
    /// is clean: the error that lost delayed data.
    pub fn unmount(&self) -> Result<()> {
        self.fs.close()
    }

    /// The error that made the mount read-only: a failed write or flush of the journal or of
    /// metadata, or damage with `errors=remount-ro`. From then on nothing is written, changes
    /// return [`crate::Error::ReadOnly`], and the next mount recovers the durable state. `None`
    /// without such an error.
    pub fn failure(&self) -> Option<crate::types::error::Error> {
        self.fs.poll_failed_commit();
        self.fs.base.state.failure().cloned()
    }

    /// The effective `errors=` policy, from the options or the superblock.
    pub fn on_error(&self) -> OnError {
        self.fs.base.on_error()
    }

    /// Whether the mount accepts changes.
    ///
    /// # Errors
    /// [`crate::Error::ReadOnly`], also after a failure; [`crate::Error::Shutdown`];
    /// [`crate::Error::Unmounted`].
    pub fn check_writable(&self) -> Result<()> {
        self.fs.writable()
    }

    /// Claims or releases the block device that holds the file system.
    ///
    /// # Errors
    /// [`crate::Error::Device`] if another process has claimed it.
    pub fn claim_device_for(&self, claimant: Claimant) -> Result<()> {
        Ok(self.fs.base.device.claim_for(claimant)?)
    }

    /// Stops without a further write, as if power were cut. For crash tests.
    pub fn abandon(&self) {
        self.fs.base.state.close();
        self.fs.space.stop_learning();
        self.fs.base.journal.abort(uext4_journal::Error::Closed);
        self.fs.flusher.end();
        let mut life = self.fs.lifecycle.lock();
        if std::mem::take(&mut life.is_frozen) {
            self.fs.base.changes.open();
        }
        if let Some(mmp) = &life.mmp {
            mmp.stop();
        }
    }
}

impl Fs {
    pub(super) fn close(&self) -> Result<()> {
        self.space.stop_learning();
        self.flusher.end();
        let mut life = self.lifecycle.lock();
        let thawed = if std::mem::take(&mut life.is_frozen) {
            self.thaw_journal()
        } else {
            self.base.changes.close();
            Ok(())
        };
        let closed = self.close_still(&mut life);
        self.base.changes.open();
        thawed.and(closed)
    }

    /// Closes the mount while no change is in progress.
    fn close_still(&self, life: &mut Lifecycle) -> Result<()> {
        let writable = self.writable().is_ok();
        let mut done = if writable {
            self.write_last(life)
        } else {
            Ok(())
        };
        if !self.base.state.close() {
            return Ok(());
        }
        if writable {
            let closed = self.base.journal.close().map_err(Error::from);
            done = done.and(closed.and_then(|()| self.mark_clean()));
            done = done.and(self.check_lost_flushes());
        } else {
            self.record_failure();
        }
        // The threads of the journal have ended: nothing of this mount writes any more.
        let ended = self.end_claim(life, done);
        life.media.release();
        ended
    }

    /// Ends the claim on the file system, after the last write.
    fn end_claim(&self, life: &mut Lifecycle, done: Result<()>) -> Result<()> {
        match (self.base.state.failure(), life.mmp.take()) {
            (Some(cause), mmp) => {
                // Writes have stopped: other hosts see that the lease is not renewed.
                if let Some(mmp) = mmp {
                    mmp.stop();
                }
                Err(cause.clone())
            }
            (None, Some(mmp)) => {
                // After an error, the next host recovers what the log has.
                let released = mmp.release();
                done.and(released.map_err(Error::from))
            }
            (None, None) => done,
        }
    }

    /// Logs all pending changes. Each step runs even if an earlier one failed.
    ///
    /// # Errors
    /// The first.
    fn write_last(&self, life: &Lifecycle) -> Result<()> {
        self.record_survey_error();
        let reaped = self.base.record_result(self.reap_all());
        let written = self.base.record_result(self.write_out_all());
        let times = self.base.record_result(self.log_lazy_times());
        let totals = self.base.record_result(self.log_totals(life));
        let told = self.delayed.unseen.check();
        reaped.and(written).and(told).and(times).and(totals)
    }

    fn log_totals(&self, life: &Lifecycle) -> Result<()> {
        let handle = self.start(credits::ATTRIBUTES)?;
        self.log_counts(&handle);
        let written = life.written_bytes() >> 10;
        self.base.superblock.update(&handle, |disk| {
            disk.kbytes_written = disk.kbytes_written.saturating_add(written);
        });
        Ok(())
    }

    /// Ends the journal of a mount that failed and records the failure on the device, best effort.
    /// The unmount returns the cause, whatever fails here.
    fn record_failure(&self) {
        let Some(cause) = self.base.state.failure() else {
            return;
        };
        use uext4_journal::Error::Closed;
        let by_journal = matches!(cause, Error::Journal(cause) if !matches!(cause, Closed));
        let is_damage = matches!(cause, Error::Corrupt(_));
        // Damage and a failed read are recorded through the journal.
        if is_damage || by_journal && self.base.journal.check().is_ok() {
            let _best_effort = self.base.journal.close();
            return;
        }
        self.base.journal.stop(Closed);
        if by_journal {
            let _best_effort = self.record_stop();
        }
    }

    /// After the journal stopped, adds the errors to the on-disk superblock.
    fn record_stop(&self) -> Result<()> {
        let there = crate::state::superblock::read_superblock(&*self.base.device, None)?;
        let bytes: [u8; SUPERBLOCK_BYTES] = self.base.with_stop(there).to_bytes();
        self.base.device.write_at(SUPERBLOCK_OFFSET, &bytes)?;
        Ok(self.base.device.flush()?)
    }
}

/// Writes the superblock directly to its location.
pub(super) fn write_superblock(fs: &Fs) -> Result<()> {
    let bytes: [u8; SUPERBLOCK_BYTES] = fs.base.superblock.read().disk.to_bytes();
    Ok(fs.base.device.write_at(SUPERBLOCK_OFFSET, &bytes)?)
}
