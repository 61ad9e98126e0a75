//! Snapshots of the mount, and the connections that read them.
//!
//! Invariants: a snapshot belongs to a connection, and ends with it; so a client that is killed
//! leaves nothing. The thread of a connection has the priority of all others: it takes part in
//! commits, and has locks that writers wait for.
//! Locking: [`Rank::Queue`] for the list; no device is accessed under it.

use super::line::{Lines, Woken, wait};
use super::snapshot_wire::{
    HEAD_BYTES, Head, READ_BYTES_MAX, SEND_FILE, SnapshotPurpose, SnapshotResult, SnapshotWanted,
    Status, Taken, end_to_bytes,
};
use super::socket::CLIENT_LIMIT;
use super::verbs::Mount;
use super::wire::{Answered, Refusal, answer};
use crate::mount_table::connection_of_device;
use rustix::event::PollFlags;
use rustix::fs::{FileType, Stat};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use serde_json::{Value, json};
use std::cell::Cell;
use std::fs::File;
use std::io::{self, IoSliceMut, PipeReader, Read, Write};
use std::mem::MaybeUninit;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use uext4::Snapshot;
use uext4::device::{self, BlockDevice, SnapshotEnd, SnapshotLimits};
use uext4_num::{clamp_u32, clamp_u64, u64_of, usize_of};
use uext4_sync::atomic::{AtomicU64, Ordering};
use uext4_sync::{Arc, Clock, Mutex, Rank, RealClock};

/// Maximum number of snapshots at a time.
const SNAPSHOTS_MAX: usize = 4;

/// The snapshots of a mount.
pub(super) struct Snapshots(Mutex<Table>);

#[derive(Default)]
struct Table {
    last_id: u64,
    /// Snapshots that are being taken.
    starting: usize,
    running: Vec<Arc<Running>>,
    /// What became of the last check and of the last copy.
    last_check: Value,
    last_backup: Value,
}

struct Running {
    id: u64,
    wanted: SnapshotWanted,
    snapshot: Snapshot,
    start: Instant,
    start_seconds: i64,
    read_bytes: AtomicU64,
}

/// Right to take a snapshot.
struct Start<'a>(&'a Snapshots);

/// A snapshot in the list; it is dropped and its result is noted when this is dropped.
struct Entry<'a> {
    list: &'a Snapshots,
    running: Arc<Running>,
    result: Option<SnapshotResult>,
}

impl Default for Snapshots {
    fn default() -> Self {
        Self(Mutex::new(Rank::Queue, Table::default()))
    }
}

impl Snapshots {
    /// The right to take one more.
    ///
    /// # Errors
    /// There are too many.
    fn start(&self) -> Result<Start<'_>, Refusal> {
        let mut table = self.0.lock();
        let going = table.running.iter().filter(|running| running.is_going());
        if going.count() + table.starting >= SNAPSHOTS_MAX {
            return Err(Refusal {
                errno: libc::EBUSY,
                text: format!("{SNAPSHOTS_MAX} snapshots are being read"),
            });
        }
        table.starting += 1;
        Ok(Start(self))
    }

    fn add(&self, wanted: &SnapshotWanted, snapshot: Snapshot) -> Entry<'_> {
        let mut table = self.0.lock();
        table.last_id += 1;
        let running = Arc::new(Running {
            id: table.last_id,
            wanted: wanted.clone(),
            snapshot,
            start: Instant::now(),
            start_seconds: RealClock::new().wall().seconds,
            read_bytes: AtomicU64::new(0),
        });
        table.running.push(running.clone());
        Entry {
            list: self,
            running,
            result: None,
        }
    }

    /// Ends one of them, or all: their readers get an error.
    pub(super) fn end(&self, id: Option<u64>) -> Answered {
        let table = self.0.lock();
        let chosen = table.running.iter();
        let chosen = chosen.filter(|running| running.is_going());
        let chosen = chosen.filter(|running| id.is_none_or(|id| id == running.id));
        let count = chosen.map(|running| running.end()).count();
        match id {
            Some(id) if count == 0 => Err(Refusal {
                errno: libc::ENOENT,
                text: format!("there is no snapshot {id}"),
            }),
            _ => Ok(count.into()),
        }
    }

    /// For the statistics.
    pub(super) fn state(&self) -> Value {
        let table = self.0.lock();
        let running = table.running.iter().map(|running| running.state());
        json!({
            "running": running.collect::<Vec<_>>(),
            "last_check": table.last_check,
            "last_backup": table.last_backup,
        })
    }
}

