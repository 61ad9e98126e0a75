//! The connection to a server over which a snapshot is read, on the client's side.
//!
//! Locking: [`Rank::Device`] from a request to its answer.

use super::line::wait;
use super::snapshot_wire::{STATUS_BYTES, Status, parse_end};
use crate::log::escape_controls;
use rustix::event::PollFlags;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use uext4::device::{self, SnapshotEnd};
use uext4_num::{u64_of, usize_of};
use uext4_sync::{Mutex, OnceLock};

/// Maximum time from a request to the end of its answer.
const READ_LIMIT: Duration = Duration::from_secs(120);
/// The same of another user's server, which may be slow on purpose.
const FOREIGN_READ_LIMIT: Duration = Duration::from_secs(10);
/// Maximum time of all reads from another user's server.
const FOREIGN_LIMIT: Duration = Duration::from_secs(3600);

/// The connection of a reader.
pub(super) struct Connection {
    /// Held from a request to its answer.
    pub(super) stream: Mutex<UnixStream>,
    pub(super) path: PathBuf,
    pub(super) ended: OnceLock<SnapshotEnd>,
    /// The server is this user's or the superuser's.
    pub(super) is_trusted: bool,
    pub(super) begin: Instant,
}

impl Connection {
    /// When the answer to a request of now must be there.
    fn deadline(&self) -> Instant {
        let now = Instant::now();
        if self.is_trusted {
            return now + READ_LIMIT;
        }
        (now + FOREIGN_READ_LIMIT).min(self.begin + FOREIGN_LIMIT)
    }

    /// Sends a request; the answer fills `buf`.
    pub(super) fn call(
        &self,
        request: &[&[u8]],
        buf: &mut [u8],
    ) -> std::result::Result<(), device::Error> {
        if let Some(why) = self.ended.get() {
            return Err(device::Error::SnapshotEnded(*why));
        }
        let exchanged = self.exchange(request, buf);
        exchanged.unwrap_or_else(|error| {
            self.end(match error.kind() {
                ErrorKind::TimedOut => SnapshotEnd::Silent,
                ErrorKind::InvalidData => SnapshotEnd::Malformed,
                // The server closes the connection when it ends.
                _ => SnapshotEnd::Closed,
            })
        })
    }

    fn end(&self, why: SnapshotEnd) -> std::result::Result<(), device::Error> {
        let why = *self.ended.get_or_init(|| why);
        Err(device::Error::SnapshotEnded(why))
    }

    /// The outer error is one of the connection.
    fn exchange(
        &self,
        request: &[&[u8]],
        buf: &mut [u8],
    ) -> io::Result<std::result::Result<(), device::Error>> {
        let stream = self.stream.lock();
        let mut stream = Timed {
            stream: &stream,
            deadline: self.deadline(),
        };
        let sent = stream.write_all(&request.concat());
        let mut status = [0; STATUS_BYTES];
        // A server that closes the connection of an ended snapshot has sent the reason before.
        let received = stream.read_exact(&mut status);
        received.map_err(|error| sent.err().unwrap_or(error))?;
        let (status, len) = Status::parse(status).ok_or(ErrorKind::InvalidData)?;
        let len = usize_of(len);
        match status {
            Status::Data if len == buf.len() => stream.read_exact(buf)?,
            Status::Zeroes if len == 0 => buf.fill(0),
            Status::Failed => {
                let mut text = vec![0; len];
                stream.read_exact(&mut text)?;
                let text = escape_controls(&String::from_utf8_lossy(&text));
                let error = io::Error::other(text);
                return Ok(Err(device::Error::io("read", 0, u64_of(buf.len()), error)));
            }
            Status::Ended => {
                let mut why = vec![0; len];
                stream.read_exact(&mut why)?;
                return Ok(self.end(parse_end(&why)));
            }
            Status::Data | Status::Zeroes => return Err(ErrorKind::InvalidData.into()),
        }
        Ok(Ok(()))
    }
}

/// A stream that does not block, with one deadline for all that is sent and received.
struct Timed<'a> {
    stream: &'a UnixStream,
    deadline: Instant,
}

impl Timed<'_> {
    fn in_time(
        &self,
        ready: PollFlags,
        mut act: impl FnMut(&UnixStream) -> io::Result<usize>,
    ) -> io::Result<usize> {
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
            match act(self.stream) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    wait(self.stream, ready, None, Some(left))?;
                }
                done => return done,
            }
        }
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.in_time(PollFlags::IN, |mut stream| stream.read(buf))
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.in_time(PollFlags::OUT, |mut stream| stream.write(buf))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uext4_num::clamp_u32;
    use uext4_sync::Rank;

    fn connection() -> (Connection, UnixStream) {
        let (ours, theirs) = UnixStream::pair().expect("there are sockets");
        ours.set_nonblocking(true).expect("it is a socket");
        let connection = Connection {
            stream: Mutex::new(Rank::Device, ours),
            path: "mnt".into(),
            ended: OnceLock::new(),
            is_trusted: true,
            begin: Instant::now(),
        };
        (connection, theirs)
    }

    #[test]
    fn the_server_of_another_user_has_less_time() {
        let (mut connection, _server) = connection();
        let left = |connection: &Connection| connection.deadline() - Instant::now();
        assert!(left(&connection) > Duration::from_secs(60));
        connection.is_trusted = false;
        assert!(left(&connection) <= FOREIGN_READ_LIMIT);
        if let Some(begin) = connection.begin.checked_sub(FOREIGN_LIMIT) {
            connection.begin = begin;
            let _ = connection.call(&[b"request"], &mut [0]);
            assert_eq!(connection.ended.get(), Some(&SnapshotEnd::Silent));
        }
    }

    #[test]
    fn nonsense_and_an_early_end_have_reasons_of_their_own() {
        let (connection, mut server) = connection();
        server.write_all(&[9; STATUS_BYTES]).expect("it is empty");
        let _ = connection.call(&[b"request"], &mut [0]);
        assert_eq!(connection.ended.get(), Some(&SnapshotEnd::Malformed));

        let (connection, mut server) = self::connection();
        let why = super::super::snapshot_wire::end_to_bytes(SnapshotEnd::Aborted);
        let status = Status::Ended.to_bytes(clamp_u32(why.len()));
        let answer = [&status[..], &why].concat();
        server.write_all(&answer).expect("it is empty");
        drop(server);
        let _ = connection.call(&[b"request"], &mut [0]);
        assert_eq!(connection.ended.get(), Some(&SnapshotEnd::Aborted));
    }

    /// A server that always has a byte ready does not extend the deadline.
    #[test]
    fn all_parts_of_an_answer_have_one_deadline() {
        let (ours, mut server) = UnixStream::pair().expect("there are sockets");
        ours.set_nonblocking(true).expect("it is a socket");
        server.write_all(b"xx").expect("it is empty");
        let mut stream = Timed {
            stream: &ours,
            deadline: Instant::now() + READ_LIMIT,
        };
        stream.read_exact(&mut [0]).expect("it is in time");
        stream.deadline = Instant::now();
        let late = stream.read_exact(&mut [0]).expect_err("too slow");
        assert_eq!(late.kind(), ErrorKind::TimedOut);
    }
}
