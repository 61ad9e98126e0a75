//! Requests to operations of the library: one file per family.
//!
//! Invariants: the kernel checks permissions, sticky directories and ACLs itself
//! (`default_permissions`, always on), so that every caller here is [`uext4::Checks::Done`]. File
//! handles are not used: every request names its node, and a node holds its inode.
//! Locking: none here; the library's operations run side by side on as many threads as ask.
//! References: `linux/fuse.h`.

mod attrs;
mod control;
mod data;
mod dirs;
mod names;
mod open;
mod xattrs;

use crate::answer::Answer;
use crate::errno::Errno;
use crate::flusher::Flusher;
use crate::init::Agreement;
use crate::nodes::{Nodes, inode_of};
use crate::protocol::{NOTIFY_INVAL_INODE, opcode};
use crate::request::Request;
use crate::transport::Transport;
use std::sync::Arc;
use uext4::{Filesystem, InodeRef};

/// What an operation answers: the body is in the [`Answer`].
type Handled = Result<(), Errno>;

/// Serves one mounted file system.
pub(crate) struct Server {
    filesystem: Filesystem,
    nodes: Nodes,
    agreement: Agreement,
    flusher: Flusher,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is answered like this.
    Answer(Handled),
    /// It gets no answer, or somebody else answers later.
    Silent,
    /// The kernel says goodbye.
    Destroyed,
}

impl Server {
    /// A server for `filesystem` under the rules that `agreement` lays down.
    ///
    /// # Errors
    /// The root directory cannot be read.
    pub(crate) fn new(
        filesystem: Filesystem,
        agreement: Agreement,
        flusher: Flusher,
    ) -> uext4::Result<Self> {
        let nodes = Nodes::new(filesystem.root()?);
        Ok(Self {
            filesystem,
            nodes,
            agreement,
            flusher,
        })
    }

    /// Does what `request`, which came over `transport`, asks; the body of the answer is in
    /// `answer` then.
    pub(crate) fn handle(
        &self,
        request: &Request<'_>,
        transport: &Arc<dyn Transport>,
        answer: &mut Answer,
    ) -> Outcome {
        match request.opcode {
            opcode::FORGET => self.forget(request),
            opcode::BATCH_FORGET => self.batch_forget(request),
            opcode::DESTROY => Outcome::Destroyed,
            opcode::LSEEK => self.lseek(request, transport, answer),
            _ => {
                let accessed = self.accessed_by_opening(request);
                let privileged = self.privileged_target(request);
                let done = self.answer(request, answer);
                if let Some(node) = privileged.or(accessed) {
                    forget_attributes(node, transport);
                }
                Outcome::Answer(done)
            }
        }
    }

    /// The node with setuid or setgid whose data `request` changes, which may take them away. The
    /// kernel does not expect that of a change of data, and would go by the old mode.
    fn privileged_target(&self, request: &Request<'_>) -> Option<u64> {
        let node = match request.opcode {
            opcode::WRITE | opcode::OPEN | opcode::FALLOCATE => request.node,
            opcode::COPY_FILE_RANGE => data::copy_target(request).ok()?,
            _ => return None,
        };
        let mode = self.filesystem.attr(&self.get(node).ok()?).mode;
        (mode & 0o6000 != 0).then_some(node)
    }

    fn answer(&self, request: &Request<'_>, answer: &mut Answer) -> Handled {
        match request.opcode {
            opcode::LOOKUP => self.lookup(request, answer),
            opcode::GETATTR => self.getattr(request, answer),
            opcode::SETATTR => self.setattr(request, answer),
            opcode::STATX => self.statx(request, answer),
            opcode::READLINK => self.readlink(request, answer),
            opcode::SYMLINK => self.symlink(request, answer),
            opcode::MKNOD => self.mknod(request, answer),
            opcode::MKDIR => self.mkdir(request, answer),
            opcode::UNLINK => self.unlink(request),
            opcode::RMDIR => self.rmdir(request),
            opcode::RENAME => self.rename(request),
            opcode::RENAME2 => self.rename2(request),
            opcode::LINK => self.link(request, answer),
            opcode::OPEN => self.open(request, answer),
            opcode::OPENDIR => self.opendir(answer),
            opcode::CREATE => self.create(request, answer),
            opcode::TMPFILE => self.tmpfile(request, answer),
            opcode::RELEASE => self.release(request),
            opcode::READ => self.read(request, answer),
            opcode::WRITE => self.write(request, answer),
            opcode::FALLOCATE => self.fallocate(request),
            opcode::COPY_FILE_RANGE => self.copy_file_range(request, answer),
            opcode::FSYNC | opcode::FSYNCDIR => self.fsync(request),
            opcode::SYNCFS => Ok(self.filesystem.sync()?),
            opcode::READDIR => self.readdir(request, answer),
            opcode::READDIRPLUS => self.readdirplus(request, answer),
            opcode::STATFS => self.statfs(answer),
            opcode::SETXATTR => self.setxattr(request),
            opcode::GETXATTR => self.getxattr(request, answer),
            opcode::LISTXATTR => self.listxattr(request, answer),
            opcode::REMOVEXATTR => self.removexattr(request),
            opcode::ACCESS => self.get(request.node).map(|_| ()),
            opcode::IOCTL => self.ioctl(request, answer),
            // FLUSH, POLL, INTERRUPT, BMAP and what is newer than we are: the kernel does
            // without from then on, and needs none of the first three from us.
            _ => Err(Errno::ENOSYS),
        }
    }

    /// What is served.
    pub(crate) fn filesystem(&self) -> &Filesystem {
        &self.filesystem
    }

    /// The inode of a node.
    fn get(&self, node: u64) -> Result<InodeRef, Errno> {
        self.nodes.get(node)
    }

    /// The inode of a node, or of a number out of an NFS handle.
    fn get_any(&self, node: u64) -> Result<InodeRef, Errno> {
        self.nodes
            .get(node)
            .or_else(|_| Ok(self.filesystem.inode(inode_of(node)?)?))
    }

    /// Ends the thread that fetches data before seeks.
    pub(crate) fn stop_flusher(&self) {
        self.flusher.stop();
    }

    /// Lets go of all nodes and unmounts the file system.
    ///
    /// # Errors
    /// As [`Filesystem::unmount`].
    pub(crate) fn close(&self) -> uext4::Result<()> {
        self.nodes.clear();
        self.filesystem.unmount()
    }
}

/// Makes the kernel ask for the attributes of `node` again.
fn forget_attributes(node: u64, transport: &Arc<dyn Transport>) {
    let mut notification = Answer::new(64);
    notification.u64(node);
    // No data: an offset below 0.
    notification.u64(u64::MAX);
    notification.u64(0);
    // A kernel that does not know the node has no attributes of it either.
    let _ = transport.send(notification.finish_notification(NOTIFY_INVAL_INODE));
}
