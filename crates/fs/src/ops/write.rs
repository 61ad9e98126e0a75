//! Writes of data: direct ones, and writeback from caches above.

use super::{KillPrivileges, check_data_change, regular};
use crate::file::{self, Times};
use crate::space::Reserve;
use crate::{Caller, Error, Filesystem, Fs, InodeRef, Result};
use uext4_format::InodeFlags;

/// Writers of the data in a writeback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writers {
    /// Only callers that may not use the blocks reserved for the superuser.
    Users,
    /// A caller that may use them, or unknown.
    Privileged,
}

impl Filesystem {
    /// Writes `data` at byte `offset`; answers how many bytes were written. The data are durable
    /// after [`Self::fsync`].
    pub fn write(&self, inode: &InodeRef, offset: u64, data: &[u8]) -> Result<usize> {
        self.write_as(inode, offset, data, KillPrivileges::No)
    }

    /// As [`Self::write`], and clears setuid and setgid on request.
    pub fn write_as(
        &self,
        inode: &InodeRef,
        offset: u64,
        data: &[u8],
        kill: KillPrivileges,
    ) -> Result<usize> {
        self.write_by(inode, offset, data, kill, &Caller::root())
    }

    /// As [`Self::write_as`]; `caller` may use the blocks reserved for the superuser only if it is
    /// the superuser, or `resuid` or `resgid` name it. Permissions are checked at the open, not
    /// here.
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

    /// As [`Self::write_by`], for a cache above that passes the write on: it handles setuid and
    /// setgid itself, and the times if `times` says so.
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

    /// Writes data that a cache above accepted earlier, after it checked immutable and append-only
    /// files and cleared setuid. Whole pages come back, even for appends. A cache that knows the
    /// time of the write keeps the times.
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

    /// For a cache above that accepts data before it reserves their space: fails when any write to
    /// the file must fail for lack of space.
    ///
    /// # Errors
    /// [`Error::NoSpace`] in that case.
    pub fn check_room(&self, inode: &InodeRef, writers: Writers) -> Result<()> {
        self.run(|fs| file::check_room(fs, inode.arc(), reserve_for(writers)))
    }

    /// Whether `caller` may use the blocks reserved for the superuser.
    pub fn writer(&self, caller: &Caller) -> Writers {
        match self.fs.reserve_of(caller) {
            Reserve::MayUse => Writers::Privileged,
            _ => Writers::Users,
        }
    }

    /// Appends `data`; answers the offset and how many bytes were written.
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
}

fn reserve_for(writers: Writers) -> Reserve {
    match writers {
        Writers::Users => Reserve::Keep,
        Writers::Privileged => Reserve::MayUse,
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
