//! Opening and closing files.
//!
//! The kernel does not know of immutable and append-only files, so opening asks us. `O_TRUNC` comes
//! with the request.
//!
//! Access times: the kernel reads from its cache without a request. While it has no page of a file,
//! the read that brings the first one is the access that is noted; from then on opening the file to
//! be read is. Where files go past the cache each read is one.

use super::data::{O_DIRECT, O_NOATIME};
use super::{Handled, Server};
use crate::answer::Answer;
use crate::attributes::Writers as Has;
use crate::errno::Errno;
use crate::opened::Manner;
use crate::protocol::{OPEN_KILL_SUIDGID, fopen};
use crate::request::Request;
use uext4::{Atime, ChangeTimes, Error, InodeRef, SetAttr};

/// `O_*` of `open(2)` that matter here.
const O_ACCMODE: u32 = 0o3;
const O_WRONLY: u32 = 0o1;
const O_EXCL: u32 = 0o200;
const O_TRUNC: u32 = 0o1000;
const O_APPEND: u32 = 0o2000;
/// Inode flags (`FS_*_FL`).
const FLAG_SYNC: u32 = 0x8;
const FLAG_IMMUTABLE: u32 = 0x10;
const FLAG_APPEND: u32 = 0x20;

/// True when a file opened so can be written.
fn writes(flags: u32) -> bool {
    flags & O_ACCMODE != 0
}

impl Server {
    pub(super) fn open(&self, request: &Request<'_>, answer: &mut Answer) -> Handled {
        let mut args = request.args();
        let (flags, open_flags) = (args.u32()?, args.u32()?);
        let inode = self.get(request.node)?;
        self.check_open(&inode, flags)?;
        if flags & O_TRUNC != 0 {
            self.truncate_opened(request, &inode, open_flags)?;
        }
        let manner = self.manner(request, &inode, flags);
        self.note_opening(request.node, &inode, flags, manner);
        self.put_opened(request.node, &inode, flags, manner, answer);
        Ok(())
    }

    /// Every listing comes to us. The kernel could keep them, but one that it began to keep before
    /// a name came or went may end another that began later.
    pub(super) fn opendir(answer: &mut Answer) -> Handled {
        answer.zeroes(16);
        Ok(())
    }

    fn note_opening(&self, node: u64, inode: &InodeRef, flags: u32, manner: Manner) {
        let reads = flags & O_ACCMODE != O_WRONLY && flags & (O_NOATIME | O_DIRECT) == 0;
        if !reads || manner.past_cache || !self.nodes.may_be_cached(node) {
            return;
        }
        let changes = match self.may_lack_data(node) {
            true => ChangeTimes::Above,
            false => ChangeTimes::Here,
        };
        // A file whose access cannot be noted is opened all the same.
        if let Ok(Atime::Set) = self.filesystem.note_access(inode, changes) {
            self.forget_attributes(node);
        }
    }

    fn check_open(&self, inode: &InodeRef, flags: u32) -> Handled {
        if !writes(flags) && flags & O_TRUNC == 0 {
            return Ok(());
        }
        self.filesystem.check_writable()?;
        let fixed = self.filesystem.attr(inode).flags;
        let only_appends = flags & O_APPEND != 0 && flags & O_TRUNC == 0;
        if fixed & FLAG_IMMUTABLE != 0 || (fixed & FLAG_APPEND != 0 && !only_appends) {
            return Err(Errno::EPERM);
        }
        Ok(())
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
            .set_attr(inode, &set, &self.asker(request))?;
        Ok(())
    }

    /// Puts `struct fuse_open_out` and notes a writer.
    fn put_opened(
        &self,
        node: u64,
        inode: &InodeRef,
        flags: u32,
        manner: Manner,
        answer: &mut Answer,
    ) {
        if writes(flags) {
            // Before looking whether room is scarce: who finds out afterwards sees the writer.
            self.nodes.add_writer(node, manner.by);
            if !manner.past_cache {
                self.nodes.note_cached(node);
            }
            if self.gauge.is_scarce() {
                self.gauge.look(|| self.filesystem.room());
                // It may have attributes of an earlier day, and is to ask.
                self.forget_attributes(node);
            }
        }
        let cursor = self.filesystem.error_cursor(inode);
        answer.u64(self.opened.open(cursor, manner));
        let always = fopen::NOFLUSH | fopen::PARALLEL_DIRECT_WRITES | fopen::KEEP_CACHE;
        answer.u32(
            always
                | if manner.past_cache {
                    fopen::DIRECT_IO
                } else {
                    0
                },
        );
        answer.u32(0);
    }

