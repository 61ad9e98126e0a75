//! Data: read, write, space, sync.

use crate::access::without_privileges;
use crate::inode::{Atime, ChangeTimes, Inode};
use crate::settings::Switch;
use crate::space::Reserve;
use crate::{Caller, Error, Filesystem, Fs, InodeRef, Result, credits, file, xattr};
use uext4_format::{Feature, FileType, InodeFlags, Tid};

use crate::delayed::ErrorCursor;
use crate::file::{Extent, FallocateMode, Seek, Stretch, Times};

/// What a write does to setuid and setgid bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillPrivileges {
    /// They are taken away (the writer is not the superuser).
    Yes,
    /// They stay.
    No,
}

/// Who wrote what a cache above brings later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writers {
    /// Nobody for whom the blocks reserved for the superuser are.
    Users,
    /// Somebody for whom they are, or nobody knows.
    Privileged,
}

impl Filesystem {
    /// Reads up to `buf.len()` bytes at byte `offset`; answers how many (less at the end).
    pub fn read(&self, inode: &InodeRef, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.run(|fs| {
            regular(inode)?;
            let read = file::read(fs, inode, offset, buf)?;
            if !buf.is_empty() {
                fs.touch_atime(inode, ChangeTimes::Here)?;
            }
            Ok(read)
        })
    }

    /// As [`Self::read`], without a trace in the access time (`O_NOATIME`). That the caller may
    /// ask for this is not checked: who opened the file did.
    pub fn read_untouched(&self, inode: &InodeRef, offset: u64, buf: &mut [u8]) -> Result<usize> {
        self.run(|fs| {
            regular(inode)?;
            file::read(fs, inode, offset, buf)
        })
    }

