//! Freeze and thaw (`FIFREEZE` and `FITHAW`).
//!
//! A frozen file system is consistent on its device: all changes are there, the log is empty, and
//! the superblock is marked clean, so that a copy of the device can be mounted and checked at once.
//! Open files without a name stay tracked as orphans; a mount of the copy frees them.
//!
//! Invariants: the device is not written while frozen, except for the MMP block, whose lease must
//! not expire. Changes wait at the freeze barrier before they take any lock, so reads continue.
//! Calls for durability wait until the freeze is complete, when nothing is left to write.

use crate::ops::filesystem::Filesystem;
use crate::types::error::{Error, Result};

impl Filesystem {
    /// Writes every change home and blocks new ones until [`Self::thaw`]; reads continue, without
    /// updates of access times. On a read-only file system, it only prevents remounts. Data written
    /// before are on the device; data in a cache above are not.
    ///
    /// # Errors
    /// [`Error::Busy`] if it is frozen, [`Error::Unmounted`] after the unmount,
    /// [`Error::Shutdown`] after a shutdown, or the error that stopped the freeze: the mount has
    /// failed, see [`Self::failure`]. Or the error that lost delayed data: the mount continues.
    pub fn freeze(&self) -> Result<()> {
        let fs = &self.fs;
        let mut life = fs.lifecycle.lock();
        if life.is_frozen {
            return Err(Error::Busy);
        }
        fs.base.state.check_open()?;
        fs.base.changes.close();
        if fs.writable().is_ok() {
            fs.checkpoint_all()
                .inspect_err(|_| fs.base.changes.open())?;
        }
        life.is_frozen = true;
        fs.base.changes.rest();
        Ok(())
    }

    /// Unblocks changes after [`Self::freeze`].
    ///
    /// # Errors
    /// [`Error::Invalid`] if it is not frozen. An error of the device: the mount has failed, and
    /// waiting changes return [`Error::ReadOnly`].
    pub fn thaw(&self) -> Result<()> {
        let fs = &self.fs;
        let mut life = fs.lifecycle.lock();
        if !life.is_frozen {
            return Err(Error::Invalid("the file system is not frozen"));
        }
        life.is_frozen = false;
        let thawed = fs.thaw_journal();
        fs.base.changes.open();
        thawed
    }

    /// Whether it is frozen; may be outdated at once.
    pub fn is_frozen(&self) -> bool {
        self.fs.base.changes.is_at_rest()
    }
}

impl crate::state::engine::Fs {
    /// Writes every change home and brings the file system to rest, until [`Self::thaw_journal`].
    /// Changes have stopped.
    ///
    /// # Errors
    /// The error that lost delayed data, with the file system not at rest; another one, with the
    /// mount failed.
    pub(crate) fn checkpoint_all(&self) -> Result<()> {
        self.base
            .record_result(self.reap())
            .and_then(|()| self.write_out_all())?;
        self.rest().inspect_err(|cause| self.fail(cause))
    }

    pub(crate) fn thaw_journal(&self) -> Result<()> {
        if !self.base.state.is_writable() {
            // Read-only, or damage was met while frozen: the device stays unchanged.
            return Ok(());
        }
        self.mark_in_use().inspect_err(|cause| self.fail(cause))?;
        self.base.journal.resume();
        Ok(())
    }

    /// Stops all writes for good.
    pub(crate) fn fail(&self, cause: &Error) {
        self.base.state.fail(cause);
        self.base.journal.abort(uext4_journal::Error::Closed);
    }
}
