//! Recording device: keeps every write and flush, and simulates a crash after any of them.

use std::sync::Arc;
use uext4_device::{BlockDevice, Error};
use uext4_format::jbd2::{BlockType, Header};
use uext4_sync::{Mutex, Rank, Rng};

const SECTOR: usize = 512;

#[derive(Clone, Debug)]
pub(super) enum Event {
    Write(usize, Vec<u8>),
    /// A durable write.
    Durable(usize, Vec<u8>),
    Flush,
}

impl Event {
    fn written(&self) -> Option<(usize, &[u8])> {
        match self {
            Event::Write(at, bytes) | Event::Durable(at, bytes) => Some((*at, bytes)),
            Event::Flush => None,
        }
    }
}

struct Inner {
    start: Vec<u8>,
    now: Vec<u8>,
    events: Vec<Event>,
    fail_after: Option<usize>,
}

/// Bytes in memory, with all events since the device was made.
pub(super) struct Recorder(Mutex<Inner>);

impl Recorder {
    pub(super) fn new(bytes: Vec<u8>) -> Arc<Recorder> {
        let inner = Inner {
            start: bytes.clone(),
            now: bytes,
            events: vec![],
            fail_after: None,
        };
        Arc::new(Recorder(Mutex::new(Rank::Device, inner)))
    }
    pub(super) fn bytes(&self) -> Vec<u8> {
        self.0.lock().now.clone()
    }
    /// Number of writes and flushes so far.
    pub(super) fn len(&self) -> usize {
        self.0.lock().events.len()
    }
    /// The events from `from` on: kind and bytes.
    pub(super) fn kinds(&self, from: usize) -> Vec<(&'static str, usize)> {
        let kind = |event: &Event| match event {
            Event::Write(_, bytes) => ("write", bytes.len()),
            Event::Durable(_, bytes) => ("durable", bytes.len()),
            Event::Flush => ("flush", 0),
        };
        self.0.lock().events[from..].iter().map(kind).collect()
    }
    /// Lets writes fail from event `len` on.
    pub(super) fn fail_after(&self, len: usize) {
        self.0.lock().fail_after = Some(len);
    }
    fn write(&self, event: Event) -> Result<(), Error> {
        let mut inner = self.0.lock();
        if inner
            .fail_after
            .is_some_and(|len| inner.events.len() >= len)
        {
            return Err(Error::ReadOnly);
        }
        if let Some((at, bytes)) = event.written() {
            inner.now[at..at + bytes.len()].copy_from_slice(bytes);
        }
        inner.events.push(event);
        Ok(())
    }
    /// True when one of the events from `from` to `to` is a flush.
    pub(super) fn is_flushed_between(&self, from: usize, to: usize) -> bool {
        self.0.lock().events[from..to]
            .iter()
            .any(|event| matches!(event, Event::Flush))
    }

    /// Number of flushes so far.
    #[cfg(not(shuttle))]
    pub(super) fn flushes(&self) -> usize {
        let inner = self.0.lock();
        let flushes = inner
            .events
            .iter()
            .filter(|event| matches!(event, Event::Flush));
        flushes.count()
    }

    /// The disk with only the first sector of its last commit block written.
    pub(super) fn with_torn_commit_block(&self) -> Vec<u8> {
        let inner = self.0.lock();
        let is_commit = |event: &Event| {
            let header = event.written().and_then(|(_, bytes)| Header::parse(bytes));
            header.is_some_and(|header| header.block_type == BlockType::Commit)
        };
        let last = inner.events.iter().rposition(is_commit).expect("a commit");
        let mut disk = inner.start.clone();
        for (nr, event) in inner.events[..=last].iter().enumerate() {
            if let Some((at, bytes)) = event.written() {
                let arrived = if nr == last { SECTOR } else { bytes.len() };
                disk[at..at + arrived].copy_from_slice(&bytes[..arrived]);
            }
        }
        disk
    }

    /// A possible disk after a crash after `cut` events: all flushed and durable writes, and any
    /// subset of the other sectors.
    pub(super) fn crash(&self, cut: usize, rng: &mut Rng) -> Vec<u8> {
        let inner = self.0.lock();
        let events = &inner.events[..cut];
        let flushed = events
            .iter()
            .rposition(|event| matches!(event, Event::Flush));
        let flushed = flushed.map_or(0, |at| at + 1);
        let mut disk = inner.start.clone();
        for event in &events[..flushed] {
            if let Some((at, bytes)) = event.written() {
                disk[at..at + bytes.len()].copy_from_slice(bytes);
            }
        }
        let mut sectors: Vec<(usize, &[u8])> = Vec::new();
        for event in &events[flushed..] {
            let Some((at, bytes)) = event.written() else {
                continue;
            };
            if let Event::Durable(..) = event {
                // Older writes of its sectors do not come back over it.
                sectors.retain(|(other, _)| !(at..at + bytes.len()).contains(other));
                disk[at..at + bytes.len()].copy_from_slice(bytes);
            } else {
                let parts = bytes.chunks(SECTOR).enumerate();
                sectors.extend(parts.map(|(i, s)| (at + i * SECTOR, s)));
            }
        }
        let keep = [0, 1, 5, 9, 10][rng.below(5) as usize];
        for i in (1..sectors.len()).rev() {
            sectors.swap(i, rng.below(i as u64 + 1) as usize);
        }
        for (at, bytes) in sectors {
            if rng.chance(keep, 10) {
                disk[at..at + bytes.len()].copy_from_slice(bytes);
            }
        }
        disk
    }
}

impl BlockDevice for Recorder {
    fn size_bytes(&self) -> u64 {
        self.0.lock().now.len() as u64
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        let inner = self.0.lock();
        let (at, len, size) = (offset as usize, buf.len(), inner.now.len());
        let range = at..at.saturating_add(len);
        let from = inner.now.get(range).ok_or(Error::OutOfRange {
            offset,
            len: len as u64,
            size_bytes: size as u64,
        })?;
        buf.copy_from_slice(from);
        Ok(())
    }
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), Error> {
        self.write(Event::Write(offset as usize, buf.to_vec()))
    }
    fn write_vectored_at(&self, offset: u64, bufs: &[&[u8]]) -> Result<(), Error> {
        self.write(Event::Write(offset as usize, bufs.concat()))
    }
    fn write_durable_at(&self, offset: u64, buf: &[u8]) -> Result<(), Error> {
        self.write(Event::Durable(offset as usize, buf.to_vec()))
    }
    fn flush(&self) -> Result<(), Error> {
        self.0.lock().events.push(Event::Flush);
        Ok(())
    }
    fn is_read_only(&self) -> bool {
        false
    }
    fn describe(&self) -> String {
        "recorder".into()
    }
}