    fn manner(&self, request: &Request<'_>, inode: &InodeRef, flags: u32) -> Manner {
        let past_cache = self.goes_past_cache(inode, flags);
        Manner {
            past_cache,
            later: writes(flags) && self.agreement.writeback() && !past_cache,
            by: self.filesystem.writer(&self.asker(request)),
            only_writes: flags & (O_ACCMODE | O_APPEND) == O_WRONLY,
        }
    }

    /// Whether the kernel is to leave its cache alone for an open file: data of one with `chattr
    /// +S`, which it does not know, it must not hold back, and with `strictatime` each read has to
    /// come to us. What is also written to goes through the cache then, which owns its times.
    fn goes_past_cache(&self, inode: &InodeRef, flags: u32) -> bool {
        let strict = || !writes(flags) && self.filesystem.notes_every_read();
        self.filesystem.attr(inode).flags & FLAG_SYNC != 0
            || (self.agreement.maps_past_cache() && strict())
    }

    pub(super) fn create(&self, request: &Request<'_>, answer: &mut Answer) -> Handled {
        let mut args = request.args();
        let (flags, mode, umask, _) = (args.u32()?, args.u32()?, args.u32()?, args.u32()?);
        let name = args.name()?;
        let parent = self.get(request.node)?;
        let caller = self.maker(request, umask, &parent)?;
        let permissions = (mode & 0o7777) as u16;
        let inode = match self.filesystem.create(&parent, name, permissions, &caller) {
            Err(Error::Exists) if flags & O_EXCL == 0 => {
                let inode = self.filesystem.lookup(&parent, name, &caller)?;
                self.check_open(&inode, flags)?;
                inode
            }
            made => made?,
        };
        self.put_created(request, inode, flags, answer)
    }

    pub(super) fn tmpfile(&self, request: &Request<'_>, answer: &mut Answer) -> Handled {
        let mut args = request.args();
        let (flags, mode, umask) = (args.u32()?, args.u32()?, args.u32()?);
        let parent = self.get(request.node)?;
        let permissions = (mode & 0o7777) as u16;
        let caller = self.maker(request, umask, &parent)?;
        let made = self.filesystem.tmpfile(&parent, permissions, &caller)?;
        self.put_created(request, made, flags, answer)
    }

    /// The entry is answered as one with writers: it has them before the kernel sees it.
    fn put_created(
        &self,
        request: &Request<'_>,
        inode: InodeRef,
        flags: u32,
        answer: &mut Answer,
    ) -> Handled {
        let attr = self.shown(&inode);
        let node = self.nodes.insert(inode.clone());
        let mut opened = Answer::new(16);
        let manner = self.manner(request, &inode, flags);
        self.put_opened(node, &inode, flags, manner, &mut opened);
        crate::attributes::put_entry(answer, node, &attr, self.ttl(node));
        answer.put(opened.body());
        Ok(())
    }

    /// As ext4 does when the last writer closes a file.
    fn let_go_of_space(&self, node: u64) {
        if self.nodes.writers(node) == Has::None
            && let Ok(inode) = self.get(node)
        {
            self.filesystem.discard_preallocation(&inode);
        }
    }

    pub(super) fn release(&self, request: &Request<'_>) -> Handled {
        let mut args = request.args();
        let (handle, flags) = (args.u64()?, args.u32()?);
        self.opened.close(handle);
        if writes(flags) {
            self.nodes.drop_writer(request.node, Manner::of(handle).by);
            let inode = self.get(request.node)?;
            // Nobody hears an error of a release; the next fsync tells it.
            let _told_by_fsync = self.filesystem.close(&inode);
            self.let_go_of_space(request.node);
        }
        Ok(())
    }
}