    /// As [`Self::read_untouched`], for who moves data on without looking at them: shows `take`
    /// where up to `len_bytes` bytes from byte `offset` on stand, less only at the end, and answers
    /// what it answers. They stay there until it returns; it must not wait for another operation
    /// on the file. False as well, and `take` is not asked, where not all of them stand in a file
    /// of the system, in few stretches: then [`Self::read`] knows more.
    pub fn read_in_place(
        &self,
        inode: &InodeRef,
        offset: u64,
        len_bytes: usize,
        take: impl FnOnce(&[Stretch<'_>]) -> bool,
    ) -> Result<bool> {
        self.run(|fs| {
            regular(inode)?;
            file::read_in_place(fs, inode, offset, len_bytes, take)
        })
    }

    /// Notes an access that a cache above answers itself, when it opens a file to read for one: the
    /// access time is set if the rules of the mount say so.
    pub fn note_access(&self, inode: &InodeRef, changes: ChangeTimes) -> Result<Atime> {
        self.run(|fs| fs.touch_atime(inode, changes))
    }

    /// True when every read sets the access time (`strictatime`): a cache above that answers reads
    /// itself would lose some.
    pub fn notes_every_read(&self) -> bool {
        self.fs.notes_every_read()
    }

    /// Writes `data` at byte `offset`; answers how many bytes were written. What was written is
    /// durable after [`Self::fsync`].
    pub fn write(&self, inode: &InodeRef, offset: u64, data: &[u8]) -> Result<usize> {
        self.write_as(inode, offset, data, KillPrivileges::No)
    }

    /// As [`Self::write`], and takes setuid and setgid away when asked to.
    pub fn write_as(
        &self,
        inode: &InodeRef,
        offset: u64,
        data: &[u8],
        kill: KillPrivileges,
    ) -> Result<usize> {
        self.write_by(inode, offset, data, kill, &Caller::root())
    }

    /// As [`Self::write_as`]; the blocks reserved for the superuser are for `caller` only if
    /// `resuid` and `resgid` say so. Rights are not checked: who opened the file did.
    pub fn write_by(
        &self,
        inode: &InodeRef,
        offset: u64,
        data: &[u8],
        kill: KillPrivileges,
        caller: &Caller,
    ) -> Result<usize> {
        self.change(|fs| {
            check_write(fs, inode, offset)?;
            if kill == KillPrivileges::Yes {
                fs.kill_privileges(inode, caller)?;
            }
            write(fs, inode, offset, data, Times::Change, caller)
        })
    }

    /// As [`Self::write_by`], for a cache above that lets the write through: setuid and setgid are
    /// its business, and the times if it says so.
    pub fn write_through(
        &self,
        inode: &InodeRef,
        offset: u64,
        data: &[u8],
        times: Times,
        caller: &Caller,
    ) -> Result<usize> {
        self.change(|fs| {
            check_write(fs, inode, offset)?;
            write(fs, inode, offset, data, times, caller)
        })
    }

    /// Writes data that a cache above accepted earlier, when the rules about immutable and
    /// append-only files and about setuid were applied. Whole pages come back, also of a file that
    /// was only appended to. A cache that knows when it was written to keeps the times.
    pub fn write_back(
        &self,
        inode: &InodeRef,
        offset: u64,
        data: &[u8],
        times: Times,
        writers: Writers,
    ) -> Result<usize> {
        self.change(|fs| {
            regular(inode)?;
            fs.writable()?;
            fs.allow_size(offset.saturating_add(data.len() as u64))?;
            let reserve = reserve_for(writers);
            file::write_at(fs, inode.arc(), offset, data, reserve, times)
        })
    }

    /// For a cache above that accepts data before it asks for their space: fails when a write to
    /// the file would find no room, wherever it goes and however little it brings.
    ///
    /// # Errors
    /// [`Error::NoSpace`] then.
    pub fn check_room(&self, inode: &InodeRef, writers: Writers) -> Result<()> {
        self.run(|fs| file::check_room(fs, inode.arc(), reserve_for(writers)))
    }

    /// Whether the blocks reserved for the superuser are for `caller`, too.
    pub fn writer(&self, caller: &Caller) -> Writers {
        match self.fs.reserve_of(caller) {
            Reserve::MayUse => Writers::Privileged,
            _ => Writers::Users,
        }
    }

    /// Appends `data` at the end; answers the offset where it went and how many bytes.
    pub fn append(&self, inode: &InodeRef, data: &[u8]) -> Result<(u64, usize)> {
        self.append_by(inode, data, KillPrivileges::No, &Caller::root())
    }

    /// As [`Self::append`], with the rules of [`Self::write_by`].
    pub fn append_by(
        &self,
        inode: &InodeRef,
        data: &[u8],
        kill: KillPrivileges,
        caller: &Caller,
    ) -> Result<(u64, usize)> {
        self.change(|fs| {
            regular(inode)?;
            check_data_change(fs, inode)?;
            if kill == KillPrivileges::Yes {
                fs.kill_privileges(inode, caller)?;
            }
            fs.allow_size(inode.read().disk.size.saturating_add(data.len() as u64))?;
            let written = file::append(fs, inode.arc(), data, fs.reserve_of(caller))?;
            fs.sync_if_asked(inode)?;
            Ok(written)
        })
    }

    /// The mode that is left when `caller`, who is not the superuser, changes the data of a file
    /// with setuid or setgid; `None` when that takes nothing away.
    pub fn mode_without_privileges(&self, inode: &InodeRef, caller: &Caller) -> Option<u16> {
        mode_without_privileges(inode, caller)
    }

    /// Sets the size: cuts the file, or extends it with a hole.
    pub fn truncate(&self, inode: &InodeRef, size_bytes: u64) -> Result<()> {
        self.change(|fs| {
            regular(inode)?;
            check_data_change(fs, inode)?;
            if inode.read().disk.flags.contains(InodeFlags::APPEND) {
                return Err(Error::NotPermitted);
            }
            fs.allow_size(size_bytes)?;
            file::truncate(fs, inode.arc(), size_bytes)?;
            fs.sync_if_asked(inode)
        })
    }

    /// Allocates, punches or zeroes a byte range (`fallocate(2)`).
    pub fn fallocate(
        &self,
        inode: &InodeRef,
        mode: FallocateMode,
        offset: u64,
        len: u64,
    ) -> Result<()> {
        self.fallocate_by(
            inode,
            mode,
            offset,
            len,
            KillPrivileges::No,
            &Caller::root(),
        )
    }

    /// As [`Self::fallocate`], with the rules of [`Self::write_by`].
    pub fn fallocate_by(
        &self,
        inode: &InodeRef,
        mode: FallocateMode,
        offset: u64,
        len: u64,
        kill: KillPrivileges,
        caller: &Caller,
    ) -> Result<()> {
        self.change(|fs| {
            check_fallocate(fs, inode, mode)?;
            if kill == KillPrivileges::Yes {
                fs.kill_privileges(inode, caller)?;
            }
            fallocate(fs, inode, mode, offset, len, Times::Change, caller)
        })
    }

    /// As [`Self::fallocate`], with the rules of [`Self::write_through`].
    pub fn fallocate_through(
        &self,
        inode: &InodeRef,
        mode: FallocateMode,
        offset: u64,
        len: u64,
        times: Times,
        caller: &Caller,
    ) -> Result<()> {
        self.change(|fs| {
            check_fallocate(fs, inode, mode)?;
            fallocate(fs, inode, mode, offset, len, times, caller)
        })
    }

    /// Gives back the space that is held for what is written to the file next: for servers, when
    /// the last writer closes it. It is given back anyway when the file's last user is gone.
    pub fn discard_preallocation(&self, inode: &InodeRef) {
        self.fs.discard_preallocation(inode);
    }

    /// Next data or hole at or after `offset` ([`Error::NoOffset`] past the end).
    pub fn seek(&self, inode: &InodeRef, offset: u64, what: Seek) -> Result<u64> {
        self.run(|fs| {
            regular(inode)?;
            file::seek(fs, inode, offset, what)
        })
    }

    /// Extents of a file that meet the byte range. Data that wait for their blocks get them first
    /// (`FIEMAP_FLAG_SYNC`).
    pub fn fiemap(&self, inode: &InodeRef, offset: u64, len: u64) -> Result<Vec<Extent>> {
        if inode.has_delayed() {
            self.change(|fs| file::write_out(fs, inode.arc()))?;
        }
        self.run(|fs| file::fiemap(fs, inode, offset, len))
    }

    /// Makes data and attributes of one file durable.
    ///
    /// # Errors
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
            true => self.change(tell),
            false => self.run(tell),
        };
        self.run(|fs| fs.wait_durable(inode))?;
        written
    }

