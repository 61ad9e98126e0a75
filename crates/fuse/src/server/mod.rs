//! Dispatch of FUSE requests to operations of the library; one file per family.
//!
//! Invariants: the kernel checks permissions, sticky directories and ACLs (`default_permissions`,
//! always on), so every caller here is [`uext4::Checks::Done`]. A request names its node, whose
//! inode is in use while the kernel knows it (`nodes`); a file handle only carries the error cursor
//! and the way the file was opened.
//! Locking: none here; operations run in parallel on all threads.
//! References: `linux/fuse.h`.

mod attrs;
mod bmap;
mod commands;
mod control;
mod credentials;
mod data;
mod dirs;
mod enospc;
mod freeze;
mod guarded;
mod names;
mod open;
mod outcome;
mod xattrs;

pub(crate) use outcome::{Outcome, RequestClass};

use crate::errno::Errno;
use crate::free_space::Gauge;
use crate::freeze_gate::{self, FreezeGate};
use crate::init::Agreement;
use crate::nodes::{NodeCounts, Nodes, inode_of};
use crate::opened::Opened;
use crate::owners::Owners;
use crate::privileged::Privileged;
use crate::protocol::{NOTIFY_INVAL_INODE, opcode};
use crate::reply::Reply;
use crate::request::Request;
use crate::request_stats::RequestStats;
use crate::transport::DevFuse;
use outcome::Handled;
use uext4::device::Claimant;
use uext4::{Filesystem, InodeRef};
use uext4_sync::{Arc, FreezeBarrier, OnceLock, Pass, thread};

/// Serves one mounted file system.
pub(crate) struct Server {
    filesystem: Filesystem,
    nodes: Nodes,
    opened: Opened,
    agreement: Agreement,
    /// The connection, for notifications to the kernel.
    kernel: Arc<DevFuse>,
    privileged: Privileged,
    request_stats: RequestStats,
    freeze_gate: FreezeGate,
    owners: Owners,
    /// Threads that make the kernel send dirty pages; closed before the process exits.
    fetches: FreezeBarrier,
    /// Result of closing the image.
    closed: OnceLock<uext4::Result<()>>,
    gauge: Gauge,
}

/// Larger transfers, in bytes, are [`RequestClass::Bulk`] or [`RequestClass::Awaited`].
const SOON_BYTES_MAX: u32 = 64 << 10;

impl Server {
    /// A server for `filesystem` with the negotiated `agreement`.
    pub(crate) fn new(
        filesystem: Filesystem,
        agreement: Agreement,
        (kernel, privileged): (Arc<DevFuse>, Privileged),
        owners: Owners,
    ) -> Self {
        let gauge = if agreement.writeback() {
            Gauge::new()
        } else {
            Gauge::idle()
        };
        gauge.check_now(|| filesystem.free_space());
        Self {
            filesystem,
            nodes: Nodes::new(),
            opened: Opened::new(),
            agreement,
            kernel,
            privileged,
            request_stats: RequestStats::new(),
            freeze_gate: FreezeGate::default(),
            owners,
            fetches: FreezeBarrier::default(),
            closed: OnceLock::new(),
            gauge,
        }
    }

    /// Admits `request` through the freeze barrier and returns its class. The caller holds the pass
    /// while it serves a change.
    pub(crate) fn admit(&self, request: &Request<'_>) -> (RequestClass, Option<Pass<'_>>) {
        if !freeze_gate::changes(request) {
            return (self.class(request), None);
        }
        match self.freeze_gate.admit() {
            None => (RequestClass::Frozen, None),
            pass => (self.class(request), pass),
        }
    }

    /// Number of the connection to the kernel, which is that of the mount's device.
    pub(crate) fn connection(&self) -> Option<u64> {
        self.privileged.connection()
    }

    pub(crate) fn freeze_gate(&self) -> &FreezeGate {
        &self.freeze_gate
    }

