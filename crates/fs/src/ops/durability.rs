//! Durability of changes, and reporting of writeback errors.

use crate::ops::filesystem::Filesystem;
use crate::parts::file;
use crate::state::delayed::ErrorCursor;
use crate::state::engine::Fs;
use crate::state::inode::InodeRef;
use crate::types::error::Result;
use crate::types::settings::Switch;
use uext4_format::{FileType, InodeFlags, Tid};
use uext4_journal::{Object, Stamp};

/// What a caller wants durable of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    /// Data and all attributes.
    All,
    /// Data, and what reading them needs: size and map.
    Data,
}

impl Filesystem {
    /// Makes data and attributes of one file durable.
    ///
    /// # Errors
    /// After a failed flush of the device, every call: data written before may be lost. On a mount
    /// that continues (without a journal, `errors=continue`), until the file is written again. Also
    /// a writeback error since the data were accepted; callers without an open file
    /// ([`Self::fsync_open`]) get it once, together.
    pub fn fsync(&self, inode: &InodeRef) -> Result<()> {
        self.fsync_from(inode, None, Wanted::All)
    }

    /// The error cursor that [`Self::fsync_open`] needs, for a file that is opened now.
    pub fn error_cursor(&self, inode: &InodeRef) -> ErrorCursor {
        inode.write_errors.cursor()
    }

    /// As [`Self::fsync`] of an open file.
    ///
    /// # Errors
    /// Also a writeback error since the file was opened, or an earlier unreported one; every open
    /// file gets it once.
    pub fn fsync_open(&self, inode: &InodeRef, cursor: &ErrorCursor) -> Result<()> {
        self.fsync_from(inode, Some(cursor), Wanted::All)
    }

    /// Makes data durable, and what reading them needs. A change of attributes alone (times, mode,
    /// owners) since the last commit stays for a later one.
    ///
    /// # Errors
    /// As [`Self::fsync`].
    pub fn fdatasync(&self, inode: &InodeRef) -> Result<()> {
        self.fsync_from(inode, None, Wanted::Data)
    }

    /// As [`Self::fdatasync`] of an open file.
    ///
    /// # Errors
    /// As [`Self::fsync_open`].
    pub fn fdatasync_open(&self, inode: &InodeRef, cursor: &ErrorCursor) -> Result<()> {
        self.fsync_from(inode, Some(cursor), Wanted::Data)
    }

    /// Writes out delayed data, then waits for the last change of the inode: the map of these data
    /// is such a change. For example, a new file has delayed data. If the stamp were read first,
    /// the wait would be for the creation, and a crash after the return could leave the file
    /// without its data. A failed write-out does not end the call: other runs may be mapped.
    ///
    /// A freeze has written out all data, so the call does not wait for the thaw. For example, a
    /// program that calls `fsync` during a snapshot would hang, though its data are on the device.
    fn fsync_from(
        &self,
        inode: &InodeRef,
        cursor: Option<&ErrorCursor>,
        wanted: Wanted,
    ) -> Result<()> {
        let tell = |fs: &Fs| file::write_out_and_report(fs, inode.arc(), cursor);
        let written = if inode.has_delayed() {
            self.change_unless_frozen(tell)
        } else {
            Some(self.run(tell))
        };
        // Data still delayed after a freeze cannot be written; data added after a thaw are newer
        // than this call.
        let written = written.unwrap_or_else(|| {
            if inode.has_delayed() {
                self.run(|fs| file::report(fs, inode.arc(), cursor, self.check_writable()))
            } else {
                self.run(tell)
            }
        });
        self.run(|fs| fs.wait_durable(inode, cursor, wanted))?;
        written
    }

    /// Close of the file by a user. Writes out data that replace the content before a truncate to
    /// zero (`auto_da_alloc`); they are durable with the next commit. Does not wait for a freeze or
    /// remount, which writes out all data.
    pub fn close(&self, inode: &InodeRef) -> Result<()> {
        if !inode.has_delayed() {
            return Ok(());
        }
        match self.fs.base.changes.try_enter() {
            Some(pass) => self.change_inside(&pass, |fs| file::close(fs, inode.arc())),
            None => Ok(()),
        }
    }

