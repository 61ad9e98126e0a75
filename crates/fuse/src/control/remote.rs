//! A snapshot of a running mount, read over its control socket.

use super::client::Client;
use super::line::wait;
use super::snapshot_wire::{
    Head, READ_BYTES_MAX, SEND_FILE, STATUS_BYTES, SnapshotResult, SnapshotWanted, Status, Taken,
    parse_end,
};
use super::wire::Ask;
use crate::error::{Error, Result};
use crate::log::escape_controls;
use rustix::event::PollFlags;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::fs::File;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use uext4::device::{self, BlockDevice, SnapshotEnd};
use uext4_num::{clamp_u32, u64_of, usize_of};
use uext4_sync::{Arc, Mutex, OnceLock, Rank};

/// Maximum time from a request to the end of its answer.
const READ_LIMIT: Duration = Duration::from_secs(120);

/// See the module. It ends when it and its devices are dropped.
pub struct Remote {
    connection: Arc<Connection>,
    taken: Taken,
    is_trusted: bool,
}

/// One device of a snapshot.
pub struct RemoteDevice {
    connection: Arc<Connection>,
    number: u8,
    size_bytes: u64,
}

struct Connection {
    /// Held from a request to its answer.
    stream: Mutex<UnixStream>,
    path: PathBuf,
    ended: OnceLock<SnapshotEnd>,
}

impl Remote {
    /// Takes a snapshot of the mount on `target`. `spill` is a file without other users for what
    /// the server cannot keep in memory; it is not on that mount. The server of another user gets
    /// none.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub fn take(target: &Path, wanted: &SnapshotWanted, spill: Option<&File>) -> Result<Self> {
        let client = Client::connect(target)?;
        let is_trusted = client.is_trusted();
        let spill = spill.filter(|_| is_trusted);
        let wanted = SnapshotWanted {
            spill_bytes: wanted.spill_bytes.filter(|_| spill.is_some()),
            ..wanted.clone()
        };
        let mut answer = client.ask(&Ask::Snapshot(wanted))?;
        if answer == SEND_FILE {
            let failed = || Error::system("talk to", target);
            let file = spill.ok_or(ErrorKind::InvalidData);
            let file = file.map_err(|kind| failed()(kind.into()))?;
            send_file(client.stream(), file).map_err(failed())?;
            answer = client.answer_of_work()?;
        }
        let taken: Taken = serde_json::from_value(answer).map_err(|error| {
            Error::system("talk to", target)(io::Error::new(ErrorKind::InvalidData, error))
        })?;
        let stream = client.into_stream();
        let prepared = stream.set_nonblocking(true);
        prepared.map_err(Error::system("talk to", target))?;
        let connection = Arc::new(Connection {
            stream: Mutex::new(Rank::Device, stream),
            path: target.into(),
            ended: OnceLock::new(),
        });
        Ok(Self {
            connection,
            taken,
            is_trusted,
        })
    }

    /// The device of the file system.
    pub fn device(&self) -> Arc<RemoteDevice> {
        self.numbered(0, self.taken.size_bytes)
    }

    /// The device of an external journal.
    pub fn journal(&self) -> Option<Arc<RemoteDevice>> {
        let size_bytes = self.taken.journal_bytes?;
        Some(self.numbered(1, size_bytes))
    }

    fn numbered(&self, number: u8, size_bytes: u64) -> Arc<RemoteDevice> {
        Arc::new(RemoteDevice {
            connection: self.connection.clone(),
            number,
            size_bytes,
        })
    }

    /// Whether the server is this user's or the superuser's. Others may answer anything.
    pub fn is_trusted(&self) -> bool {
        self.is_trusted
    }

    /// The longest time that a write had to wait for the snapshot.
    pub fn pause(&self) -> Duration {
        Duration::from_micros(self.taken.pause_us)
    }

    /// What kept changes from the device before the snapshot.
    pub fn unwritten(&self) -> Option<&str> {
        self.taken.unwritten.as_deref()
    }

    /// Why it cannot be read any more.
    pub fn ended(&self) -> Option<SnapshotEnd> {
        self.connection.ended.get().copied()
    }

    /// Tells the server what became of the work; its statistics have it.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn report(&self, result: &SnapshotResult) -> Result<()> {
        let text = serde_json::to_vec(result).expect("its fields are plain");
        let len = clamp_u32(text.len());
        let head = Head::Result { len }.to_bytes();
        let sent = self.connection.call(&[&head, &text], &mut []);
        sent.map_err(|error| {
            Error::system("talk to", &self.connection.path)(io::Error::other(error))
        })
    }
}

impl Connection {
    /// Sends a request; the answer fills `buf`.
    fn call(&self, request: &[&[u8]], buf: &mut [u8]) -> std::result::Result<(), device::Error> {
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
            deadline: Instant::now() + READ_LIMIT,
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

impl BlockDevice for RemoteDevice {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::result::Result<(), device::Error> {
        let size_bytes = self.size_bytes;
        let len = u64_of(buf.len());
        if offset.checked_add(len).is_none_or(|end| end > size_bytes) {
            return Err(device::Error::OutOfRange {
                offset,
                len,
                size_bytes,
            });
        }
        let mut at = offset;
        for part in buf.chunks_mut(usize_of(READ_BYTES_MAX)) {
            let head = Head::Read {
                device: self.number,
                offset: at,
                len: clamp_u32(part.len()),
            };
            let read = self.connection.call(&[&head.to_bytes()], part);
            read.map_err(|error| match error {
                device::Error::Io { source, .. } => device::Error::Io {
                    op: "read",
                    offset: at,
                    len: u64_of(part.len()),
                    source,
                },
                other => other,
            })?;
            at += u64_of(part.len());
        }
        Ok(())
    }
    fn write_at(&self, _offset: u64, _buf: &[u8]) -> std::result::Result<(), device::Error> {
        Err(device::Error::ReadOnly)
    }
    fn flush(&self) -> std::result::Result<(), device::Error> {
        Ok(())
    }
    fn is_read_only(&self) -> bool {
        true
    }
    /// No other host writes a snapshot, so that an MMP block in it means nothing.
    fn is_private(&self) -> bool {
        true
    }
    fn describe(&self) -> String {
        format!("a snapshot of {}", self.connection.path.display())
    }
}

fn send_file(stream: &UnixStream, file: &File) -> io::Result<()> {
    let fds = [file.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&fds)) {
        return Err(ErrorKind::OutOfMemory.into());
    }
    let byte = [IoSlice::new(b"f")];
    sendmsg(stream, &byte, &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection() -> (Connection, UnixStream) {
        let (ours, theirs) = UnixStream::pair().expect("there are sockets");
        ours.set_nonblocking(true).expect("it is a socket");
        let connection = Connection {
            stream: Mutex::new(Rank::Device, ours),
            path: "mnt".into(),
            ended: OnceLock::new(),
        };
        (connection, theirs)
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
