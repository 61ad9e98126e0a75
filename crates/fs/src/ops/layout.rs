//! Size of a file, and its data, holes and allocated space.

use super::{WriteContext, regular};
use crate::ops::filesystem::Filesystem;
use crate::parts::file::{self, Extent, FallocateMode, Seek};
use crate::state::engine::Fs;
use crate::state::inode::InodeRef;
use crate::types::attr::Checks;
use crate::types::error::{Error, Result};
use std::ops::Range;
use uext4_format::InodeFlags;

impl Filesystem {
    /// Sets the size: truncates the file, or extends it with a hole.
    pub fn truncate(&self, inode: &InodeRef, size_bytes: u64) -> Result<()> {
        self.change(|fs| {
            regular(inode)?;
            fs.may_change(inode)?;
            if inode.read().disk.flags.contains(InodeFlags::APPEND) {
                return Err(Error::NotPermitted);
            }
            file::truncate(fs, inode.arc(), size_bytes)?;
            fs.sync_if_asked(inode)
        })
    }

    /// Allocates, punches or zeroes the byte range (`fallocate(2)`). Permissions are checked at the
    /// open, not here. Locks the file's data.
    ///
    /// # Errors
    /// [`Error::NotPermitted`] if a flag of the file forbids the change; [`Error::NotSupported`] in
    /// files without extents, unless it punches a hole; [`Error::NoSpace`] and [`Error::Quota`],
    /// after which the blocks allocated so far stay; [`Error::TooLarge`]; [`Error::Invalid`] for an
    /// empty or unaligned range.
    pub fn fallocate(
        &self,
        inode: &InodeRef,
        mode: FallocateMode,
        bytes: Range<u64>,
        context: &WriteContext,
    ) -> Result<()> {
        self.change(|fs| {
            let policy = context.policy(fs);
            check_fallocate(fs, inode, mode, policy.checks)?;
            if let Some(caller) = context.unprivileged() {
                fs.kill_privileges(inode, caller)?;
            }
            file::fallocate(fs, inode.arc(), mode, bytes, policy)?;
            fs.sync_if_asked(inode)
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

/// An append-only file accepts allocations only.
fn check_fallocate(fs: &Fs, inode: &InodeRef, mode: FallocateMode, checks: Checks) -> Result<()> {
    regular(inode)?;
    if checks == Checks::Done {
        return Ok(());
    }
    fs.may_change(inode)?;
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
