//! A device that fails when told to.
//!
//! Faults are armed and disarmed at run time; an access asks the armed ones in the order of
//! arming, and the first that matches fails it *before* it reaches the inner device.
//! Locking: the list is under one mutex ([`Rank::Device`]), never held during an access; while
//! nothing is armed an access costs one atomic load.

use crate::{BlockDevice, Error, VolatileDevice};
use rustix::io::Errno;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use uext4_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use uext4_sync::{Mutex, Rank, Rng};

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// `read_at`.
    Read,
    /// `write_at`, `write_vectored_at`, `write_zeroes`.
    Write,
    /// `flush`.
    Flush,
    /// `discard`.
    Discard,
}

/// Which accesses of its operation a fault hits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum When {
    /// Each one.
    Always,
    /// `count` of them after the first `after`, counted from the arming.
    Counted {
        /// How many pass first.
        after: u64,
        /// How many fail then.
        count: u64,
    },
    /// Those that touch a byte of this range.
    Touching(Range<u64>),
    /// Each with this chance; which ones follows from the seed and the order of accesses.
    Random {
        /// Of the choices.
        seed: u64,
        /// Failures in a thousand accesses.
        per_mille: u64,
    },
}

/// The error that the operating system would answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// `EIO`.
    Io,
    /// `ENOSPC`, as a thin or network device answers.
    NoSpace,
}

/// One fault to inject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What it fails.
    pub operation: Operation,
    /// When.
    pub when: When,
    /// With which error.
    pub cause: Cause,
}

/// Whether a flush reaches the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flushes {
    /// It does.
    Kept,
    /// It answers success and does nothing: the lie that a crash test must notice.
    Dropped,
}

struct Armed {
    fault: Fault,
    /// Accesses of its operation since the arming.
    seen: u64,
    choices: Rng,
}

/// Accesses that take longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay {
    /// Of the choices which ones.
    pub seed: u64,
    /// Delayed ones in a thousand accesses.
    pub per_mille: u64,
    /// How long at most.
    pub longest: Duration,
}

/// A device that forwards to another, except for injected faults.
pub struct Faulty {
    inner: Arc<dyn BlockDevice>,
    /// Lost with each flush that fails.
    cache: Option<Arc<VolatileDevice>>,
    /// True when anything below is in force.
    active: AtomicBool,
    plan: Mutex<Plan>,
    injected: AtomicU64,
}

struct Plan {
    armed: Vec<Armed>,
    flushes: Flushes,
    vanished: bool,
    delay: Option<(Delay, Rng)>,
}

impl Plan {
    fn is_active(&self) -> bool {
        let is_late = self.delay.is_some();
        self.vanished || self.flushes == Flushes::Dropped || is_late || !self.armed.is_empty()
    }

    /// How long the next access waits first.
    fn wait(&mut self) -> Option<Duration> {
        let (delay, choices) = self.delay.as_mut()?;
        let is_hit = choices.below(1000) < delay.per_mille;
        let longest = delay.longest.as_micros() as u64;
        is_hit.then(|| Duration::from_micros(choices.below(longest + 1)))
    }

    /// The error for this access, if it is to fail.
    fn verdict(&mut self, operation: Operation, touched: &Range<u64>) -> Option<Errno> {
        if self.vanished {
            return Some(Errno::NODEV);
        }
        let hit = |armed: &mut Armed| armed.hits(operation, touched).then_some(armed.fault.cause);
        // Every fault counts the access, also those behind the one that hits.
        let hits: Vec<Cause> = self.armed.iter_mut().filter_map(hit).collect();
        hits.first().map(|cause| match cause {
            Cause::Io => Errno::IO,
            Cause::NoSpace => Errno::NOSPC,
        })
    }
}

impl Armed {
    fn hits(&mut self, operation: Operation, touched: &Range<u64>) -> bool {
        if self.fault.operation != operation {
            return false;
        }
        let nr = self.seen;
        self.seen += 1;
        match &self.fault.when {
            When::Always => true,
            When::Counted { after, count } => nr >= *after && nr - after < *count,
            When::Touching(bytes) => touched.start < bytes.end && bytes.start < touched.end,
            When::Random { per_mille, .. } => self.choices.below(1000) < *per_mille,
        }
    }
}

