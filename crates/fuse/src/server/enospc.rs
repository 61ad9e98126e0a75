//! ENOSPC reporting under the write-back cache.
//!
//! While space is plentiful (`free_space`), the kernel completes a `write` in its page cache. When
//! space is scarce, attributes get a lifetime of 0, so a `write` first sends `GETATTR` with its
//! handle (`stat` sends none). The server then makes the kernel write the dirty pages of the file
//! back, and replies with their error. At most one `write` succeeds in vain; the next `write` or
//! `close` reports it.
//!
//! For example, 40 KiB are free, and a program writes 64 KiB twice. The first `write` ends in the
//! page cache. The `GETATTR` of the second one fetches these pages, their `WRITE` fails, and the
//! second `write` returns `ENOSPC`. With a longer lifetime of the attributes, the program would
//! fill the page cache without an error until `fsync` or `close`.
//!
//! `GETATTR` carries neither offset nor length of the `write`. With no space left, a file without
//! blocks and pending data gets ENOSPC whatever they are.
//!
//! Not here: write-through files (`FOPEN_DIRECT_IO`). They would report every `write`, but with the
//! write-back cache the kernel owns their times and would not update them.
//!
//! Reads and seeks past the end of a file open for writing send the same `GETATTR` and also get the
//! error, once. ENOSPC in advance goes to write-only handles, which do neither.

use super::{Handled, Server};
use crate::attributes::{TTL, TTL_WRITERS, Writers as Has};
use crate::bdi::Bdi;
use crate::errno::Errno;
use crate::free_space::MORE_PERCENT;
use crate::opened::OpenMode;
use crate::protocol::{GETATTR_HANDLE, WRITE_CACHE, opcode};
use crate::request::Request;
use std::time::Duration;
use uext4::InodeRef;

impl Server {
    /// Raises the kernel's dirty-page limit of this mount while much more space is free.
    pub(crate) fn raise_dirty_limit(&self, bdi: &Bdi) {
        if self.gauge.is_roomy(self.filesystem.free_space())
            && bdi.set_max_ratio(MORE_PERCENT).is_ok()
        {
            self.gauge.assume_larger_limit();
        }
    }

    /// Handle of a file with write-back caching, if `GETATTR` comes from a call that may write.
    fn asking_handle(request: &Request<'_>) -> Option<OpenMode> {
        let mut args = request.args();
        let (flags, _, handle) = (args.u32().ok()?, args.u32().ok()?, args.u64().ok()?);
        let open_mode = OpenMode::of(handle);
        (flags & GETATTR_HANDLE != 0 && open_mode.writeback).then_some(open_mode)
    }

    /// Whether `GETATTR` must trigger writeback of the file.
    pub(super) fn asks_for_room(&self, request: &Request<'_>) -> bool {
        self.gauge.is_scarce()
            && Self::asking_handle(request).is_some_and(|it| self.gauge.is_scarce_for(it.writer))
    }

    /// Reports lost writes to a writer, or that the next write finds no space.
    pub(super) fn check_writer(&self, request: &Request<'_>, inode: &InodeRef) -> Handled {
        let Some(open_mode) = Self::asking_handle(request) else {
            return Ok(());
        };
        if let Some(why) = self.nodes.take_lost(request.node) {
            return Err(why);
        }
        if open_mode.write_only && self.refuses_writes(inode) {
            return Err(Errno::EPERM);
        }
        if open_mode.only_writes && self.gauge.is_scarce_for(open_mode.writer) {
            Ok(self.filesystem.check_room(inode, open_mode.writer)?)
        } else {
            Ok(())
        }
    }

    /// Lifetime of the node's attributes in the kernel.
    pub(super) fn ttl(&self, node: u64, inode: &InodeRef) -> Duration {
        match self.nodes.writers(node) {
            Has::Some if self.gauge.is_scarce() || self.refuses_writes(inode) => Duration::ZERO,
            Has::Some => TTL_WRITERS,
            Has::None if inode.has_delayed() => TTL_WRITERS,
            Has::None => TTL,
        }
    }

    /// Records written bytes and lost writebacks.
    ///
    /// The gauge changes before the writers are listed, and an open counts its writer before it
    /// reads the gauge, so at least one sees the other. For example, in the other order thread A
    /// opens a file and finds much space, thread B lists no writer of it, and A counts its writer:
    /// attributes that the kernel has would stay valid for up to [`TTL`], and no `write` would ask.
    pub(super) fn account_written(&self, request: &Request<'_>, done: Handled) {
        // The file system may have become read-only: it has no space for anything then.
        let stops = matches!(done, Err(Errno::EIO | Errno::EROFS | Errno::EUCLEAN));
        let (bytes, held) = match request.opcode {
            opcode::WRITE => written(request).unwrap_or_default(),
            _ if stops => (u64::MAX, false),
            // An unknown amount: forces a check of the free space.
            opcode::FALLOCATE | opcode::COPY_FILE_RANGE => (u64::MAX, false),
            _ => return,
        };
        if let (true, Err(why)) = (held, done)
            && matches!(
                why,
                Errno::ENOSPC | Errno::EDQUOT | Errno::EROFS | Errno::EPERM
            )
        {
            self.nodes.record_lost(request.node, why);
            self.forget_attributes(request.node);
        }
        let bytes = if stops { u64::MAX } else { bytes };
        if self
            .gauge
            .count_written(bytes, || self.filesystem.free_space())
        {
            for node in self.nodes.with_writers() {
                self.forget_attributes(node);
            }
        }
    }
}

/// Length of a `WRITE` in bytes, and whether it is writeback of accepted data.
fn written(request: &Request<'_>) -> Result<(u64, bool), Errno> {
    let mut args = request.args();
    args.skip(16)?;
    let (bytes, flags) = (args.u32()?, args.u32()?);
    Ok((bytes.into(), flags & WRITE_CACHE != 0))
}
