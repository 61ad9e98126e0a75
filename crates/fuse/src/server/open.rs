//! Opening and closing files.
//!
//! Immutable and append-only files are checked in `guarded`. `O_TRUNC` is part of the request
//! (`ATOMIC_O_TRUNC`).
//!
//! Access times: the kernel reads from its page cache without a request. If it caches no page of a
//! file, the read that brings the first page counts as the access; later, each open for reading
//! does. With direct I/O each read counts.

use super::data::{O_DIRECT, O_NOATIME};
use super::{Handled, Server};
use crate::attributes::Writers as Has;
use crate::nodes::Rights;
use crate::opened::OpenMode;
use crate::protocol::{OPEN_KILL_SUIDGID, fopen};
use crate::reply::Reply;
use crate::request::Request;
use uext4::{Atime, Caller, ChangeTimes, Error, InodeRef, SetAttr, Writers};
use uext4_num::low_u16;

/// `O_*` flags of `open(2)` that matter here.
const O_ACCMODE: u32 = 0o3;
const O_WRONLY: u32 = 0o1;
const O_EXCL: u32 = 0o200;
const O_TRUNC: u32 = 0o1000;
const O_APPEND: u32 = 0o2000;
/// Inode flag (`FS_SYNC_FL`).
const FLAG_SYNC: u32 = 0x8;

/// Whether the open flags allow writes.
fn writes(flags: u32) -> bool {
    flags & O_ACCMODE != 0
}

/// Class of the writer, if the open flags allow writes.
fn writer(flags: u32, open_mode: OpenMode) -> Option<Writers> {
    writes(flags).then_some(open_mode.writer)
}

fn rights(open_mode: OpenMode) -> Rights {
    if open_mode.only_appends {
        Rights::Appends
    } else {
        Rights::Any
    }
}

impl Server {
    pub(super) fn open(&self, request: &Request<'_>, reply: &mut Reply) -> Handled {
        let mut args = request.args();
        let (flags, open_flags) = (args.u32()?, args.u32()?);
        let inode = self.get(request.node)?;
        self.check_open(&inode, flags)?;
        if flags & O_TRUNC != 0 {
            self.truncate_opened(request, &inode, open_flags)?;
        }
        let caller = if writes(flags) {
            self.caller(request)
        } else {
            // A handle for reading is not checked again.
            request.caller(0)
        };
        let open_mode = self.open_mode(&caller, &inode, flags);
        self.update_atime(request.node, &inode, flags, open_mode);
        self.put_opened(request.node, &inode, flags, open_mode, reply);
        Ok(())
    }

    /// The kernel does not cache listings. A listing that it began to cache before a name came or
    /// went could end a newer listing too early.
    pub(super) fn opendir(reply: &mut Reply) -> Handled {
        reply.zeroes(16);
        Ok(())
    }

    fn update_atime(&self, node: u64, inode: &InodeRef, flags: u32, open_mode: OpenMode) {
        let reads = flags & O_ACCMODE != O_WRONLY && flags & (O_NOATIME | O_DIRECT) == 0;
        if !reads || open_mode.direct || !self.nodes.may_be_cached(node) {
            return;
        }
        let changes = if self.may_lack_data(node) {
            ChangeTimes::Above
        } else {
            ChangeTimes::Here
        };
        // A failed update of the access time does not fail the open.
        if let Ok(Atime::Set) = self.filesystem.record_access(inode, changes) {
            self.forget_attributes(node);
        }
    }

    fn check_open(&self, inode: &InodeRef, flags: u32) -> Handled {
        if !writes(flags) && flags & O_TRUNC == 0 {
            return Ok(());
        }
        self.filesystem.check_writable()?;
        self.check_open_of_guarded(inode, flags)
    }

    fn truncate_opened(&self, request: &Request<'_>, inode: &InodeRef, flags: u32) -> Handled {
        let kill = flags & OPEN_KILL_SUIDGID != 0;
        let mode = if kill {
            self.mode_without_privileges(request, inode)
        } else {
            None
        };
        let set = SetAttr {
            size_bytes: Some(0),
            mode,
            ..SetAttr::default()
        };
        self.filesystem
            .set_attr(inode, &set, &self.caller(request))?;
        Ok(())
    }

