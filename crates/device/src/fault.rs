//! Fault-injecting device: fails accesses, or claims success for accesses that it did not do.
//!
//! Faults are armed and disarmed at run time. An access checks the armed faults in the order of
//! arming; the first match ends it *before* it reaches the inner device.
//! Locking: the list is under one mutex ([`Rank::Device`]), never held during an access. While no
//! fault is armed, an access costs one atomic load.

use crate::{BlockDevice, Claimant, Error, VolatileDevice};
use rustix::io::Errno;
use std::ops::Range;
use std::time::Duration;
use uext4_num::{clamp_u64, u64_of};
use uext4_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use uext4_sync::{Arc, Mutex, Rank, Rng};

/// The operations that a fault can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Calls of `read_at`.
    Read,
    /// `write_at`, `write_vectored_at`, `write_zeroes`, `write_durable_at`.
    Write,
    /// Calls of `flush`, and the durability of `write_durable_at`.
    Flush,
    /// Calls of `discard`.
    Discard,
}

/// The accesses of its operation that a fault hits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum When {
    /// Every matching access fails.
    Always,
    /// `count` of them after the first `after`, counted from the arming.
    Counted {
        /// Number that pass first.
        after: u64,
        /// Number that fail after those.
        count: u64,
    },
    /// Those that touch a byte of this range.
    Touching(Range<u64>),
    /// Each with this probability; the seed and the order of accesses determine which ones.
    Random {
        /// Seed of the choices; with equal accesses, equal seeds fail the same ones.
        seed: u64,
        /// Failures per thousand accesses.
        per_mille: u64,
    },
}

/// Result of a failed access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The access fails with `EIO`.
    Io,
    /// `ENOSPC`, as from a thin or network device.
    NoSpace,
    /// Success, though the access failed: a write is missing, a flush has lost the cache, a read
    /// leaves the buffer unchanged. No file system can notice it at once; a test must notice later.
    Lie,
}

/// One fault to inject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The kind of access that it fails.
    pub operation: Operation,
    /// When it fails them.
    pub when: When,
    /// The error that the failed access returns.
    pub cause: Cause,
}

/// Whether a flush, and the durability of a durable write, reach the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flushes {
    /// Flushes and durable writes reach the device.
    Kept,
    /// A flush returns success and does nothing, and a durable write is an ordinary one, which a
    /// crash test must detect.
    Dropped,
}

struct Armed {
    fault: Fault,
    /// Accesses of its operation since the arming.
    seen: u64,
    choices: Rng,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Course {
    /// Passed to the inner device.
    Inward,
    /// Success without an access to the inner device.
    Claimed,
}

/// A random delay of the accesses of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delay {
    /// Seed of the choice of delayed accesses and of their delays.
    pub seed: u64,
    /// Delayed accesses per thousand.
    pub per_mille: u64,
    /// The upper bound of the delay.
    pub longest: Duration,
}

/// A device that forwards to another, except for injected faults.
pub struct Faulty {
    inner: Arc<dyn BlockDevice>,
    /// Drops the cache of the inner device; called for each flush that fails.
    lose_cache: Option<Box<dyn Fn() + Send + Sync>>,
    /// True while any field of the plan is in force.
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

    /// Delay of the next access.
    fn wait(&mut self) -> Option<Duration> {
        let (delay, choices) = self.delay.as_mut()?;
        let is_hit = choices.below(1000) < delay.per_mille;
        let longest = clamp_u64(delay.longest.as_micros());
        is_hit.then(|| Duration::from_micros(choices.below(longest.saturating_add(1))))
    }

