//! Lines over a socket, within bounds of length and time.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, PipeReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Bytes read at once.
const CHUNK_BYTES: usize = 4096;

/// Lines to and from the other side.
pub(super) struct Lines<'a> {
    stream: &'a UnixStream,
    /// Its other end is closed when nobody wants to talk any more.
    stop: Option<&'a PipeReader>,
    /// Longest line that is read.
    bytes_max: usize,
    /// Read, and not yet given out.
    buffer: Vec<u8>,
}

impl<'a> Lines<'a> {
    /// Reads lines of at most `bytes_max` bytes; talks until the other end of `stop` is closed.
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

    /// The next line without its end; `None` after the last one.
    ///
    /// # Errors
    /// `TimedOut` when it is not complete in time, `InvalidData` when it is too long,
    /// `Interrupted` when talk is over.
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

    /// Sends a line, whose end it has.
    ///
    /// # Errors
    /// `TimedOut` when the other side does not take it in time, `Interrupted` when talk is over.
    pub(super) fn send(&mut self, line: &[u8], limit: Duration) -> io::Result<()> {
        let deadline = Some(Instant::now() + limit);
        let mut rest = line;
        while !rest.is_empty() {
            let write = |lines: &mut Self| lines.stream.write(rest);
            let len = self.in_time(PollFlags::OUT, deadline, write)?;
            rest = &rest[len..];
        }
        Ok(())
    }

    /// Bytes read; 0 at the end of the stream.
    fn read(&mut self) -> io::Result<usize> {
        let mut chunk = [0; CHUNK_BYTES];
        let len = self.stream.read(&mut chunk)?;
        self.buffer.extend_from_slice(&chunk[..len]);
        Ok(len)
    }

    /// Tries until it does not have to wait.
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

/// What ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Woken {
    /// The other end of the pipe was closed.
    Stopped,
    /// It may be ready, time may be over, a signal may have come.
    Perhaps,
}

/// Waits until `source` is `ready`, the other end of `stop` is closed, or `limit` is over.
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