impl Faulty {
    /// A device without faults.
    pub fn new(inner: Arc<dyn BlockDevice>) -> Self {
        let plan = Plan {
            armed: Vec::new(),
            flushes: Flushes::Kept,
            vanished: false,
            delay: None,
        };
        Self {
            inner,
            cache: None,
            active: AtomicBool::new(false),
            plan: Mutex::new(Rank::Device, plan),
            injected: AtomicU64::new(0),
        }
    }

    /// As [`Self::new`]; each flush that fails loses the cache before it answers.
    pub fn over_cache(cache: Arc<VolatileDevice>) -> Self {
        Self {
            cache: Some(cache.clone()),
            ..Self::new(cache)
        }
    }

    /// Adds a fault to those in force.
    pub fn arm(&self, fault: Fault) {
        let seed = match fault.when {
            When::Random { seed, .. } => seed,
            _ => 0,
        };
        self.change(|plan| {
            plan.armed.push(Armed {
                fault,
                seen: 0,
                choices: Rng::new(seed),
            });
        });
    }

    /// Delays accesses from now on, or no longer.
    pub fn set_delay(&self, delay: Option<Delay>) {
        self.change(|plan| plan.delay = delay.map(|delay| (delay, Rng::new(delay.seed))));
    }

    /// Takes back every armed fault; flushes and presence stay as they are.
    pub fn disarm(&self) {
        self.change(|plan| plan.armed.clear());
    }

    /// Whether flushes reach the device from now on.
    pub fn set_flushes(&self, flushes: Flushes) {
        self.change(|plan| plan.flushes = flushes);
    }

    /// The backing is gone: every access fails with `ENODEV` until [`Self::come_back`].
    pub fn vanish(&self) {
        self.change(|plan| plan.vanished = true);
    }

    /// The backing is there again, with the bytes it had.
    pub fn come_back(&self) {
        self.change(|plan| plan.vanished = false);
    }

    /// How many accesses were failed so far.
    pub fn injected(&self) -> u64 {
        self.injected.load(Ordering::Acquire)
    }

    fn change(&self, change: impl FnOnce(&mut Plan)) {
        let mut plan = self.plan.lock();
        change(&mut plan);
        self.active.store(plan.is_active(), Ordering::Release);
    }

    /// Fails the access if a fault says so.
    fn pass(&self, operation: Operation, offset: u64, len: u64) -> Result<(), Error> {
        if !self.active.load(Ordering::Acquire) {
            return Ok(());
        }
        let touched = offset..offset.saturating_add(len);
        let (wait, verdict) = {
            let mut plan = self.plan.lock();
            (plan.wait(), plan.verdict(operation, &touched))
        };
        if let Some(time) = wait {
            std::thread::sleep(time);
        }
        let Some(errno) = verdict else {
            return Ok(());
        };
        self.injected.fetch_add(1, Ordering::AcqRel);
        if let (Operation::Flush, Some(cache)) = (operation, &self.cache) {
            cache.lose_cache();
        }
        let op = match operation {
            Operation::Read => "read",
            Operation::Write => "write",
            Operation::Flush => "flush",
            Operation::Discard => "discard",
        };
        Err(Error::io(op, offset, len, errno))
    }
}

impl BlockDevice for Faulty {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        self.pass(Operation::Read, offset, buf.len() as u64)?;
        self.inner.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), Error> {
        self.pass(Operation::Write, offset, buf.len() as u64)?;
        self.inner.write_at(offset, buf)
    }
    fn write_vectored_at(&self, offset: u64, bufs: &[&[u8]]) -> Result<(), Error> {
        self.pass(Operation::Write, offset, crate::range::total_bytes(bufs))?;
        self.inner.write_vectored_at(offset, bufs)
    }
    fn flush(&self) -> Result<(), Error> {
        self.pass(Operation::Flush, 0, 0)?;
        if self.active.load(Ordering::Acquire) && self.plan.lock().flushes == Flushes::Dropped {
            return Ok(());
        }
        self.inner.flush()
    }
    fn discard(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.pass(Operation::Discard, offset, len)?;
        self.inner.discard(offset, len)
    }
    fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.pass(Operation::Write, offset, len)?;
        self.inner.write_zeroes(offset, len)
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
        format!("{} with faults", self.inner.describe())
    }
}

#[cfg(test)]
mod tests;