    /// The result of this access if a fault hits it: an error, or `None` for a lie.
    fn verdict(&mut self, operation: Operation, touched: &Range<u64>) -> Option<Option<Errno>> {
        if self.vanished {
            return Some(Some(Errno::NODEV));
        }
        // Every fault counts the access, also those after the first match.
        let hits: Vec<Cause> = self
            .armed
            .iter_mut()
            .filter_map(|armed| armed.hits(operation, touched).then_some(armed.fault.cause))
            .collect();
        hits.first().map(|cause| match cause {
            Cause::Io => Some(Errno::IO),
            Cause::NoSpace => Some(Errno::NOSPC),
            Cause::Lie => None,
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
    /// A device that passes everything on, until faults are armed.
    pub fn new(inner: Arc<dyn BlockDevice>) -> Self {
        let plan = Plan {
            armed: Vec::new(),
            flushes: Flushes::Kept,
            vanished: false,
            delay: None,
        };
        Self {
            inner,
            lose_cache: None,
            active: AtomicBool::new(false),
            plan: Mutex::new(Rank::Device, plan),
            injected: AtomicU64::new(0),
        }
    }

    /// As [`Self::new`]; each failed flush loses the cache before it returns.
    pub fn over_cache<D: BlockDevice + 'static>(cache: Arc<VolatileDevice<D>>) -> Self {
        let inner = cache.clone();
        Self {
            lose_cache: Some(Box::new(move || cache.lose_cache())),
            ..Self::new(inner)
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

    /// Starts or stops the delay of accesses.
    pub fn set_delay(&self, delay: Option<Delay>) {
        self.change(|plan| plan.delay = delay.map(|delay| (delay, Rng::new(delay.seed))));
    }

    /// Disarms all faults; flushes, presence and delays stay as they are.
    pub fn disarm(&self) {
        self.change(|plan| plan.armed.clear());
    }

    /// Whether flushes reach the device from now on.
    pub fn set_flushes(&self, flushes: Flushes) {
        self.change(|plan| plan.flushes = flushes);
    }

    /// The backing disappears: every access fails with `ENODEV` until [`Self::come_back`].
    pub fn vanish(&self) {
        self.change(|plan| plan.vanished = true);
    }

    /// The backing reappears, with the bytes it had.
    pub fn come_back(&self) {
        self.change(|plan| plan.vanished = false);
    }

    /// Number of injected failures, including false successes.
    pub fn injected(&self) -> u64 {
        self.injected.load(Ordering::Acquire)
    }

    fn change(&self, change: impl FnOnce(&mut Plan)) {
        let mut plan = self.plan.lock();
        change(&mut plan);
        self.active.store(plan.is_active(), Ordering::Release);
    }

    /// Runs the access by `inward` unless a fault hits it.
    fn access(
        &self,
        operation: Operation,
        range: (u64, u64),
        inward: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        match self.course(operation, range.0, range.1)? {
            Course::Inward => inward(),
            Course::Claimed => Ok(()),
        }
    }

    fn drops_flushes(&self) -> bool {
        self.active.load(Ordering::Acquire) && self.plan.lock().flushes == Flushes::Dropped
    }

    /// Delays the access if told to; fails it if a fault hits it.
    fn course(&self, operation: Operation, offset: u64, len: u64) -> Result<Course, Error> {
        if !self.active.load(Ordering::Acquire) {
            return Ok(Course::Inward);
        }
        let touched = offset..offset.saturating_add(len);
        let (wait, verdict) = {
            let mut plan = self.plan.lock();
            (plan.wait(), plan.verdict(operation, &touched))
        };
        if let Some(time) = wait {
            uext4_sync::thread::sleep(time);
        }
        let Some(answer) = verdict else {
            return Ok(Course::Inward);
        };
        self.injected.fetch_add(1, Ordering::AcqRel);
        if let (Operation::Flush, Some(lose_cache)) = (operation, &self.lose_cache) {
            lose_cache();
        }
        let Some(errno) = answer else {
            return Ok(Course::Claimed);
        };
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
        let range = (offset, u64_of(buf.len()));
        self.access(Operation::Read, range, || self.inner.read_at(offset, buf))
    }
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), Error> {
        let range = (offset, u64_of(buf.len()));
        self.access(Operation::Write, range, || self.inner.write_at(offset, buf))
    }
    fn write_vectored_at(&self, offset: u64, bufs: &[&[u8]]) -> Result<(), Error> {
        let range = (offset, crate::range::total_bytes(bufs));
        self.access(Operation::Write, range, || {
            self.inner.write_vectored_at(offset, bufs)
        })
    }
    fn write_durable_at(&self, offset: u64, buf: &[u8]) -> Result<(), Error> {
        let range = (offset, u64_of(buf.len()));
        self.access(Operation::Write, range, || {
            match self.course(Operation::Flush, 0, 0)? {
                Course::Inward if !self.drops_flushes() => self.inner.write_durable_at(offset, buf),
                // Lost with the cache.
                Course::Claimed if self.lose_cache.is_some() => Ok(()),
                _ => self.inner.write_at(offset, buf),
            }
        })
    }
    fn flush(&self) -> Result<(), Error> {
        self.access(Operation::Flush, (0, 0), || {
            if self.drops_flushes() {
                Ok(())
            } else {
                self.inner.flush()
            }
        })
    }
    fn discard(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.access(Operation::Discard, (offset, len), || {
            self.inner.discard(offset, len)
        })
    }
    fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.access(Operation::Write, (offset, len), || {
            self.inner.write_zeroes(offset, len)
        })
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
    fn claim_for(&self, claimant: Claimant) -> Result<(), Error> {
        self.inner.claim_for(claimant)
    }
    fn describe(&self) -> String {
        format!("{} with faults", self.inner.describe())
    }
}

#[cfg(test)]
mod tests;
