//! The snapshots of a device, and their start.
//!
//! A write passes a barrier. While no snapshot exists, that costs a counter of the thread's own
//! shard and two loads. A snapshot starts with the barrier closed, so that each write is either
//! done before or kept apart.

use super::changes::{Bits, Changes};
use super::end::SnapshotEnd;
use super::preimages::Preimages;
use super::store::{SnapshotLimits, Store};
use crate::{BlockDevice, Error, range};
use std::ops::Range;
use std::time::{Duration, Instant};
use uext4_num::u64_of;
use uext4_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use uext4_sync::{Arc, FreezeBarrier, OnceLock, Rank, RwLock, Weak, thread};

/// First pause between two tries to start; each further one is twice as long.
const RETRY: Duration = Duration::from_millis(20);
/// Longest pause between two tries.
const RETRY_MAX: Duration = Duration::from_secs(1);

/// A check before a write.
type Check = Box<dyn Fn() -> Result<(), Error> + Send + Sync>;

/// See the module.
pub struct Snapshots {
    writes: FreezeBarrier,
    is_active: AtomicBool,
    current: RwLock<Arc<[Arc<Preimages>]>>,
    is_tracked: AtomicBool,
    tracked: RwLock<Arc<[Arc<Bits>]>>,
    device: Weak<dyn BlockDevice>,
    lease: OnceLock<Lease>,
    left_bytes: AtomicU64,
}

/// A right to write that ends after some time.
struct Lease {
    /// The range by which it is renewed.
    own: Range<u64>,
    check: Check,
}

impl Lease {
    /// Whether it is renewed by a write of this range.
    fn has(&self, range: &Range<u64>) -> bool {
        self.own.start <= range.start && range.end <= self.own.end
    }
}

/// Snapshots of several devices at one moment.
pub struct Taken {
    /// In the order of the devices.
    pub snapshots: Vec<Arc<Snapshot>>,
    /// The longest time that writers waited.
    pub pause: Duration,
}

/// Tries to start a snapshot, until there is a moment without writes.
pub struct SnapshotStart {
    store: Arc<Store>,
    attempt: Duration,
    patience: Duration,
    begin: Instant,
    longest: Duration,
    gap: Duration,
}

impl SnapshotStart {
    /// No try was made yet.
    pub fn new(limits: SnapshotLimits) -> Self {
        Self {
            attempt: limits.pause,
            patience: limits.patience,
            store: Arc::new(Store::new(limits)),
            begin: Instant::now(),
            longest: Duration::ZERO,
            gap: RETRY,
        }
    }

    /// Tries to start a snapshot of all `layers`. `None` if writes that had begun did not end in
    /// time; those that wait go on, and the caller may try again. Callers take turns.
    ///
    /// # Errors
    /// [`Error::SnapshotEnded`] if the time for all tries is over, or a device is closed.
    pub fn attempt(&mut self, layers: &[Arc<Snapshots>]) -> Result<Option<Taken>, Error> {
        let start = Instant::now();
        let closed = Snapshots::close_all(layers, self.attempt);
        let added = closed.then(|| Snapshots::add_all(layers, &self.store));
        self.longest = self.longest.max(start.elapsed());
        if let Some(snapshots) = added {
            let (snapshots, pause) = (snapshots?, self.longest);
            return Ok(Some(Taken { snapshots, pause }));
        }
        if self.begin.elapsed() >= self.patience {
            let seconds = self.patience.as_secs();
            return Err(Error::SnapshotEnded(SnapshotEnd::NeverIdle { seconds }));
        }
        Ok(None)
    }

    /// Waits before the next try, so that writers get on.
    pub fn pause(&mut self) {
        thread::sleep(self.gap);
        self.gap = RETRY_MAX.min(self.gap * 2);
    }
}

impl Snapshots {
    pub(super) fn of(device: &Arc<dyn BlockDevice>) -> Self {
        Self {
            writes: FreezeBarrier::new(Rank::Device),
            is_active: AtomicBool::new(false),
            current: RwLock::new(Rank::Device, Arc::default()),
            is_tracked: AtomicBool::new(false),
            tracked: RwLock::new(Rank::Device, Arc::default()),
            device: Arc::downgrade(device),
            lease: OnceLock::new(),
            left_bytes: AtomicU64::new(0),
        }
    }

