//! A snapshot of a running mount, read over its control socket.

use super::client::Client;
use super::remote_connection::Connection;
use super::snapshot_wire::{
    Continued, EARLIER, Earlier, Head, Noted, READ_BYTES_MAX, SEND_FILE, SnapshotResult,
    SnapshotWanted, Taken,
};
use super::wire::Ask;
use crate::error::{Error, Result};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::fs::File;
use std::io::{self, ErrorKind, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};
use uext4::device::{self, BlockDevice, SnapshotEnd};
use uext4_num::{clamp_u32, clamp_usize, u64_of, usize_of};
use uext4_sync::{Arc, Mutex, OnceLock, Rank};

/// Maximum size of the bits of an earlier copy.
const BITMAP_BYTES_MAX: u64 = 16 << 20;

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
            continues: if is_trusted {
                wanted.continues
            } else {
                Continued::Never
            },
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
            is_trusted,
            begin: Instant::now(),
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

    /// How the server knows this copy; `None` if no later one can continue it.
    pub fn noted(&self) -> Option<&Noted> {
        let noted = self.taken.noted.as_ref();
        // The server of another user may answer anything.
        noted.filter(|noted| self.is_trusted && noted.granule_bytes.is_power_of_two())
    }

    /// What the server knows of the copy that this one continues.
    pub fn earlier(&self) -> Option<&Earlier> {
        self.taken.earlier.as_ref()
    }

    /// The bits of the granules that changed since the earlier copy. Bit 0 of byte 0 is the first.
    ///
    /// # Errors
    /// Those of the connection; more bits than a server has.
    pub fn changed(&self) -> std::result::Result<Vec<u8>, device::Error> {
        let bitmap_bytes = self.earlier().map_or(0, |earlier| earlier.bitmap_bytes);
        if bitmap_bytes > BITMAP_BYTES_MAX {
            return Err(device::Error::SnapshotEnded(SnapshotEnd::Malformed));
        }
        let mut bits = vec![0; clamp_usize(bitmap_bytes)];
        self.numbered(EARLIER, bitmap_bytes).read_at(0, &mut bits)?;
        Ok(bits)
    }

    /// Tells the server granules in which the copy is not as the snapshot. A later copy has them.
    ///
    /// # Errors
    /// Those of the connection.
    pub fn differs(&self, granules: &[u64]) -> std::result::Result<(), device::Error> {
        for part in granules.chunks(usize_of(READ_BYTES_MAX) / 8) {
            let bytes: Vec<u8> = part.iter().flat_map(|nr| nr.to_ne_bytes()).collect();
            let len = clamp_u32(bytes.len());
            let head = Head::Differs { len }.to_bytes();
            self.connection.call(&[&head, &bytes], &mut [])?;
        }
        Ok(())
    }

    /// Tells the server how far a check is: its pass, and thousandths of that.
    ///
    /// # Errors
    /// Those of the connection.
    pub fn progress(&self, pass: u8, thousandths: u32) -> std::result::Result<(), device::Error> {
        let thousandths = thousandths.min(1000);
        let head = Head::Progress { pass, thousandths };
        self.connection.call(&[&head.to_bytes()], &mut [])
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