    /// A user of the file closes it. Data that replace what the file held before it was cut to
    /// nothing are written out (`auto_da_alloc`); they are durable with the next commit.
    pub fn close(&self, inode: &InodeRef) -> Result<()> {
        match inode.has_delayed() {
            true => self.change(|fs| file::close(fs, inode.arc())),
            false => Ok(()),
        }
    }

    /// Makes data durable, and the attributes needed to read it.
    pub fn fdatasync(&self, inode: &InodeRef) -> Result<()> {
        self.fsync(inode)
    }

    /// Makes everything durable.
    pub fn sync(&self) -> Result<()> {
        let waits = !self.fs.delayed.is_empty() || self.fs.inodes.reclaim.has_work();
        let written = match waits {
            // What lost its last user is not worth writing.
            true => self.change(|fs| fs.reap().and(fs.write_out_all())),
            false => Ok(()),
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
            written
        })
    }
}

fn reserve_for(writers: Writers) -> Reserve {
    match writers {
        Writers::Users => Reserve::Keep,
        Writers::Privileged => Reserve::MayUse,
    }
}

fn regular(inode: &Inode) -> Result<()> {
    match inode.kind() {
        FileType::Regular => Ok(()),
        FileType::Directory => Err(Error::IsDirectory),
        _ => Err(Error::Invalid("not a regular file")),
    }
}

