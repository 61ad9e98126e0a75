//! A device that remembers every change and every flush, for crash tests.
//!
//! Invariants: a change enters the log before the inner device sees it, so that a crash while it
//! runs is among the enumerated ones; it notes the length of the log when it returned, so that
//! exactly the flushes that began later make it durable.
//! Recorders that lie side by side share a count of events, so that a crash of both is one moment.
//! Locking: the log is under one mutex ([`Rank::Device`]), never held during an access.

use crate::crash_log::{Change, CrashLog, Event, NEVER};
use crate::{BlockDevice, Error, MemDevice, Survivors};
use std::sync::Arc;
use uext4_sync::atomic::{AtomicU64, Ordering};
use uext4_sync::{Mutex, Rank};

/// Wraps a device and records what happens to it.
pub struct Recorder {
    inner: Arc<dyn BlockDevice>,
    /// Events of this recorder and of those beside it.
    moment: Arc<AtomicU64>,
    recording: Mutex<Recording>,
}

struct Recording {
    /// The device before the first event.
    base: Arc<MemDevice>,
    events: Vec<Event>,
    /// When each event came.
    moments: Vec<u64>,
}

impl Recording {
    fn new(base: MemDevice) -> Self {
        Self {
            base: Arc::new(base),
            events: Vec::new(),
            moments: Vec::new(),
        }
    }
}

impl Recorder {
    /// Records `inner` from its present bytes on.
    pub fn new(inner: Arc<MemDevice>) -> Self {
        let base = inner.snapshot();
        Self::with_base(inner, base)
    }

    /// Records any device; `base` must hold the bytes that it has now.
    pub fn with_base(inner: Arc<dyn BlockDevice>, base: MemDevice) -> Self {
        Self {
            inner,
            moment: Arc::default(),
            recording: Mutex::new(Rank::Device, Recording::new(base)),
        }
    }

    /// Records `inner`, too: a crash takes both devices at one moment
    /// ([`CrashLog::moments`]), though each has its own flushes.
    pub fn beside(&self, inner: Arc<MemDevice>) -> Self {
        Self {
            moment: self.moment.clone(),
            ..Self::new(inner)
        }
    }

    /// Notes that the caller reached a point of its own ("operation `label` returned").
    pub fn mark(&self, label: u64) {
        self.push(Event::Mark(label));
    }

    /// What was recorded so far.
    pub fn log(&self) -> CrashLog {
        let (base, events, moments) = {
            let recording = self.recording.lock();
            let (events, moments) = (recording.events.clone(), recording.moments.clone());
            (recording.base.clone(), events, moments)
        };
        CrashLog::with_moments(base.snapshot(), events, moments)
    }

    /// Forgets the events; the present bytes count as durable from now on. Not while an access
    /// runs.
    pub fn restart(&self) {
        let mut log = self.log();
        let base = log.image(log.len(), Survivors::All);
        *self.recording.lock() = Recording::new(base);
    }

    /// Appends an event and answers its index.
    fn push(&self, event: Event) -> usize {
        let mut recording = self.recording.lock();
        recording.events.push(event);
        let moment = self.moment.fetch_add(1, Ordering::Relaxed);
        recording.moments.push(moment);
        recording.events.len() - 1
    }

    fn change(
        &self,
        change: impl FnOnce() -> Change,
        access: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let index = self.push(Event::Change {
            change: change(),
            returned_at: NEVER,
        });
        let result = access();
        let mut recording = self.recording.lock();
        let now = recording.events.len();
        match recording.events.get_mut(index) {
            Some(event) if result.is_err() => *event = Event::Failed,
            Some(Event::Change { returned_at, .. }) => *returned_at = now,
            _ => {}
        }
        result
    }
}

impl BlockDevice for Recorder {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        self.inner.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), Error> {
        let change = || Change::Write {
            offset,
            bytes: buf.into(),
        };
        self.change(change, || self.inner.write_at(offset, buf))
    }
    fn write_vectored_at(&self, offset: u64, bufs: &[&[u8]]) -> Result<(), Error> {
        let change = || Change::Write {
            offset,
            bytes: bufs.concat().into(),
        };
        self.change(change, || self.inner.write_vectored_at(offset, bufs))
    }
    fn flush(&self) -> Result<(), Error> {
        let started = self.push(Event::FlushStarted);
        self.inner.flush()?;
        self.push(Event::FlushDone { started });
        Ok(())
    }
    fn discard(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.change(
            || Change::Discard { offset, len },
            || self.inner.discard(offset, len),
        )
    }
    fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.change(
            || Change::Zero { offset, len },
            || self.inner.write_zeroes(offset, len),
        )
    }
    fn read_ahead(&self, offset: u64, len: u64) {
        self.inner.read_ahead(offset, len);
    }
    fn is_rotational(&self) -> bool {
        self.inner.is_rotational()
    }
    fn is_read_only(&self) -> bool {
        self.inner.is_read_only()
    }
    fn describe(&self) -> String {
        format!("{}, recorded", self.inner.describe())
    }
}
