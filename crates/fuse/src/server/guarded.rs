//! Append-only and immutable files (`chattr +a`, `+i`), which the kernel does not know on FUSE.
//!
//! A file that is opened for writing while it is append-only bypasses the page cache, so that each
//! `write` is checked here: it has `O_APPEND` and begins at the end. A mapping of it can be written
//! to, but its pages are refused when they are written back. A descriptor from before the flag
//! keeps its rights on an append-only file, as in ext4, except that bytes that are there do not
//! change through the page cache: from pages one cannot tell a mapping of a later descriptor. Bytes
//! that were appended to the same page are stored, and the writer hears of the refused ones.
//!
//! Nothing writes to an immutable file. What the page cache holds when the flag is set is fetched
//! first ([`Server::fetch_for`]). A `write` to an older descriptor that is write-only asks for the
//! attributes before, and is refused; one that also reads is answered by `fsync` and `close`, since
//! reads at the end of the file ask as well.

use super::{Handled, Server, control};
use crate::attributes::Writers;
use crate::errno::Errno;
use crate::opened::OpenMode;
use crate::protocol::fattr;
use crate::request::Request;
use uext4::{InodeRef, SetAttr, SetTime, Timestamp};

/// Flags of `open(2)`.
const O_TRUNC: u32 = rustix::fs::OFlags::TRUNC.bits();
const O_APPEND: u32 = rustix::fs::OFlags::APPEND.bits();
/// Inode flags (`FS_*_FL`).
const IMMUTABLE: u32 = 0x10;
const APPEND: u32 = 0x20;

impl Server {
    /// Whether the file is append-only or immutable.
    pub(super) fn is_guarded(&self, inode: &InodeRef) -> bool {
        self.filesystem.attr(inode).flags & (IMMUTABLE | APPEND) != 0
    }

    /// Whether a file that is opened for writing now only appends.
    pub(super) fn only_appends(&self, inode: &InodeRef) -> bool {
        self.filesystem.attr(inode).flags & APPEND != 0
    }

    /// Whether a file opened with these flags of `open(2)` may be changed.
    pub(super) fn check_open_of_guarded(&self, inode: &InodeRef, flags: u32) -> Handled {
        let fixed = self.filesystem.attr(inode).flags;
        let appends = flags & O_APPEND != 0 && flags & O_TRUNC == 0;
        refuse(fixed & IMMUTABLE != 0 || (fixed & APPEND != 0 && !appends))
    }

    /// Checks a `write` that the kernel passes on at once; `opened` are the flags of its file.
    pub(super) fn check_write(
        &self,
        inode: &InodeRef,
        open_mode: OpenMode,
        opened: u32,
        offset: u64,
    ) -> Handled {
        let attr = self.filesystem.attr(inode);
        let appends = opened & O_APPEND != 0 && offset >= attr.size_bytes;
        let only_appends = attr.flags & APPEND != 0 && open_mode.only_appends;
        refuse(attr.flags & IMMUTABLE != 0 || (only_appends && !appends))
    }

    /// What may be stored of pages that are written back; `None` for all of them. The bytes that
    /// are there stay: a page may hold both what an older descriptor appended and what a mapping
    /// changed before it.
    pub(super) fn check_pages(
        &self,
        node: u64,
        inode: &InodeRef,
        offset: u64,
        data: &[u8],
    ) -> Handled<Option<Vec<u8>>> {
        let flags = self.filesystem.attr(inode).flags;
        if flags & (IMMUTABLE | APPEND) == 0 {
            return Ok(None);
        }
        let only_appended_to = !self.nodes.has_older_writers(node);
        refuse(flags & IMMUTABLE != 0 || only_appended_to)?;
        let mut stored = vec![0; data.len()];
        let len_bytes = self.filesystem.read_untouched(inode, offset, &mut stored)?;
        // Pages come in any order, so a page below the end may be new. It was zero until then.
        stored[len_bytes..].fill(0);
        for (old, new) in stored.iter_mut().zip(data).filter(|(old, _)| **old == 0) {
            *old = *new;
        }
        Ok((stored != data).then_some(stored))
    }

    /// Checks a time of modification that comes with a change time, which the library takes for
    /// the times of data that it accepted earlier. The write-back cache sends these with an open
    /// file, or after a change of names, which leaves the time of modification. The owner sets one
    /// without a file, and the kernel does not know that the inode is append-only or immutable. The
    /// present time is that of the change too; an append-only file may get it for both times, as in
    /// ext4.
    pub(super) fn check_times(&self, inode: &InodeRef, valid: u32, set: &SetAttr) -> Handled {
        let (Some(SetTime::At(new)), Some(change)) = (set.mtime, set.ctime) else {
            return Ok(());
        };
        let attr = self.filesystem.attr(inode);
        // A small inode has no nanoseconds.
        let stays = [new, Timestamp::new(new.seconds, 0)].contains(&attr.mtime);
        let is_given = valid & fattr::FH == 0 && !stays;
        let is_touch = new == change && set.atime == Some(SetTime::Now);
        let is_fixed = attr.flags & IMMUTABLE != 0 || (attr.flags & APPEND != 0 && !is_touch);
        refuse(is_given && is_fixed)
    }

    /// Checks a copy or an allocation, which name a file without the flags of its descriptor.
    pub(super) fn check_range(&self, inode: &InodeRef, range: Changes) -> Handled {
        let flags = self.filesystem.attr(inode).flags;
        refuse(flags & IMMUTABLE != 0 || (flags & APPEND != 0 && range == Changes::Bytes))
    }

    /// Whether a request makes its file append-only or immutable, and the page cache may hold data
    /// that were written before.
    pub(super) fn guards_data(&self, request: &Request<'_>) -> bool {
        self.nodes.writers(request.node) == Writers::Some
            && control::new_flags(request).is_some_and(|flags| flags & (IMMUTABLE | APPEND) != 0)
    }

    /// Whether a `write` to this file is refused, whatever it writes.
    pub(super) fn refuses_writes(&self, inode: &InodeRef) -> bool {
        self.filesystem.attr(inode).flags & IMMUTABLE != 0
    }
}

/// What a request does to a range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Changes {
    /// It changes bytes, or frees their space.
    Bytes,
    /// It allocates space only.
    Space,
}

fn refuse(is_refused: bool) -> Handled {
    if is_refused {
        Err(Errno::EPERM)
    } else {
        Ok(())
    }
}