    fn class(&self, request: &Request<'_>) -> RequestClass {
        match request.opcode {
            opcode::FSYNC | opcode::FSYNCDIR | opcode::SYNCFS | opcode::DESTROY => {
                RequestClass::Waits
            }
            opcode::COPY_FILE_RANGE => RequestClass::Bulk,
            opcode::IOCTL if self.guards_data(request) => RequestClass::NeedsWriteback,
            opcode::IOCTL if control::is_long(request) => RequestClass::Waits,
            opcode::READ | opcode::WRITE if data::len_bytes(request) > SOON_BYTES_MAX => {
                if data::is_direct(request) {
                    RequestClass::Awaited
                } else {
                    RequestClass::Bulk
                }
            }
            opcode::LSEEK if self.may_lack_data(request.node) => RequestClass::NeedsWriteback,
            opcode::BMAP if self.bmap_lacks_data(request) => RequestClass::NeedsWriteback,
            opcode::GETATTR if self.asks_for_room(request) => RequestClass::WantsWriteback,
            _ => RequestClass::Soon,
        }
    }

    /// Fetches the dirty pages that a request of class `class` needs, before it is admitted.
    ///
    /// The pages come as `WRITE` requests, which a closed barrier parks. A thread that held a pass
    /// here would wait for the barrier to open, and closing the barrier waits for that pass.
    pub(crate) fn fetch_for(&self, request: &Request<'_>, class: RequestClass) {
        if matches!(
            class,
            RequestClass::NeedsWriteback | RequestClass::WantsWriteback
        ) && let Some(_pass) = self.fetches.try_enter()
        {
            self.fetch_data(request.node);
        }
    }

    /// Waits until no thread fetches dirty pages, and lets none begin. A process that exits leaves
    /// such a thread in the kernel, where it waits for requests that nothing serves any more and
    /// keeps the connection open.
    pub(crate) fn end_fetches(&self) {
        self.fetches.close();
    }

    /// Serves an admitted request and puts the body into `reply`.
    pub(crate) fn handle(&self, request: &Request<'_>, reply: &mut Reply) -> Outcome {
        match request.opcode {
            opcode::FORGET | opcode::BATCH_FORGET => {
                let _unanswered = self.count(request, reply);
                Outcome::Silent
            }
            _ => {
                let privileged = self.privileged_target(request);
                let done = self.count(request, reply);
                self.account_written(request, done);
                if let Some(node) = privileged {
                    self.forget_attributes(node);
                }
                Outcome::Reply(done)
            }
        }
    }

    fn count(&self, request: &Request<'_>, reply: &mut Reply) -> Handled {
        self.request_stats
            .count(request.opcode, || self.reply(request, reply))
    }

    /// The setuid or setgid node whose data `request` changes; the change may clear these bits. The
    /// kernel does not expect that, so its cached mode must be invalidated.
    fn privileged_target(&self, request: &Request<'_>) -> Option<u64> {
        let node = match request.opcode {
            opcode::WRITE | opcode::OPEN | opcode::FALLOCATE => request.node,
            opcode::COPY_FILE_RANGE => data::copy_target(request).ok()?,
            _ => return None,
        };
        let mode = self.filesystem.attr(&self.get(node).ok()?).mode;
        (mode & 0o6000 != 0).then_some(node)
    }

    fn reply(&self, request: &Request<'_>, reply: &mut Reply) -> Handled {
        self.check_known(request)?;
        match request.opcode {
            opcode::FORGET => self.forget(request),
            opcode::BATCH_FORGET => self.batch_forget(request),
            opcode::LOOKUP => self.lookup(request, reply),
            opcode::GETATTR => self.getattr(request, reply),
            opcode::SETATTR => self.setattr(request, reply),
            opcode::STATX => self.statx(request, reply),
            opcode::READLINK => self.readlink(request, reply),
            opcode::SYMLINK => self.symlink(request, reply),
            opcode::MKNOD => self.mknod(request, reply),
            opcode::MKDIR => self.mkdir(request, reply),
            opcode::UNLINK => self.unlink(request),
            opcode::RMDIR => self.rmdir(request),
            opcode::RENAME => self.rename(request),
            opcode::RENAME2 => self.rename2(request),
            opcode::LINK => self.link(request, reply),
            opcode::OPEN => self.open(request, reply),
            opcode::OPENDIR => Self::opendir(reply),
            opcode::CREATE => self.create(request, reply),
            opcode::TMPFILE => self.tmpfile(request, reply),
            opcode::RELEASE => self.release(request),
            opcode::READ => self.read(request, reply),
            opcode::WRITE => self.write(request, reply),
            opcode::FALLOCATE => self.fallocate(request),
            opcode::LSEEK => self.lseek(request, reply),
            opcode::COPY_FILE_RANGE => self.copy_file_range(request, reply),
            opcode::FSYNC | opcode::FSYNCDIR => self.fsync(request),
            opcode::SYNCFS => Ok(self.filesystem.sync()?),
            opcode::READDIR => self.readdir(request, reply),
            opcode::READDIRPLUS => self.readdirplus(request, reply),
            opcode::STATFS => self.statfs(request, reply),
            opcode::SETXATTR => self.setxattr(request),
            opcode::GETXATTR => self.getxattr(request, reply),
            opcode::LISTXATTR => self.listxattr(request, reply),
            opcode::REMOVEXATTR => self.removexattr(request),
            opcode::ACCESS => self.get(request.node).map(|_| ()),
            opcode::IOCTL => self.ioctl(request, reply),
            opcode::BMAP => self.bmap(request, reply),
            opcode::DESTROY => self.destroy(),
            // FLUSH, POLL, INTERRUPT and newer opcodes: after ENOSYS the kernel no longer sends
            // them, and the server needs none of the three.
            _ => Err(Errno::ENOSYS),
        }
    }

