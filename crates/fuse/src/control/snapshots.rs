//! Takes snapshots of the mount, and serves the connections that read them.
//!
//! Layout: `snapshot_list` has those that are being read, `snapshot_channel` the stream of a
//! client, `snapshot_wire` the messages.
//! Invariants: a snapshot belongs to a connection, and ends with it; so a client that is killed
//! leaves nothing. The thread of a connection has the priority of all others: it takes part in
//! commits, and has locks that writers wait for.

use super::line::Lines;
use super::snapshot_chain::Chain;
use super::snapshot_channel::Channel;
use super::snapshot_list::{Entry, Running, pause_us};
use super::snapshot_wire::{
    EARLIER, HEAD_BYTES, Head, READ_BYTES_MAX, SEND_FILE, SnapshotWanted, Status, Taken,
    end_to_bytes,
};
use super::socket::CLIENT_LIMIT;
use super::verbs::Mount;
use super::wire::{Refusal, answer};
use crate::mount_table::connection_of_device;
use rustix::fs::{FileType, Stat};
use std::fs::File;
use std::io::{self, Write};
use uext4::device::{self, BlockDevice, SnapshotLimits};
use uext4_num::{clamp_u32, u64_of, usize_of};
use uext4_sync::atomic::Ordering;

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
        let head = Head::parse(head).ok_or(io::ErrorKind::InvalidData)?;
        if !answer_head(channel, mount, &mut entry, head, &mut bytes)? {
            return Ok(());
        }
    }
}

/// Answers a request; false at the end of the stream.
fn answer_head(
    channel: &Channel<'_>,
    mount: &Mount,
    entry: &mut Entry<'_>,
    head: Head,
    bytes: &mut [u8],
) -> io::Result<bool> {
    let running = entry.running.clone();
    match head {
        Head::Read {
            device,
            offset,
            len,
        } => {
            read(
                channel,
                &running,
                device,
                offset,
                &mut bytes[..usize_of(len)],
            )?;
            return Ok(true);
        }
        // A snapshot has one result, and makes one copy.
        Head::Result { .. } if entry.result.is_some() => {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Head::Result { len } => {
            let text = &mut bytes[..usize_of(len)];
            if !channel.receive(text)? {
                return Ok(false);
            }
            entry.result = serde_json::from_slice(text).ok();
            if let Some(result) = &entry.result {
                running.chain.keep(&mount.snapshots.copies, result);
            }
        }
        Head::Progress { pass, thousandths } => running.set_progress(pass, thousandths),
        Head::Differs { len } => {
            let granules = &mut bytes[..usize_of(len)];
            if !channel.receive(granules)? {
                return Ok(false);
            }
            mark_differences(&running, granules);
        }
    }
    channel.answer(Status::Data, &[])?;
    Ok(true)
}

/// Notes granules in which the copy of the client is not as the snapshot.
fn mark_differences(running: &Running, granules: &[u8]) {
    let Some((_, changes)) = &running.chain.noted else {
        return;
    };
    let (granules, _) = granules.as_chunks();
    granules
        .iter()
        .for_each(|nr| changes.mark(u64::from_ne_bytes(*nr)));
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
    if device == EARLIER {
        if !running.chain.read_earlier(offset, bytes) {
            return channel.answer(Status::Failed, b"there are no such bits");
        }
        return channel.answer(Status::Data, bytes);
    }
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
    let filesystem = mount.filesystem();
    let mut chain = Chain::begin(filesystem, &mount.snapshots.copies, wanted)?;
    let snapshot = filesystem.snapshot(limits)?;
    if snapshot.unwritten.is_some() {
        // What is missing in this copy is written later, and perhaps not at all.
        chain.noted = None;
    }
    let noted = chain.noted.take();
    chain.noted = noted.filter(|(_, changes)| changes.is_complete());
    if chain
        .earlier
        .as_ref()
        .is_some_and(|copy| !copy.changes.is_complete())
    {
        return Err(Refusal::invalid(
            "the mount ends, or does not write any more",
        ));
    }
    Ok(mount.snapshots.add(wanted, snapshot, chain))
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
        noted: running.chain.noted(),
        earlier: running.chain.earlier(),
    }
}
