//! File data: read, write, fallocate, seek, copy, fsync.

use super::guarded::Changes;
use super::{Handled, Server};
use crate::attributes::Writers;
use crate::errno::Errno;
use crate::opened::OpenMode;
use crate::protocol::{FSYNC_FDATASYNC, WRITE_CACHE, WRITE_KILL_SUIDGID, opcode};
use crate::reply::Reply;
use crate::request::Request;
use uext4::{
    ChangeTimes, DataSource, FallocateMode, FileType, Filesystem, InodeRef, KillPrivileges, Seek,
    Times, WriteContext,
};
use uext4_num::{clamp_u32, clamp_usize, u64_of, usize_of};

/// Smaller reads, in bytes, are cheaper through memory than through a pipe.
const IN_PLACE_BYTES_MIN: usize = 64 << 10;
/// Flags of `open(2)`.
pub(super) const O_DIRECT: u32 = rustix::fs::OFlags::DIRECT.bits();
pub(super) const O_NOATIME: u32 = rustix::fs::OFlags::NOATIME.bits();
/// `fallocate(2)` modes.
const FALLOC_KEEP_SIZE: u32 = 0x01;
const FALLOC_PUNCH_HOLE: u32 = 0x02;
const FALLOC_ZERO_RANGE: u32 = 0x10;
/// `lseek(2)` modes that reach a file system.
const SEEK_DATA: u32 = 3;
const SEEK_HOLE: u32 = 4;
/// Maximum bytes that one request copies inside the file system.
const COPY_BYTES_MAX: u64 = 16 << 20;
/// Bytes per copy step.
const COPY_STEP_BYTES: usize = 1 << 20;

impl Server {
    pub(super) fn read(&self, request: &Request<'_>, reply: &mut Reply) -> Handled {
        let mut args = request.args();
        let (handle, offset, size) = (args.u64()?, args.u64()?, args.u32()?);
        let (_, _, flags) = (args.u32()?, args.u64()?, args.u32()?);
        let size = usize_of(size.min(self.agreement.read_bytes_max()));
        let inode = self.get(request.node)?;
        let access = is_access(OpenMode::of(handle), flags) || self.fills_cache(request, flags);
        if size >= IN_PLACE_BYTES_MIN && reply.has_shortcut() {
            if access {
                self.filesystem.record_access(&inode, ChangeTimes::Here)?;
            }
            let is_sent = self
                .filesystem
                .read_in_place(&inode, offset, size, |ranges| {
                    reply.send(request.unique, ranges)
                })?;
            if is_sent {
                self.request_stats.count_zero_copy_read();
                return Ok(());
            }
        }
        let room = reply.room(size);
        let read = if access {
            self.filesystem.read(&inode, offset, room)?
        } else {
            self.filesystem.read_untouched(&inode, offset, room)?
        };
        reply.filled(read);
        Ok(())
    }

    /// Whether a `READ` brings the first pages of the node into the page cache. It then counts as
    /// the access, in place of the open. Later fills are ambiguous ([`is_access`]).
    fn fills_cache(&self, request: &Request<'_>, flags: u32) -> bool {
        flags & (O_NOATIME | O_DIRECT) == 0 && !self.nodes.mark_cached(request.node)
    }

    pub(super) fn write(&self, request: &Request<'_>, reply: &mut Reply) -> Handled {
        let mut args = request.args();
        let (handle, offset, size, flags) = (args.u64()?, args.u64()?, args.u32()?, args.u32()?);
        let (_owner, opened, _) = (args.u64()?, args.u32()?, args.u32()?);
        let data = args.bytes(usize_of(size))?;
        let inode = self.get(request.node)?;
        let written = if flags & WRITE_CACHE != 0 {
            match self.check_pages(request.node, &inode, offset, data)? {
                None => self.write_back(request.node, &inode, offset, data)?,
                Some(allowed) => {
                    self.write_back(request.node, &inode, offset, &allowed)?;
                    return Err(Errno::EPERM);
                }
            }
        } else {
            self.check_write(&inode, OpenMode::of(handle), opened, offset)?;
            // The kernel leaves times and capabilities of a direct-I/O file to the server.
            let open_mode = OpenMode::of(handle);
            let times = if open_mode.writeback {
                Times::Keep
            } else {
                Times::Change
            };
            if open_mode.direct {
                self.filesystem.kill_capabilities(&inode)?;
            }
            if flags & WRITE_KILL_SUIDGID != 0 {
                self.kill_privileges(request, &inode, times)?;
            }
            let context = self.context(request, times);
            let write = |at: u64, data: &[u8]| {
                let written = self.filesystem.write(&inode, at, data, &context)?;
                Ok(written.len_bytes)
            };
            match opened & O_DIRECT {
                0 => write(offset, data)?,
                _ => write_all(data, |done| write(offset + u64_of(done), &data[done..]))?,
            }
        };
        reply.u32(u32::try_from(written).map_err(|_| Errno::EIO)?);
        reply.u32(0);
        Ok(())
    }

