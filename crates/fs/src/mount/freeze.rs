//! Freezing and thawing, as `FIFREEZE` and `FITHAW` do.
//!
//! A frozen file system stands still on its device: everything that was done is there, the log is
//! empty, and the superblock says clean, so that a copy of the device can be mounted and checked
//! at once. Files that are open without a name stay tracked as orphans; the next mount of a copy
//! frees them.
//!
//! Invariants: the device is not written while frozen, but for the MMP block, whose claim must not
//! lapse. Changes wait before they take any lock, so reads go on. What makes data durable waits
//! until the file system is at rest, where nothing is left to be written.

use crate::{Error, Filesystem, Result};

impl Filesystem {
    /// Brings every change that was done to the device and keeps it still: changes wait until
    /// [`Self::thaw`], reads go on (access times are not noted). A read-only file system stands
    /// still already and is only kept from being remounted. Data written before is on the device;
    /// what a cache above still holds is not.
    ///
    /// # Errors
    /// [`Error::Busy`] when it is frozen, [`Error::ReadOnly`] when it was unmounted, or what kept
    /// it from coming to rest: then it has failed, see [`Self::failure`]. Or why data that waited
    /// for their blocks could not be written: then it goes on.
    pub fn freeze(&self) -> Result<()> {
        let fs = &self.fs;
        let mut life = fs.lifecycle.lock();
        if life.is_frozen {
            return Err(Error::Busy);
        }
        if fs.state.is_closed() {
            return Err(Error::ReadOnly);
        }
        if fs.state.is_shut() {
            return Err(Error::Shutdown);
        }
        fs.changes.close();
        if fs.writable().is_ok() {
            let written = fs.note(fs.reap()).and_then(|()| fs.write_out_all());
            if written.is_err() {
                fs.changes.open();
                return written;
            }
            let rested = fs.rest();
            if let Err(cause) = rested {
                fs.fail(&cause);
                fs.changes.open();
                return Err(cause);
            }
        }
        life.is_frozen = true;
        fs.changes.rest();
        Ok(())
    }

    /// Lets changes go on after [`Self::freeze`].
    ///
    /// # Errors
    /// [`Error::Invalid`] when it is not frozen. An error of the device: then it has failed, and
    /// waiting changes answer [`Error::ReadOnly`].
    pub fn thaw(&self) -> Result<()> {
        let fs = &self.fs;
        let mut life = fs.lifecycle.lock();
        if !life.is_frozen {
            return Err(Error::Invalid("the file system is not frozen"));
        }
        life.is_frozen = false;
        let thawed = fs.thaw_journal();
        fs.changes.open();
        thawed
    }

    /// Whether it is frozen: a hint, since it may change at once.
    pub fn is_frozen(&self) -> bool {
        self.fs.changes.is_at_rest()
    }
}

impl crate::Fs {
    pub(super) fn thaw_journal(&self) -> Result<()> {
        if !self.state.is_writable() {
            // Read-only, or damage was met while frozen: what is on the device stays as it is.
            return Ok(());
        }
        self.mark_in_use().inspect_err(|cause| self.fail(cause))?;
        self.journal.resume();
        Ok(())
    }

    /// Stops writing for good.
    pub(super) fn fail(&self, cause: &Error) {
        self.state.fail(cause);
        self.journal.abort(uext4_journal::Error::Closed);
    }
}
