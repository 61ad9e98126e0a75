//! Size of a file, and its data, holes and allocated space.

use super::{KillPrivileges, check_data_change, regular};
use crate::file::{self, Extent, FallocateMode, Seek, Times};
use crate::inode::Inode;
use crate::{Caller, Error, Filesystem, Fs, InodeRef, Result};
use uext4_format::{Feature, InodeFlags};

impl Filesystem {
    /// Sets the size: truncates the file, or extends it with a hole.
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

    /// Frees the space preallocated for the next writes: for servers, when the last writer closes
    /// the file. The file's last user frees it otherwise.
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

    /// Extents of a file that overlap the byte range. Delayed data are allocated first
    /// (`FIEMAP_FLAG_SYNC`).
    pub fn fiemap(&self, inode: &InodeRef, offset: u64, len: u64) -> Result<Vec<Extent>> {
        if inode.has_delayed() {
            self.change(|fs| file::write_out(fs, inode.arc()))?;
        }
        self.run(|fs| file::fiemap(fs, inode, offset, len))
    }
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

/// An append-only file accepts allocations only.
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

impl Fs {
    /// Sets the superblock's large-file feature before a file reaches 2 GiB. A mark that is too
    /// early, after an error, is harmless.
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
}