    /// Puts `struct fuse_open_out` and notes the open file.
    fn put_opened(
        &self,
        node: u64,
        inode: &InodeRef,
        flags: u32,
        open_mode: OpenMode,
        reply: &mut Reply,
    ) {
        // Before the scarcity check, so that a later finder of scarcity sees the writer.
        self.nodes
            .open(node, inode, writer(flags, open_mode), rights(open_mode));
        if writes(flags) {
            if !open_mode.direct {
                self.nodes.mark_cached(node);
            }
            if self.gauge.is_scarce() {
                self.gauge.check_now(|| self.filesystem.free_space());
                // The kernel may hold old attributes with a long lifetime.
                self.forget_attributes(node);
            }
        }
        let cursor = self.filesystem.error_cursor(inode);
        reply.u64(self.opened.open(cursor, open_mode));
        let always = fopen::NOFLUSH | fopen::PARALLEL_DIRECT_WRITES;
        // Pages of a guarded file may hold what was refused.
        let keep = if self.is_guarded(inode) {
            0
        } else {
            fopen::KEEP_CACHE
        };
        let direct = if open_mode.direct {
            fopen::DIRECT_IO
        } else {
            0
        };
        reply.u32(always | keep | direct);
        reply.u32(0);
    }

    fn open_mode(&self, caller: &Caller, inode: &InodeRef, flags: u32) -> OpenMode {
        let direct = self.uses_direct_io(inode, flags);
        OpenMode {
            direct,
            writeback: writes(flags) && self.agreement.writeback() && !direct,
            writer: self.filesystem.writer(caller),
            only_writes: flags & (O_ACCMODE | O_APPEND) == O_WRONLY,
            write_only: flags & O_ACCMODE == O_WRONLY,
            only_appends: writes(flags) && self.only_appends(inode),
        }
    }

    /// Whether the file uses direct I/O (`FOPEN_DIRECT_IO`). Each write to an append-only file is
    /// checked. A file with `chattr +S`, which the
    /// kernel does not know, must not be written back late. With `strictatime` each read must reach
    /// the server, unless the file is also written: then the page cache owns its times.
    fn uses_direct_io(&self, inode: &InodeRef, flags: u32) -> bool {
        self.filesystem.attr(inode).flags & FLAG_SYNC != 0
            || (writes(flags) && self.only_appends(inode))
            || (self.agreement.can_mmap_direct()
                && !writes(flags)
                && self.filesystem.notes_every_read())
    }

    pub(super) fn create(&self, request: &Request<'_>, reply: &mut Reply) -> Handled {
        let mut args = request.args();
        let (flags, mode, umask, _) = (args.u32()?, args.u32()?, args.u32()?, args.u32()?);
        let name = args.name()?;
        let parent = self.get(request.node)?;
        let caller = self.maker(request, umask, &parent)?;
        let permissions = low_u16(mode & 0o7777);
        let inode = match self.filesystem.create(&parent, name, permissions, &caller) {
            Err(Error::Exists) if flags & O_EXCL == 0 => {
                let inode = self.filesystem.lookup(&parent, name, &caller)?;
                self.check_existing(request, &inode)?;
                self.check_open(&inode, flags)?;
                inode
            }
            made => made?,
        };
        self.put_created(&caller, inode, flags, reply)
    }

    pub(super) fn tmpfile(&self, request: &Request<'_>, reply: &mut Reply) -> Handled {
        let mut args = request.args();
        let (flags, mode, umask) = (args.u32()?, args.u32()?, args.u32()?);
        let parent = self.get(request.node)?;
        let permissions = low_u16(mode & 0o7777);
        let caller = self.maker(request, umask, &parent)?;
        let made = self.filesystem.tmpfile(&parent, permissions, &caller)?;
        self.put_created(&caller, made, flags, reply)
    }

    /// Adds the writer before the kernel sees the entry, so that the entry is answered with one.
    fn put_created(
        &self,
        caller: &Caller,
        inode: InodeRef,
        flags: u32,
        reply: &mut Reply,
    ) -> Handled {
        let attr = self.shown(&inode);
        let node = self.nodes.insert(&inode);
        let mut opened = Reply::new(16);
        let open_mode = self.open_mode(caller, &inode, flags);
        self.put_opened(node, &inode, flags, open_mode, &mut opened);
        crate::attributes::put_entry(reply, node, &attr, self.ttl(node, &inode));
        reply.put(opened.body());
        Ok(())
    }

    pub(super) fn release(&self, request: &Request<'_>) -> Handled {
        let mut args = request.args();
        let (handle, flags) = (args.u64()?, args.u32()?);
        self.opened.close(handle);
        let writer = writer(flags, OpenMode::of(handle));
        let closed = self
            .nodes
            .close(request.node, writer, rights(OpenMode::of(handle)));
        if let (Some(_), Some(inode)) = (writer, &closed.inode) {
            // A release cannot report an error; the next fsync does.
            let _told_by_fsync = self.filesystem.close(inode);
            if closed.writers == Has::None {
                // As ext4 does.
                self.filesystem.discard_preallocation(inode);
            }
        }
        Ok(())
    }
}