    /// Makes everything durable.
    ///
    /// # Errors
    /// After a failed flush of the device, until the unmount: data may be lost. An unreported
    /// writeback error of any file, until an `fsync` of it has reported it.
    pub fn sync(&self) -> Result<()> {
        // While it is frozen no data are delayed, and orphans are freed after the thaw.
        let written = if self.fs.delayed.is_empty() {
            self.fs.try_reap();
            Ok(())
        } else {
            // Frees orphans first: their data need no writeback.
            self.change_unless_frozen(|fs| fs.reap().and(fs.write_out_all()))
                .unwrap_or_else(|| {
                    if self.fs.delayed.is_empty() {
                        Ok(())
                    } else {
                        self.check_writable()
                    }
                })
        };
        self.run(|fs| {
            // A freeze writes the counts itself, and blocks changes of them.
            let pass = fs.base.changes.try_enter();
            if pass.is_some() && fs.base.state.is_writable() {
                fs.log_lazy_times()?;
                let handle = fs.start(1)?;
                fs.log_counts(&handle);
            }
            fs.base.journal.commit_running()?;
            fs.check_lost_flushes()?;
            fs.delayed.unseen.check()?;
            written
        })
    }
}

impl Fs {
    /// Makes a change durable at once when the mount (`sync`, `dirsync`) or the inode (`chattr
    /// +S`, of a directory also `+D`) asks for it.
    pub(super) fn sync_if_asked(&self, inode: &InodeRef) -> Result<()> {
        self.sync_if(inode, inode.facts().flags)
    }

    /// As [`Self::sync_if_asked`], for an inode with these flags.
    pub(super) fn sync_if(&self, inode: &InodeRef, flags: InodeFlags) -> Result<()> {
        if self.syncs(inode, flags) {
            self.sync_inode(inode)
        } else {
            Ok(())
        }
    }

    fn syncs(&self, inode: &InodeRef, flags: InodeFlags) -> bool {
        let entries =
            self.base.settings.has(Switch::Dirsync) || flags.contains(InodeFlags::DIRSYNC);
        self.base.settings.has(Switch::Sync)
            || flags.contains(InodeFlags::SYNC)
            || (entries && inode.is_dir())
    }

    fn sync_inode(&self, inode: &InodeRef) -> Result<()> {
        let written = file::write_out_and_report(self, inode.arc(), None);
        self.wait_durable(inode, None, Wanted::All)?;
        written
    }

    fn wait_durable(
        &self,
        inode: &InodeRef,
        cursor: Option<&ErrorCursor>,
        wanted: Wanted,
    ) -> Result<()> {
        let exposed = self.sample_flush_generation(inode);
        match wanted {
            // Changes of a directory are in its blocks.
            Wanted::Data if inode.kind() == FileType::Regular => self.wait_data_committed(inode)?,
            Wanted::All | Wanted::Data => self.wait_committed(inode)?,
        }
        self.check_lost_flush(inode, cursor, exposed)
    }

    fn wait_data_committed(&self, inode: &InodeRef) -> Result<()> {
        let change = {
            // The stamp and the kind of change are consistent under the lock.
            let state = inode.read();
            let change = inode.arc().live().stamp();
            change.filter(|_| state.has_unsynced_data())
        };
        self.wait_unrendered(change)
    }

    fn wait_committed(&self, inode: &InodeRef) -> Result<()> {
        // A freeze logs all times itself, and blocks later changes of them.
        if let Some(_pass) = self.base.changes.try_enter() {
            self.log_lazy_times_of(inode)?;
        }
        self.wait_unrendered(inode.arc().live().stamp())
    }

    /// Makes the last unrendered change of an inode that counts durable, and its data.
    fn wait_unrendered(&self, change: Option<Stamp>) -> Result<()> {
        match change {
            Some(change) => self.make_durable(change),
            // No unrendered change counts. One may be in the committing transaction, and the data
            // may need a flush.
            None => {
                let committing = Tid(self.base.journal.running().0.wrapping_sub(1));
                self.base.journal.wait_durable(committing)?;
                self.base.journal.flush_device()?;
                Ok(self.base.journal.check()?)
            }
        }
    }
}