    /// Counters of the served requests.
    pub(crate) fn request_stats(&self) -> &RequestStats {
        &self.request_stats
    }

    pub(crate) fn filesystem(&self) -> &Filesystem {
        &self.filesystem
    }

    /// Inode of a node that the kernel knows.
    fn get(&self, node: u64) -> Result<InodeRef, Errno> {
        self.nodes.check_kept()?;
        Ok(self.filesystem.known_inode(inode_of(node)?)?)
    }

    /// Inode of a node, or of an inode number from an NFS handle.
    fn get_any(&self, node: u64) -> Result<InodeRef, Errno> {
        self.nodes.check_kept()?;
        Ok(self.filesystem.inode(inode_of(node)?)?)
    }

    /// As [`Self::get_any`], unless the inode has no name: its `FORGET` is on the way, since the
    /// kernel asks for no inode that it has.
    fn get_named(&self, node: u64) -> Result<InodeRef, Errno> {
        let inode = self.get_any(node)?;
        if inode.is_nameless() {
            Err(Errno::ESTALE)
        } else {
            Ok(inode)
        }
    }

    pub(crate) fn node_counts(&self) -> NodeCounts {
        self.nodes.counts()
    }

    /// Drops all nodes and unmounts the file system. Later calls return the result of the first.
    ///
    /// # Errors
    /// As [`Filesystem::unmount`].
    pub(crate) fn close(&self) -> uext4::Result<()> {
        self.closed
            .get_or_init(|| {
                self.nodes.clear();
                self.filesystem.unmount()
            })
            .clone()
    }

    /// The kernel releases the block device when this is answered; the server releases its claim
    /// too.
    fn destroy(&self) -> Handled {
        self.close()?;
        Ok(self.filesystem.claim_device_for(Claimant::None)?)
    }

    /// Invalidates the kernel's attributes of `node`.
    fn forget_attributes(&self, node: u64) {
        // Offset below 0: no data.
        self.invalidate(node, u64::MAX);
    }

    /// Makes the kernel write back and drop the pages of `node`. The data come as requests to other
    /// threads. The kernel reports its own writeback errors.
    ///
    /// A killed thread ends only after this wait, which the other threads can then not end. So a
    /// thread of its own waits, without what tells the keeper that the server lives.
    fn fetch_data(&self, node: u64) {
        thread::scope(|scope| {
            let name = "uext4-fetch".to_owned();
            let begun = thread::Builder::new().name(name).spawn_scoped(scope, || {
                self.privileged.leave();
                self.invalidate(node, 0);
            });
            if begun.is_err() {
                self.invalidate(node, 0);
            }
        });
    }

    /// Invalidates the kernel's attributes of `node` and its pages from `offset` on.
    fn invalidate(&self, node: u64, offset: u64) {
        let mut notification = Reply::new(24);
        notification.u64(node);
        notification.u64(offset);
        // Up to the end of the file.
        notification.u64(0);
        let header = notification.finish_notification(NOTIFY_INVAL_INODE);
        // A kernel that does not know the node caches nothing of it.
        let _ = self.kernel.send(&header, notification.body());
    }
}