    /// Starts a snapshot of all `layers` at one moment between two writes. Callers take turns.
    ///
    /// # Errors
    /// As [`SnapshotStart::attempt`].
    pub fn take(layers: &[Arc<Self>], limits: SnapshotLimits) -> Result<Taken, Error> {
        let mut start = SnapshotStart::new(limits);
        loop {
            if let Some(taken) = start.attempt(layers)? {
                return Ok(taken);
            }
            start.pause();
        }
    }

    /// Closes all barriers, or none.
    fn close_all(layers: &[Arc<Self>], limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        for (nr, layer) in layers.iter().enumerate() {
            let left = deadline.saturating_duration_since(Instant::now());
            if !layer.writes.close_within(left) {
                layers[..nr].iter().for_each(|layer| layer.writes.open());
                return false;
            }
        }
        true
    }

    /// Adds a snapshot to each layer, and opens the barriers.
    fn add_all(layers: &[Arc<Self>], store: &Arc<Store>) -> Result<Vec<Arc<Snapshot>>, Error> {
        let added = layers.iter().map(|layer| layer.add(store)).collect();
        layers.iter().for_each(|layer| layer.writes.open());
        added
    }

    fn add(self: &Arc<Self>, store: &Arc<Store>) -> Result<Arc<Snapshot>, Error> {
        let device = self.device.upgrade();
        let device = device.ok_or(Error::SnapshotEnded(SnapshotEnd::Closed))?;
        let preimages = Arc::new(Preimages::new(device.size_bytes(), store.clone()));
        let mut current = self.current.write();
        *current = current.iter().chain([&preimages]).cloned().collect();
        self.is_active.store(true, Ordering::SeqCst);
        Ok(Arc::new(Snapshot {
            preimages,
            layer: self.clone(),
        }))
    }

    fn remove(&self, ended: &Arc<Preimages>) {
        let mut current = self.current.write();
        let others = current.iter().filter(|other| !Arc::ptr_eq(other, ended));
        *current = others.cloned().collect();
        self.is_active.store(!current.is_empty(), Ordering::SeqCst);
    }

    /// Notes from now on which parts of the device are written. A snapshot that is taken later
    /// differs from one that was taken after this call by those alone.
    ///
    /// # Errors
    /// [`Error::SnapshotEnded`] if the device is closed.
    pub fn track(self: &Arc<Self>) -> Result<Changes, Error> {
        let device = self.device.upgrade();
        let device = device.ok_or(Error::SnapshotEnded(SnapshotEnd::Closed))?;
        let bits = Arc::new(Bits::new(device.size_bytes()));
        let mut tracked = self.tracked.write();
        *tracked = tracked.iter().chain([&bits]).cloned().collect();
        self.is_tracked.store(true, Ordering::SeqCst);
        drop(tracked);
        Ok(Changes::new(bits, self.clone()))
    }

    pub(super) fn forget(&self, ended: &Arc<Bits>) {
        let mut tracked = self.tracked.write();
        let others = tracked.iter().filter(|other| !Arc::ptr_eq(other, ended));
        *tracked = others.cloned().collect();
        self.is_tracked.store(!tracked.is_empty(), Ordering::SeqCst);
    }

    fn mark_tracked(&self, range: &Range<u64>) {
        if self.is_tracked.load(Ordering::SeqCst) {
            let tracked = self.tracked.read().clone();
            tracked.iter().for_each(|bits| bits.mark(range));
        }
    }

    /// Ends all that is noted of changes: from now on other programs may write the device.
    pub fn end_tracking(&self) {
        let tracked = self.tracked.read().clone();
        tracked.iter().for_each(|bits| bits.close());
    }

    /// Ends all snapshots, and what is noted of changes: later writes may pass no layer.
    pub fn end_all(&self, why: SnapshotEnd) {
        self.end_tracking();
        let current = self.current.read().clone();
        current.iter().for_each(|preimages| preimages.end(why));
    }

