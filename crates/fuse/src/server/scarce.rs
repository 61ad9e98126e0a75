//! Room that runs short while the kernel holds written data back.
//!
//! While there is plenty of room (`room`) the kernel says "done" to writers by itself. When it
//! is scarce, they are asked back: with attributes that have no life a `write` first sends
//! `GETATTR` with its handle, which no `stat` does. What the kernel holds of the file is fetched
//! then, and when some of it found no room, that is the answer, and so that of the `write`. So no
//! more than one `write` is told "done" in vain, and the next, or `close`, tells it. The request
//! says neither where the `write` goes nor how long it is; when no room is left at all that does
//! not matter for a file that has none of its own, and the answer is that there is none.
//!
//! Not here: files that the kernel writes through (`FOPEN_DIRECT_IO`). It would tell every `write`,
//! but with the write-back cache the kernel owns their times and does not move them then.
//!
//! Reading past the end and seeking to it, in a file open for writing, ask the same way, and hear
//! of what was lost, once. That no room is left hear only those who have no reason to do either.

use super::{Handled, Server};
use crate::attributes::Writers as Has;
use crate::bdi::Bdi;
use crate::errno::Errno;
use crate::opened::Manner;
use crate::protocol::{GETATTR_HANDLE, WRITE_CACHE, opcode};
use crate::request::Request;
use crate::room::MORE_PERCENT;
use std::time::Duration;
use uext4::InodeRef;

impl Server {
    /// Lets the kernel hold back more than by itself, where there is room for much more.
    pub(crate) fn let_hold_back(&self, bdi: &Bdi) {
        if self.gauge.is_roomy(self.filesystem.room()) && bdi.hold_back(MORE_PERCENT).is_ok() {
            self.gauge.expect_more();
        }
    }

    /// The handle of a file whose data the kernel holds back, when `GETATTR` comes from a call that
    /// may write to it.
    fn asking_handle(request: &Request<'_>) -> Option<Manner> {
        let mut args = request.args();
        let (flags, _, handle) = (args.u32().ok()?, args.u32().ok()?, args.u64().ok()?);
        let manner = Manner::of(handle);
        (flags & GETATTR_HANDLE != 0 && manner.later).then_some(manner)
    }

    /// Whether `GETATTR` is to bring what the kernel holds of the file.
    pub(super) fn asks_for_room(&self, request: &Request<'_>) -> bool {
        self.gauge.is_scarce()
            && Self::asking_handle(request).is_some_and(|it| self.gauge.is_scarce_for(it.by))
    }

    /// Tells a writer that what it wrote before found no room, or that what it is about to write
    /// will find none.
    pub(super) fn tell_writer(&self, request: &Request<'_>, inode: &InodeRef) -> Handled {
        let Some(manner) = Self::asking_handle(request) else {
            return Ok(());
        };
        if let Some(why) = self.nodes.take_lost(request.node) {
            return Err(why);
        }
        match manner.only_writes && self.gauge.is_scarce_for(manner.by) {
            true => Ok(self.filesystem.check_room(inode, manner.by)?),
            false => Ok(()),
        }
    }

    /// How long the kernel may keep attributes of the node.
    pub(super) fn ttl(&self, node: u64) -> Duration {
        match self.gauge.is_scarce() && self.nodes.writers(node) == Has::Some {
            true => Duration::ZERO,
            false => self.nodes.ttl(node),
        }
    }

    /// Notes what was written, and what was not.
    pub(super) fn note_written(&self, request: &Request<'_>, done: Handled) {
        // Writing may have stopped with it: then there is no room for anything.
        let stops = matches!(done, Err(Errno::EIO | Errno::EROFS | Errno::EUCLEAN));
        let (bytes, held) = match request.opcode {
            opcode::WRITE => written(request).unwrap_or_default(),
            _ if stops => (u64::MAX, false),
            // So many that it is time to look.
            opcode::FALLOCATE | opcode::COPY_FILE_RANGE => (u64::MAX, false),
            _ => return,
        };
        if let (true, Err(why @ (Errno::ENOSPC | Errno::EDQUOT | Errno::EROFS))) = (held, done) {
            self.nodes.note_lost(request.node, why);
            self.forget_attributes(request.node);
        }
        let bytes = if stops { u64::MAX } else { bytes };
        if self.gauge.note(bytes, || self.filesystem.room()) {
            for node in self.nodes.with_writers() {
                self.forget_attributes(node);
            }
        }
    }
}

/// How many bytes a `WRITE` brings, and whether its writer was told "done" before.
fn written(request: &Request<'_>) -> Result<(u64, bool), Errno> {
    let mut args = request.args();
    args.skip(16)?;
    let (bytes, flags) = (args.u32()?, args.u32()?);
    Ok((bytes.into(), flags & WRITE_CACHE != 0))
}