    /// Time policy for forwarded data changes. With the write-back cache the kernel owns the times:
    /// it has set them already and sends them, or has reported them before.
    fn times_of_changes(&self) -> Times {
        if self.agreement.writeback() {
            Times::Keep
        } else {
            Times::Change
        }
    }

    /// A change that the kernel passes on: privileges are cleared separately.
    fn context(&self, request: &Request<'_>, times: Times) -> WriteContext {
        WriteContext {
            source: DataSource::Caller(self.caller(request)),
            privileges: KillPrivileges::No,
            times,
        }
    }

    /// Writeback of data that the kernel has already accepted.
    fn write_back(
        &self,
        node: u64,
        inode: &InodeRef,
        offset: u64,
        data: &[u8],
    ) -> Result<usize, Errno> {
        let context = WriteContext {
            source: DataSource::Writeback(self.nodes.writers_of(node)),
            privileges: KillPrivileges::No,
            times: self.times_of_changes(),
        };
        write_all(data, |done| {
            let (at, rest) = (offset + u64_of(done), &data[done..]);
            let written = self.filesystem.write(inode, at, rest, &context)?;
            Ok(written.len_bytes)
        })
    }

    pub(super) fn fallocate(&self, request: &Request<'_>) -> Handled {
        let mut args = request.args();
        let (_fh, offset, len, mode) = (args.u64()?, args.u64()?, args.u64()?, args.u32()?);
        let mode = fallocate_mode(mode).ok_or(Errno::EOPNOTSUPP)?;
        let inode = self.get(request.node)?;
        self.check_range(&inode, changes_of(mode))?;
        // The request does not say whether the caller may keep setuid, but the superuser usually
        // may. Setuid goes first, as in the kernel, even if no space is left.
        let times = if self.agreement.owns_fallocate_times() {
            Times::Keep
        } else {
            Times::Change
        };
        if !self.is_superuser(request) {
            self.kill_privileges(request, &inode, times)?;
        }
        // Kernels before Linux 5.19 leave this to the server.
        self.filesystem.kill_capabilities(&inode)?;
        let bytes = offset..offset.saturating_add(len);
        let context = self.context(request, times);
        self.filesystem.fallocate(&inode, mode, bytes, &context)?;
        Ok(())
    }

    /// Whether the page cache may hold dirty data of the node.
    pub(super) fn may_lack_data(&self, node: u64) -> bool {
        self.agreement.writeback() && self.nodes.writers(node) == Writers::Some
    }

    /// Dirty pages of the node were written back before (`fetch_data`).
    pub(super) fn lseek(&self, request: &Request<'_>, reply: &mut Reply) -> Handled {
        let (offset, what) = parse_seek(request)?;
        let inode = self.get(request.node)?;
        seek(&self.filesystem, &inode, offset, what, reply)
    }

    pub(super) fn copy_file_range(&self, request: &Request<'_>, reply: &mut Reply) -> Handled {
        let mut args = request.args();
        let (_fh_in, mut from_at) = (args.u64()?, args.u64()?);
        let (to_node, _fh_out, mut to_at) = (args.u64()?, args.u64()?, args.u64()?);
        let (len, flags) = (args.u64()?, args.u64()?);
        if flags != 0 {
            return Err(Errno::EINVAL);
        }
        let (from, to) = (self.get(request.node)?, self.get(to_node)?);
        self.check_range(&to, Changes::Bytes)?;
        let mut left = len.min(COPY_BYTES_MAX);
        let mut copied = 0u32;
        let times = self.times_of_changes();
        let context = self.context(request, times);
        let mut buf = vec![0; COPY_STEP_BYTES.min(clamp_usize(left))];
        while left > 0 {
            let step = buf.len().min(clamp_usize(left));
            let read = self.filesystem.read(&from, from_at, &mut buf[..step])?;
            if read == 0 {
                break;
            }
            let written = match self.filesystem.write(&to, to_at, &buf[..read], &context) {
                Err(_) if copied > 0 => break,
                written => written?.len_bytes,
            };
            (from_at, to_at) = (from_at + u64_of(written), to_at + u64_of(written));
            left -= u64_of(written);
            copied += clamp_u32(written);
            if written < read {
                break;
            }
        }
        if !self.is_superuser(request) {
            self.kill_privileges(request, &to, times)?;
        }
        // Kernels before Linux 6.1 leave this to the server.
        self.filesystem.kill_capabilities(&to)?;
        reply.u32(copied);
        reply.u32(0);
        Ok(())
    }

