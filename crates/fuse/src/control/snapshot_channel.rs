//! The stream of a client that reads a snapshot, on the server's side.

use super::line::{Woken, wait};
use super::snapshot_list::Running;
use super::snapshot_wire::Status;
use super::socket::CLIENT_LIMIT;
use rustix::event::PollFlags;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use std::cell::Cell;
use std::fs::File;
use std::io::{self, IoSliceMut, PipeReader, Read, Write};
use std::mem::MaybeUninit;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use uext4_num::clamp_u32;
use uext4_sync::Arc;

/// The stream of a client, until the mount ends. A client of an ended snapshot has a limit, after
/// which its connection and what was kept for it are gone.
pub(super) struct Channel<'a> {
    pub(super) stream: &'a UnixStream,
    stop: &'a PipeReader,
    /// Its snapshot, once it is taken.
    pub(super) running: Option<Arc<Running>>,
    /// When the snapshot was first seen to have ended.
    end: Cell<Option<Instant>>,
}

impl<'a> Channel<'a> {
    pub(super) fn new(stream: &'a UnixStream, stop: &'a PipeReader) -> Self {
        Self {
            stream,
            stop,
            running: None,
            end: Cell::new(None),
        }
    }

    /// Whether the mount ends; a client that always has a request ready would not notice.
    ///
    /// # Errors
    /// `Interrupted` if so, `TimedOut` if the snapshot ended before the limit of a client.
    pub(super) fn check_going(&self) -> io::Result<()> {
        let now = Some(Duration::ZERO);
        if wait(self.stream, PollFlags::IN, Some(self.stop), now)? == Woken::Stopped {
            return Err(io::ErrorKind::Interrupted.into());
        }
        self.check_end()
    }

    fn check_end(&self) -> io::Result<()> {
        if self
            .running
            .as_ref()
            .is_none_or(|running| running.is_going())
        {
            return Ok(());
        }
        let end = self.end.get().unwrap_or_else(Instant::now);
        self.end.set(Some(end));
        if end.elapsed() < CLIENT_LIMIT {
            return Ok(());
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    /// Repeats `act` when the stream is ready, until it does not block.
    fn when_ready<T>(
        &self,
        ready: PollFlags,
        mut act: impl FnMut() -> io::Result<T>,
    ) -> io::Result<T> {
        loop {
            match act() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                done => return done,
            }
            // So the end of the snapshot is noticed.
            let limit = Some(CLIENT_LIMIT);
            if wait(self.stream, ready, Some(self.stop), limit)? == Woken::Stopped {
                return Err(io::ErrorKind::Interrupted.into());
            }
            self.check_end()?;
        }
    }

    /// Fills `buf`; false at the end of the stream.
    pub(super) fn receive(&self, buf: &mut [u8]) -> io::Result<bool> {
        let mut done = 0;
        while done < buf.len() {
            let mut stream = self.stream;
            match self.when_ready(PollFlags::IN, || stream.read(&mut buf[done..]))? {
                0 => return Ok(false),
                len => done += len,
            }
        }
        Ok(true)
    }

    fn send(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let mut stream = self.stream;
            let len = self.when_ready(PollFlags::OUT, || stream.write(bytes))?;
            bytes = &bytes[len..];
        }
        Ok(())
    }

    /// The file that the client sends; it has the limit of a request.
    pub(super) fn receive_file(&self) -> io::Result<Option<File>> {
        let deadline = Instant::now() + CLIENT_LIMIT;
        self.when_ready(PollFlags::IN, || {
            if Instant::now() >= deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let mut byte = [0];
            let mut slices = [IoSliceMut::new(&mut byte)];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let flags = RecvFlags::CMSG_CLOEXEC;
            recvmsg(self.stream, &mut slices, &mut control, flags)?;
            let file = control.drain().find_map(|message| match message {
                RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
                _ => None,
            });
            Ok(file.map(File::from))
        })
    }

    pub(super) fn answer(&self, status: Status, bytes: &[u8]) -> io::Result<()> {
        self.send(&status.to_bytes(clamp_u32(bytes.len())))?;
        self.send(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::super::snapshot_wire::HEAD_BYTES;
    use super::*;

    /// A client that sends requests without a pause does not keep the mount from ending.
    #[test]
    fn the_end_of_the_mount_is_noticed_although_a_request_is_ready() {
        let (ours, theirs) = UnixStream::pair().expect("there are sockets");
        let (stopped, stop) = io::pipe().expect("there are pipes");
        let channel = Channel::new(&ours, &stopped);
        (&theirs).write_all(&[0; HEAD_BYTES]).expect("it is empty");
        channel.check_going().expect("nothing ends");
        drop(stop);
        let ended = channel.check_going().expect_err("the mount ends");
        assert_eq!(ended.kind(), io::ErrorKind::Interrupted);
    }
}