impl Drop for Start<'_> {
    fn drop(&mut self) {
        self.0.0.lock().starting -= 1;
    }
}

impl Running {
    fn is_going(&self) -> bool {
        self.snapshot.device.ended().is_none()
    }

    fn end(&self) {
        let journal = self.snapshot.journal.iter();
        let devices = journal.chain([&self.snapshot.device]);
        devices.for_each(|device| device.end(SnapshotEnd::Aborted));
    }

    fn state(&self) -> Value {
        let usage = self.snapshot.device.usage();
        json!({
            "id": self.id,
            "purpose": self.wanted.purpose,
            "pid": self.wanted.pid,
            "seconds": self.start.elapsed().as_secs(),
            "pause_us": pause_us(&self.snapshot),
            "memory_bytes": usage.memory_bytes,
            "spilled_bytes": usage.spilled_bytes,
            "read_bytes": self.read_bytes.load(Ordering::Relaxed),
            "ended": self.snapshot.device.ended().map(|why| why.to_string()),
        })
    }

    /// What became of it. Without a result the client was killed, or was told that it ended.
    fn conclusion(&self, result: Option<&SnapshotResult>) -> Value {
        let ended = self.snapshot.device.ended().map(|why| why.to_string());
        let given_up = ended.unwrap_or_else(|| "interrupted".into());
        json!({
            "started": self.start_seconds,
            "seconds": self.start.elapsed().as_secs(),
            "pause_us": pause_us(&self.snapshot),
            "verdict": result.map_or(given_up, |result| result.verdict.clone()),
            "findings": result.map_or(0, |result| result.findings),
        })
    }

    fn device(&self, number: u8) -> Option<&device::Snapshot> {
        match number {
            0 => Some(&self.snapshot.device),
            _ => self.snapshot.journal.as_deref(),
        }
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        let conclusion = self.running.conclusion(self.result.as_ref());
        let mut table = self.list.0.lock();
        table.running.retain(|other| other.id != self.running.id);
        match self.running.wanted.purpose {
            SnapshotPurpose::Check => table.last_check = conclusion,
            SnapshotPurpose::Backup => table.last_backup = conclusion,
        }
    }
}

fn pause_us(snapshot: &Snapshot) -> u64 {
    clamp_u64(snapshot.pause.as_micros())
}