    pub(super) fn fsync(&self, request: &Request<'_>) -> Handled {
        let mut args = request.args();
        let handle = args.u64()?;
        let data_only = args.u32()? & FSYNC_FDATASYNC != 0;
        let inode = self.get(request.node)?;
        let cursor = self.opened.cursor(handle);
        let space = || self.filesystem.attr(&inode).sectors;
        let before = space();
        let synced = if data_only {
            self.filesystem.fdatasync_open(&inode, &cursor)
        } else {
            self.filesystem.fsync_open(&inode, &cursor)
        };
        if space() != before {
            // Allocated map blocks change the block count that the kernel shows.
            self.forget_attributes(request.node);
        }
        self.opened.keep(handle, cursor);
        Ok(synced?)
    }

    pub(super) fn readlink(&self, request: &Request<'_>, reply: &mut Reply) -> Handled {
        let inode = self.get(request.node)?;
        reply.put(&self.filesystem.read_link(&inode)?);
        Ok(())
    }
}

/// Writes all of `data` or fails. The kernel takes a short reply to a writeback for a full one,
/// and a short direct write for an I/O error, after which it truncates to the old size. `write`
/// writes from a byte offset in `data` on.
fn write_all(data: &[u8], write: impl Fn(usize) -> Result<usize, Errno>) -> Result<usize, Errno> {
    let mut done = 0;
    while done < data.len() {
        match write(done)? {
            0 => return Err(Errno::EIO),
            written => done += written,
        }
    }
    Ok(done)
}

/// Whether a `READ` is an access by itself. Cache fills are not: they may be read-ahead, the rest
/// of a partially written page, or later than an explicit change of the time.
fn is_access(open_mode: OpenMode, flags: u32) -> bool {
    flags & O_NOATIME == 0 && (open_mode.direct || flags & O_DIRECT != 0)
}

/// Length of a `READ` or `WRITE`, in bytes.
pub(super) fn len_bytes(request: &Request<'_>) -> u32 {
    let mut args = request.args();
    args.skip(16).and_then(|()| args.u32()).unwrap_or(0)
}

/// Whether a `READ` or `WRITE` is direct I/O, so that its caller waits.
pub(super) fn is_direct(request: &Request<'_>) -> bool {
    let mut args = request.args();
    let opened = args.skip(32).and_then(|()| args.u32());
    opened.is_ok_and(|opened| opened & O_DIRECT != 0)
}

/// Destination node of `COPY_FILE_RANGE`.
pub(super) fn copy_target(request: &Request<'_>) -> Result<u64, Errno> {
    let mut args = request.args();
    args.skip(16)?;
    args.u64()
}

fn parse_seek(request: &Request<'_>) -> Result<(u64, Seek), Errno> {
    debug_assert_eq!(request.opcode, opcode::LSEEK);
    let mut args = request.args();
    let (_fh, offset, whence) = (args.u64()?, args.u64()?, args.u32()?);
    match whence {
        SEEK_DATA => Ok((offset, Seek::Data)),
        SEEK_HOLE => Ok((offset, Seek::Hole)),
        _ => Err(Errno::EINVAL),
    }
}

fn seek(
    filesystem: &Filesystem,
    inode: &InodeRef,
    offset: u64,
    what: Seek,
    reply: &mut Reply,
) -> Handled {
    if inode.kind() != FileType::Regular {
        return Err(Errno::EINVAL);
    }
    reply.u64(filesystem.seek(inode, offset, what)?);
    Ok(())
}

fn changes_of(mode: FallocateMode) -> Changes {
    match mode {
        FallocateMode::Allocate | FallocateMode::AllocateKeepSize => Changes::Space,
        _ => Changes::Bytes,
    }
}

fn fallocate_mode(mode: u32) -> Option<FallocateMode> {
    const PUNCH: u32 = FALLOC_PUNCH_HOLE | FALLOC_KEEP_SIZE;
    const ZERO_KEEP: u32 = FALLOC_ZERO_RANGE | FALLOC_KEEP_SIZE;
    match mode {
        0 => Some(FallocateMode::Allocate),
        FALLOC_KEEP_SIZE => Some(FallocateMode::AllocateKeepSize),
        PUNCH => Some(FallocateMode::PunchHole),
        FALLOC_ZERO_RANGE => Some(FallocateMode::ZeroRange),
        ZERO_KEEP => Some(FallocateMode::ZeroRangeKeepSize),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_fallocate_modes_are_not_supported() {
        assert_eq!(fallocate_mode(PUNCH_KEEP), Some(FallocateMode::PunchHole));
        // Collapse, insert, unshare, punch that changes the size.
        for mode in [0x08, 0x20, 0x40, 0x02, 0x03 | 0x10] {
            assert_eq!(fallocate_mode(mode), None, "{mode:#x}");
        }
    }

    const PUNCH_KEEP: u32 = 3;
}
