//! How requests come and answers go. `/dev/fuse` is the one way today; the server knows only this.

mod dev_fuse;

pub(crate) use dev_fuse::DevFuse;

use std::io;
use std::sync::Arc;

/// A way to the kernel. Each thread has one of its own; an answer must go the way that its request
/// came.
pub(crate) trait Transport: Send + Sync {
    /// Waits for a request and puts it in `buf`; answers its length, or `None` when the file
    /// system was unmounted.
    fn receive(&self, buf: &mut [u8]) -> io::Result<Option<usize>>;

    /// Sends a finished answer or notification. An answer that nobody waits for any more is no
    /// error.
    fn send(&self, bytes: &[u8]) -> io::Result<()>;

    /// Another way to the same file system, for another thread.
    fn another(&self) -> io::Result<Arc<dyn Transport>>;
}
