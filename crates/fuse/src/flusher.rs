//! Seeks for data or holes in files that somebody is writing.
//!
//! The kernel may hold data that we have not seen. A notification makes it write them to us before
//! the seek is answered. That happens on a thread of its own: the notification returns only when
//! the data were written, by requests that the other threads serve.

use crate::answer::Answer;
use crate::protocol::NOTIFY_INVAL_INODE;
use crate::server::Server;
use crate::transport::Transport;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use uext4::{InodeRef, Seek};

/// A seek that waits for data.
pub(crate) struct SeekLater {
    pub(crate) unique: u64,
    pub(crate) node: u64,
    pub(crate) inode: InodeRef,
    pub(crate) offset: u64,
    pub(crate) what: Seek,
    /// Where the request came from.
    pub(crate) transport: Arc<dyn Transport>,
}

/// Where the server leaves such seeks.
pub(crate) struct Flusher(Sender<Option<SeekLater>>);

/// Where the thread finds them.
pub(crate) struct FlusherQueue(Receiver<Option<SeekLater>>);

/// A flusher and its queue.
pub(crate) fn flusher() -> (Flusher, FlusherQueue) {
    let (sender, receiver) = channel();
    (Flusher(sender), FlusherQueue(receiver))
}

impl Flusher {
    /// Leaves a seek. Once the thread has stopped, the kernel is gone and waits for nothing.
    pub(crate) fn seek_later(&self, seek: SeekLater) {
        let _ = self.0.send(Some(seek));
    }

    /// Ends the thread after what is there.
    pub(crate) fn stop(&self) {
        let _ = self.0.send(None);
    }
}

impl FlusherQueue {
    /// Serves the queue until [`Flusher::stop`].
    pub(crate) fn run(&self, server: &Server) {
        let mut answer = Answer::new(64);
        while let Ok(Some(seek)) = self.0.recv() {
            // Whatever keeps the kernel from writing the data, the seek is answered with what we
            // have.
            let _ = seek.transport.send(write_back(&mut answer, seek.node));
            answer.clear();
            let done = server.seek_now(&seek, &mut answer);
            let _ = seek.transport.send(answer.finish(seek.unique, done));
        }
    }
}

/// The notification that makes the kernel write a node's data and drop its pages.
fn write_back(answer: &mut Answer, node: u64) -> &[u8] {
    answer.clear();
    answer.u64(node);
    // From offset 0 to the end.
    answer.zeroes(16);
    answer.finish_notification(NOTIFY_INVAL_INODE)
}
