//! When changes are durable, and who is told of data that could not be written.

use crate::delayed::ErrorCursor;
use crate::settings::Switch;
use crate::{Filesystem, Fs, InodeRef, Result, file};
use uext4_format::{InodeFlags, Tid};

impl Filesystem {
    /// Makes data and attributes of one file durable.
    ///
    /// # Errors
    /// After a failed flush of the device, each time: that data written before may be lost. A mount
    /// that goes on then (without a journal, `errors=continue`) answers so until the file is
    /// written again.
    /// Also what went wrong in writing out data since they were accepted; it is told once to all
    /// who sync without an open file ([`Self::fsync_open`]).
    pub fn fsync(&self, inode: &InodeRef) -> Result<()> {
        self.fsync_from(inode, None)
    }

    /// What a file that is opened now needs to be told of errors by [`Self::fsync_open`].
    pub fn error_cursor(&self, inode: &InodeRef) -> ErrorCursor {
        inode.write_errors.cursor()
    }

    /// As [`Self::fsync`] of an open file.
    ///
    /// # Errors
    /// Also what went wrong in writing out data since the file was opened, or before it, when
    /// nobody knows; every open file is told once.
    pub fn fsync_open(&self, inode: &InodeRef, cursor: &ErrorCursor) -> Result<()> {
        self.fsync_from(inode, Some(cursor))
    }

    fn fsync_from(&self, inode: &InodeRef, cursor: Option<&ErrorCursor>) -> Result<()> {
        let tell = |fs: &Fs| file::write_out_and_tell(fs, inode.arc(), cursor);
        let written = match inode.has_delayed() {
            true => self.change_unless_frozen(tell),
            false => Some(self.run(tell)),
        };
        // What a freeze left waiting cannot be written at all; what comes after a thaw came later.
        let written = written.unwrap_or_else(|| match inode.has_delayed() {
            true => self.check_writable(),
            false => self.run(tell),
        });
        self.run(|fs| fs.wait_durable(inode, cursor))?;
        written
    }

    /// A user of the file closes it. Data that replace what the file held before it was cut to
    /// nothing are written out (`auto_da_alloc`); they are durable with the next commit.
    /// Does not wait for a freeze or remount, which writes out everything itself.
    pub fn close(&self, inode: &InodeRef) -> Result<()> {
        if !inode.has_delayed() {
            return Ok(());
        }
        match self.fs.changes.try_enter() {
            Some(pass) => self.change_inside(&pass, |fs| file::close(fs, inode.arc())),
            None => Ok(()),
        }
    }

    /// Makes data durable, and the attributes needed to read it.
    pub fn fdatasync(&self, inode: &InodeRef) -> Result<()> {
        self.fsync(inode)
    }

    /// Makes everything durable.
    ///
    /// # Errors
    /// After a failed flush of the device, until the unmount: that data may be lost. That data of a
    /// file could not be written out, until an `fsync` of it was told.
    pub fn sync(&self) -> Result<()> {
        // While it is frozen no data wait, and what is to be freed is freed after the thaw.
        let written = match self.fs.delayed.is_empty() {
            true => {
                self.fs.reap_by_the_way();
                Ok(())
            }
            // What lost its last user is not worth writing.
            false => self
                .change_unless_frozen(|fs| fs.reap().and(fs.write_out_all()))
                .unwrap_or_else(|| match self.fs.delayed.is_empty() {
                    true => Ok(()),
                    false => self.check_writable(),
                }),
        };
        self.run(|fs| {
            // Who freezes has the counts written, and whoever changes them waits.
            let pass = fs.changes.try_enter();
            if pass.is_some() && fs.state.is_writable() {
                fs.log_lazy_times()?;
                let handle = fs.start(1)?;
                fs.superblock.update_counts(fs, &handle);
            }
            fs.journal.commit_running()?;
            fs.check_all_exposures()?;
            fs.delayed.untold.check()?;
            written
        })
    }
}

impl Fs {
    /// Makes a change durable at once when the mount (`sync`, `dirsync`) or the inode (`chattr
    /// +S`, of a directory also `+D`) asks for it.
    pub(super) fn sync_if_asked(&self, inode: &InodeRef) -> Result<()> {
        if self.syncs(inode) {
            self.sync_inode(inode)
        } else {
            Ok(())
        }
    }

    /// Whether changes of the inode are durable at once.
    pub(super) fn syncs(&self, inode: &InodeRef) -> bool {
        let flags = inode.facts().flags;
        let entries = self.settings.has(Switch::Dirsync) || flags.contains(InodeFlags::DIRSYNC);
        self.settings.has(Switch::Sync)
            || flags.contains(InodeFlags::SYNC)
            || (entries && inode.is_dir())
    }

    fn sync_inode(&self, inode: &InodeRef) -> Result<()> {
        let written = file::write_out_and_tell(self, inode.arc(), None);
        self.wait_durable(inode, None)?;
        written
    }

    fn wait_durable(&self, inode: &InodeRef, cursor: Option<&ErrorCursor>) -> Result<()> {
        let exposed = self.sample_exposure(inode);
        self.wait_committed(inode)?;
        self.check_exposure(inode, cursor, exposed)
    }

    fn wait_committed(&self, inode: &InodeRef) -> Result<()> {
        use uext4_journal::Object;
        // Who freezes logs them all, and what it left to log waits for nobody.
        if let Some(_pass) = self.changes.try_enter() {
            self.log_lazy_times_of(inode)?;
        }
        match inode.arc().live().dirty_tid() {
            Some(tid) => Ok(self.journal.wait_durable(tid)?),
            // Nothing of the inode waits to be rendered. It may be in the commit that is under way,
            // and its data may wait for a flush.
            None => {
                let committing = Tid(self.journal.running().0.wrapping_sub(1));
                self.journal.wait_durable(committing)?;
                self.journal.flush_device()?;
                Ok(self.journal.check()?)
            }
        }
    }
}