/// The stream of a client, until the mount ends. A client of an ended snapshot has a limit, after
/// which its connection and what was kept for it are gone.
pub(super) struct Channel<'a> {
    stream: &'a UnixStream,
    stop: &'a PipeReader,
    /// Its snapshot, once it is taken.
    running: Option<Arc<Running>>,
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
    fn check_going(&self) -> io::Result<()> {
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
    fn receive(&self, buf: &mut [u8]) -> io::Result<bool> {
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
    fn receive_file(&self) -> io::Result<Option<File>> {
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

    fn answer(&self, status: Status, bytes: &[u8]) -> io::Result<()> {
        self.send(&status.to_bytes(clamp_u32(bytes.len())))?;
        self.send(bytes)
    }
}

/// Takes a snapshot and serves its reader, until that closes the connection.
pub(super) fn serve(
    lines: &mut Lines<'_>,
    channel: &mut Channel<'_>,
    mount: &Mount,
    wanted: &SnapshotWanted,
) -> io::Result<()> {
    if lines.has_more() {
        let refusal = Refusal::invalid("bytes follow the request, which is not answered yet");
        return lines.send(&answer(Err(refusal)), CLIENT_LIMIT);
    }
    let spill = match wanted.spill_bytes {
        Some(_) => {
            lines.send(&answer(Ok(SEND_FILE.into())), CLIENT_LIMIT)?;
            channel.receive_file()?
        }
        None => None,
    };
    let taken = limits(mount, wanted, spill).and_then(|limits| take(mount, wanted, limits));
    let mut entry = match taken {
        Ok(entry) => entry,
        Err(refusal) => return lines.send(&answer(Err(refusal)), CLIENT_LIMIT),
    };
    let head = head_of(&entry.running);
    let head = serde_json::to_value(head).expect("its fields are plain");
    lines.send(&answer(Ok(head)), CLIENT_LIMIT)?;
    channel.running = Some(entry.running.clone());
    let mut bytes = vec![0; usize_of(READ_BYTES_MAX)];
    loop {
        channel.check_going()?;
        let mut head = [0; HEAD_BYTES];
        match channel.receive(&mut head) {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(error) => {
                // The next request finds the reason.
                send_end(channel, &entry.running);
                return Err(error);
            }
        }
        match Head::parse(head) {
            Some(Head::Read {
                device,
                offset,
                len,
            }) => read(
                channel,
                &entry.running,
                device,
                offset,
                &mut bytes[..usize_of(len)],
            )?,
            Some(Head::Result { len }) => {
                let text = &mut bytes[..usize_of(len)];
                if !channel.receive(text)? {
                    return Ok(());
                }
                entry.result = serde_json::from_slice(text).ok();
                channel.answer(Status::Data, &[])?;
            }
            None => return Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// Tells the client of an ended snapshot why it ended, as far as the stream takes it.
fn send_end(channel: &Channel<'_>, running: &Running) {
    if let Some(why) = running.snapshot.device.ended() {
        let why = end_to_bytes(why);
        let status = Status::Ended.to_bytes(clamp_u32(why.len()));
        let mut stream = channel.stream;
        let _ = stream.write(&[&status[..], &why].concat());
    }
}

fn read(
    channel: &Channel<'_>,
    running: &Running,
    device: u8,
    offset: u64,
    bytes: &mut [u8],
) -> io::Result<()> {
    let done = match running.device(device) {
        Some(device) => device.read_at(offset, bytes),
        None => return channel.answer(Status::Failed, b"there is no external journal"),
    };
    match done {
        Ok(()) => {
            running
                .read_bytes
                .fetch_add(u64_of(bytes.len()), Ordering::Relaxed);
            if is_zero(bytes) {
                channel.answer(Status::Zeroes, &[])
            } else {
                channel.answer(Status::Data, bytes)
            }
        }
        Err(device::Error::SnapshotEnded(why)) => channel.answer(Status::Ended, &end_to_bytes(why)),
        Err(error) => channel.answer(Status::Failed, error.to_string().as_bytes()),
    }
}

/// The first byte is compared with none, each other one with the byte before it.
fn is_zero(bytes: &[u8]) -> bool {
    bytes
        .first()
        .is_none_or(|first| *first == 0 && bytes[1..] == bytes[..bytes.len() - 1])
}

/// Refuses a file that is on the mount itself: a write to it would wait for itself.
fn limits(
    mount: &Mount,
    wanted: &SnapshotWanted,
    spill: Option<File>,
) -> Result<SnapshotLimits, Refusal> {
    if wanted.spill_bytes.is_some() {
        let found = spill.as_ref().and_then(regular_file);
        let Some(found) = found else {
            return Err(Refusal::invalid("the file for old contents is none"));
        };
        let connection = connection_of_device(found.st_dev);
        if mount.server.connection() == Some(connection) {
            return Err(Refusal::invalid(
                "the file for old contents is on the mount itself",
            ));
        }
    }
    Ok(SnapshotLimits {
        memory_bytes: wanted.memory_bytes,
        spill,
        spill_bytes: wanted.spill_bytes.unwrap_or(0),
        ..SnapshotLimits::default()
    })
}

/// A sandboxed server has no `statx(2)`, which the standard library uses.
fn regular_file(file: &File) -> Option<Stat> {
    let found = rustix::fs::fstat(file).ok()?;
    let kind = FileType::from_raw_mode(found.st_mode);
    (kind == FileType::RegularFile).then_some(found)
}

fn take<'a>(
    mount: &'a Mount,
    wanted: &SnapshotWanted,
    limits: SnapshotLimits,
) -> Result<Entry<'a>, Refusal> {
    let _start = mount.snapshots.start()?;
    let snapshot = mount.filesystem().snapshot(limits)?;
    Ok(mount.snapshots.add(wanted, snapshot))
}

fn head_of(running: &Running) -> Taken {
    let snapshot = &running.snapshot;
    let journal = snapshot.journal.as_ref();
    Taken {
        id: running.id,
        size_bytes: snapshot.device.size_bytes(),
        journal_bytes: journal.map(|journal| journal.size_bytes()),
        pause_us: pause_us(snapshot),
        unwritten: snapshot.unwritten.as_ref().map(ToString::to_string),
    }
}

#[cfg(test)]
mod tests {
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
