//! Recording device: logs every change and every flush, for crash tests.
//!
//! Invariants: a change enters the log before it reaches the inner device, so a crash during the
//! change is among the enumerated ones. When it returns, it records the length of the log, so
//! exactly the flushes that began later make it durable.
//! Recorders made by [`Recorder::beside`] share an event counter, so that one moment cuts both
//! logs.
//! Locking: the log is under one mutex ([`Rank::Device`]), never held during an access.

use crate::crash_log::{Change, CrashLog, Durability, Event, NEVER};
use crate::{BlockDevice, Error, MemDevice, Survivors};
use uext4_sync::atomic::{AtomicU64, Ordering};
use uext4_sync::{Arc, Mutex, Rank};

/// Wraps a device and records its changes and flushes.
pub struct Recorder {
    inner: Arc<dyn BlockDevice>,
    /// Event counter, shared with the recorders beside this one.
    moment: Arc<AtomicU64>,
    recording: Mutex<Recording>,
}

struct Recording {
    /// The device before the first event.
    base: Arc<MemDevice>,
    events: Vec<Event>,
    /// The value of `moment` at each event.
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

    /// Records any device; `base` must hold its current bytes.
    pub fn with_base(inner: Arc<dyn BlockDevice>, base: MemDevice) -> Self {
        Self {
            inner,
            moment: Arc::default(),
            recording: Mutex::new(Rank::Device, Recording::new(base)),
        }
    }

    /// Also records `inner`. A crash takes both devices at one moment ([`CrashLog::moments`]),
    /// though each has flushes of its own.
    pub fn beside(&self, inner: Arc<MemDevice>) -> Self {
        Self {
            moment: self.moment.clone(),
            ..Self::new(inner)
        }
    }

    /// Records a mark of the caller ("operation `label` returned").
    pub fn mark(&self, label: u64) {
        self.push(Event::Mark(label));
    }

    /// The log of the events so far, with a snapshot of the initial content.
    pub fn log(&self) -> CrashLog {
        let (base, events, moments) = {
            let recording = self.recording.lock();
            let (events, moments) = (recording.events.clone(), recording.moments.clone());
            (recording.base.clone(), events, moments)
        };
        CrashLog::with_moments(base.snapshot(), events, moments)
    }

    /// Clears the log; the current bytes count as durable from now on. Must not run during an
    /// access.
    pub fn restart(&self) {
        let mut log = self.log();
        let base = log.image(log.len(), Survivors::All);
        *self.recording.lock() = Recording::new(base);
    }

    /// Appends an event and returns its index.
    fn push(&self, event: Event) -> usize {
        self.push_to(&mut self.recording.lock(), event)
    }

    fn push_to(&self, recording: &mut Recording, event: Event) -> usize {
        recording.events.push(event);
        let moment = self.moment.fetch_add(1, Ordering::Relaxed);
        recording.moments.push(moment);
        recording.events.len() - 1
    }

    fn change(
        &self,
        change: impl FnOnce() -> Change,
        durability: Durability,
        access: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let index = self.push(Event::Change {
            change: change(),
            durability,
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
        if result.is_ok() && durability == Durability::Durable {
            self.push_to(&mut recording, Event::DurableDone { started: index });
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
        let cached = Durability::Cached;
        self.change(
            || Change::Write {
                offset,
                bytes: buf.into(),
            },
            cached,
            || self.inner.write_at(offset, buf),
        )
    }
    fn write_durable_at(&self, offset: u64, buf: &[u8]) -> Result<(), Error> {
        self.change(
            || Change::Write {
                offset,
                bytes: buf.into(),
            },
            Durability::Durable,
            || self.inner.write_durable_at(offset, buf),
        )
    }
    fn write_vectored_at(&self, offset: u64, bufs: &[&[u8]]) -> Result<(), Error> {
        self.change(
            || Change::Write {
                offset,
                bytes: bufs.concat().into(),
            },
            Durability::Cached,
            || self.inner.write_vectored_at(offset, bufs),
        )
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
            Durability::Cached,
            || self.inner.discard(offset, len),
        )
    }
    fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.change(
            || Change::Zero { offset, len },
            Durability::Cached,
            || self.inner.write_zeroes(offset, len),
        )
    }
    fn forget_cache(&self) {
        self.inner.forget_cache();
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