    /// Has `check` run again before a write outside `own` whose old content was kept: that may take
    /// longer than the right to write lasts. `check` may write to `own`. The first call counts.
    pub fn set_lease(
        &self,
        own: Range<u64>,
        check: impl Fn() -> Result<(), Error> + Send + Sync + 'static,
    ) {
        let check = Box::new(check);
        // One file system has one lease.
        let _ = self.lease.set(Lease { own, check });
    }

    /// Whether a snapshot exists, so that old contents are kept.
    pub fn is_active(&self) -> bool {
        self.is_active.load(Ordering::SeqCst)
    }

    /// Writes a range by `write`, once its old content is kept.
    ///
    /// # Errors
    /// Those of `write`, and of the lease.
    pub(super) fn change(
        &self,
        device: &dyn BlockDevice,
        range: Range<u64>,
        write: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let _pass = self.writes.enter();
        self.mark_tracked(&range);
        if self.is_active() {
            let current = self.current.read().clone();
            current
                .iter()
                .for_each(|preimages| preimages.preserve(device, range.clone()));
            match self.lease.get() {
                Some(lease) if !lease.has(&range) => (lease.check)()?,
                _ => {}
            }
        }
        write()
    }

    /// Changes a range by `work` if no snapshot exists, before one begins.
    pub(super) fn without_any(
        &self,
        range: &Range<u64>,
        work: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let _pass = self.writes.enter();
        if self.is_active() {
            let len = range.end.saturating_sub(range.start);
            self.left_bytes.fetch_add(len, Ordering::Relaxed);
            return Ok(());
        }
        self.mark_tracked(range);
        work()
    }

    /// Bytes that were to be discarded, and were left because of a snapshot; it only grows.
    pub fn left_bytes(&self) -> u64 {
        self.left_bytes.load(Ordering::Relaxed)
    }
}

/// What a device had at one moment. It ends when it is dropped.
///
/// A private device: no other host writes it, so an MMP block in it means nothing.
pub struct Snapshot {
    preimages: Arc<Preimages>,
    layer: Arc<Snapshots>,
}

/// Storage in use for what was overwritten since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotUsage {
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Bytes of the file.
    pub spilled_bytes: u64,
}

impl Snapshot {
    /// Ends it early: later reads fail with `why`.
    pub fn end(&self, why: SnapshotEnd) {
        self.preimages.end(why);
    }

    /// Why it cannot be read any more.
    pub fn ended(&self) -> Option<SnapshotEnd> {
        self.preimages.ended()
    }

    /// Storage in use, of all snapshots that were taken together.
    pub fn usage(&self) -> SnapshotUsage {
        let store = self.preimages.store();
        SnapshotUsage {
            memory_bytes: store.memory_bytes(),
            spilled_bytes: store.spilled_bytes(),
        }
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.layer.remove(&self.preimages);
    }
}

impl BlockDevice for Snapshot {
    fn size_bytes(&self) -> u64 {
        self.preimages.size_bytes()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        range::check(self.size_bytes(), offset, u64_of(buf.len()))?;
        let device = self.layer.device.upgrade();
        let device = device.ok_or(Error::SnapshotEnded(SnapshotEnd::Closed))?;
        self.preimages.read(&*device, offset, buf)
    }
    fn write_at(&self, _offset: u64, _buf: &[u8]) -> Result<(), Error> {
        Err(Error::ReadOnly)
    }
    fn write_zeroes(&self, _offset: u64, _len: u64) -> Result<(), Error> {
        Err(Error::ReadOnly)
    }
    fn discard(&self, _offset: u64, _len: u64) -> Result<(), Error> {
        Err(Error::ReadOnly)
    }
    fn flush(&self) -> Result<(), Error> {
        Ok(())
    }
    fn read_ahead(&self, offset: u64, len: u64) {
        if let Some(device) = self.layer.device.upgrade() {
            device.read_ahead(offset, len);
        }
    }
    fn is_read_only(&self) -> bool {
        true
    }
    fn is_private(&self) -> bool {
        true
    }
    fn describe(&self) -> String {
        let device = self.layer.device.upgrade();
        let name = device.map_or_else(String::new, |device| device.describe());
        format!("a snapshot of {name}")
    }
}
