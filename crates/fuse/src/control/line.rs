//! Line protocol over a socket, with limits of length and time.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, PipeReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Size of a read, in bytes.
const CHUNK_BYTES: usize = 4096;

/// Lines to and from the peer.
pub(super) struct Lines<'a> {
    stream: &'a UnixStream,
    /// Readable (closed) when the conversation must end.
    stop: Option<&'a PipeReader>,
    /// Maximum length of a received line, in bytes.
    bytes_max: usize,
    /// Received bytes not yet returned.
    buffer: Vec<u8>,
}

impl<'a> Lines<'a> {
    /// Receives lines of at most `bytes_max` bytes until the other end of `stop` is closed.
    pub(super) fn new(
        stream: &'a UnixStream,
        stop: Option<&'a PipeReader>,
        bytes_max: usize,
    ) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            stop,
            bytes_max,
            buffer: Vec::new(),
        })
    }

    /// The next line without its newline; `None` at end of file.
    ///
    /// # Errors
    /// `TimedOut` if the line is incomplete after `limit`, `InvalidData` if it is too long,
    /// `Interrupted` after `stop`.
    pub(super) fn receive(&mut self, limit: Option<Duration>) -> io::Result<Option<Vec<u8>>> {
        let deadline = limit.map(|limit| Instant::now() + limit);
        let mut seen = 0;
        loop {
            if let Some(end) = self.buffer[seen..].iter().position(|&byte| byte == b'\n') {
                let rest = self.buffer.split_off(seen + end + 1);
                let mut line = std::mem::replace(&mut self.buffer, rest);
                line.pop();
                return Ok(Some(line));
            }
            seen = self.buffer.len();
            if seen > self.bytes_max {
                return Err(io::ErrorKind::InvalidData.into());
            }
            if self.in_time(PollFlags::IN, deadline, Self::read)? == 0 {
                return Ok(None);
            }
        }
    }

    /// Whether the peer has sent more than the returned lines.
    pub(super) fn has_more(&self) -> bool {
        !self.buffer.is_empty()
    }

    /// Sends a line, which includes its newline. What the socket takes at once is sent after `stop`
    /// as well: a thaw may let the last user go, which ends the mount before the thaw is answered.
    ///
    /// # Errors
    /// `TimedOut` if the peer does not take it within `limit`, `Interrupted` if it does not take it
    /// at once after `stop`.
    pub(super) fn send(&mut self, line: &[u8], limit: Duration) -> io::Result<()> {
        let deadline = Some(Instant::now() + limit);
        let mut rest = line;
        while !rest.is_empty() {
            let write = |lines: &mut Self| lines.stream.write(rest);
            let len = match write(self) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.in_time(PollFlags::OUT, deadline, write)?
                }
                done => done?,
            };
            rest = &rest[len..];
        }
        Ok(())
    }

    /// Appends received bytes to the buffer; returns 0 at end of file.
    fn read(&mut self) -> io::Result<usize> {
        let mut chunk = [0; CHUNK_BYTES];
        let len = self.stream.read(&mut chunk)?;
        self.buffer.extend_from_slice(&chunk[..len]);
        Ok(len)
    }

    /// Retries `act` when the stream is ready, until it does not block.
    fn in_time(
        &mut self,
        ready: PollFlags,
        deadline: Option<Instant>,
        mut act: impl FnMut(&mut Self) -> io::Result<usize>,
    ) -> io::Result<usize> {
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(io::ErrorKind::TimedOut.into());
            }
            if wait(self.stream, ready, self.stop, left)? == Woken::Stopped {
                return Err(io::ErrorKind::Interrupted.into());
            }
            match act(self) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Woken {
    /// The other end of the pipe was closed.
    Stopped,
    /// The source may be ready, the limit may be over, or a signal came.
    Perhaps,
}

/// Waits until `source` is `ready`, the other end of `stop` is closed, or `limit` has passed.
pub(super) fn wait(
    source: &impl AsFd,
    ready: PollFlags,
    stop: Option<&PipeReader>,
    limit: Option<Duration>,
) -> io::Result<Woken> {
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    let mut fds = vec![PollFd::new(source, ready)];
    fds.extend(stop.map(|stop| PollFd::new(stop, PollFlags::IN)));
    match poll(&mut fds, limit.as_ref()) {
        Err(rustix::io::Errno::INTR) => return Ok(Woken::Perhaps),
        done => done?,
    };
    let stopped = fds.get(1).is_some_and(|stop| !stop.revents().is_empty());
    Ok(if stopped {
        Woken::Stopped
    } else {
        Woken::Perhaps
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_sent_after_the_stop() {
        let (ours, theirs) = UnixStream::pair().expect("there are sockets");
        let (stopped, stop) = io::pipe().expect("there are pipes");
        let mut lines = Lines::new(&ours, Some(&stopped), 100).expect("it is a socket");
        drop(stop);
        let limit = Duration::from_secs(10);
        lines.send(b"answer\n", limit).expect("the socket is empty");
        let mut answer = [0; 7];
        (&theirs).read_exact(&mut answer).expect("it was sent");
        assert_eq!(&answer, b"answer\n");
        let ended = lines.receive(Some(limit)).expect_err("no request is taken");
        assert_eq!(ended.kind(), io::ErrorKind::Interrupted);
    }
}