fn check_write(fs: &Fs, inode: &InodeRef, offset: u64) -> Result<()> {
    regular(inode)?;
    check_data_change(fs, inode)?;
    let state = inode.read();
    match state.disk.flags.contains(InodeFlags::APPEND) && offset < state.disk.size {
        true => Err(Error::NotPermitted),
        false => Ok(()),
    }
}

fn write(
    fs: &Fs,
    inode: &InodeRef,
    offset: u64,
    data: &[u8],
    times: Times,
    caller: &Caller,
) -> Result<usize> {
    fs.allow_size(offset.saturating_add(data.len() as u64))?;
    let reserve = fs.reserve_of(caller);
    let written = file::write_at(fs, inode.arc(), offset, data, reserve, times)?;
    fs.sync_if_asked(inode)?;
    Ok(written)
}

fn check_fallocate(fs: &Fs, inode: &InodeRef, mode: FallocateMode) -> Result<()> {
    regular(inode)?;
    check_data_change(fs, inode)?;
    check_append_only(inode, mode)
}

fn fallocate(
    fs: &Fs,
    inode: &InodeRef,
    mode: FallocateMode,
    offset: u64,
    len: u64,
    times: Times,
    caller: &Caller,
) -> Result<()> {
    fs.allow_size(offset.saturating_add(len))?;
    let reserve = fs.reserve_of(caller);
    file::fallocate(fs, inode.arc(), mode, offset, len, reserve, times)?;
    fs.sync_if_asked(inode)
}

/// A file that only grows may get space behind its end, nothing else.
fn check_append_only(inode: &Inode, mode: FallocateMode) -> Result<()> {
    let append_only = inode.read().disk.flags.contains(InodeFlags::APPEND);
    let harmless = matches!(
        mode,
        FallocateMode::Allocate | FallocateMode::AllocateKeepSize
    );
    if append_only && !harmless {
        Err(Error::NotPermitted)
    } else {
        Ok(())
    }
}

/// An open file of an immutable inode may not be written either.
fn check_data_change(fs: &Fs, inode: &Inode) -> Result<()> {
    fs.may_change(inode)
}

impl Fs {
    /// Before a file may be so large: from 2 GiB on the superblock says that there are such files.
    /// That it says so too early, after an error, does no harm.
    pub(super) fn allow_size(&self, size_bytes: u64) -> Result<()> {
        let known = self.features.has(Feature::LARGE_FILE) || size_bytes <= i32::MAX as u64;
        if known
            || self
                .superblock
                .read()
                .disk
                .features()
                .has(Feature::LARGE_FILE)
        {
            return Ok(());
        }
        let handle = self.start(1)?;
        self.superblock.update(&handle, |disk| {
            let mut features = disk.features();
            features.insert(Feature::LARGE_FILE);
            disk.set_features(features);
        });
        Ok(())
    }

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
        self.wait_durable(inode)?;
        written
    }

    fn wait_durable(&self, inode: &InodeRef) -> Result<()> {
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
                Ok(self.journal.flush_device()?)
            }
        }
    }

    /// Takes away what a change by `caller` takes away, who is not the superuser.
    fn kill_privileges(&self, inode: &InodeRef, caller: &Caller) -> Result<()> {
        if let Some(mode) = mode_without_privileges(inode, caller) {
            let handle = self.start(credits::ATTRIBUTES)?;
            let mut state = handle.write(inode.arc());
            state.disk.mode = state.disk.mode & !0o7777 | mode;
            state.disk.ctime = self.now();
        }
        const CAPABILITIES: &[u8] = b"security.capability";
        match xattr::get(self, inode, CAPABILITIES)? {
            Some(_) => xattr::remove(self, inode.arc(), CAPABILITIES),
            None => Ok(()),
        }
    }
}

/// The mode after a change by `caller`, who is not the superuser, if it is another one then.
fn mode_without_privileges(inode: &Inode, caller: &Caller) -> Option<u16> {
    let state = inode.read();
    let old = state.disk.mode;
    let mode = without_privileges(old, state.disk.gid, caller);
    (state.disk.file_type() == Some(FileType::Regular) && mode != old).then_some(mode & 0o7777)
}
