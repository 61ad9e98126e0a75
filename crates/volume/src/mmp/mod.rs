//! Multiple mount protection: a lease on the file system, kept in a shared block of the device.
//!
//! A writable mount waits until the block stays unchanged for the check interval, writes its own
//! sequence number, waits again, and then renews the number until the unmount.
//!
//! Invariants: a host that claims the file system waits at least `wait_seconds` between two reads
//! of the block, and again after it wrote its number. A holder writes only for `lease`, which is
//! shorter, after its last read that showed its own number: `Claim::check` runs before every write.
//! A holder that was stopped for longer (`SIGSTOP`, a suspended machine) renews before it writes.
//!
//! Each renewal reads the block before and after it writes it; a foreign number ends the claim, and
//! with it every write. Written data leave the page cache at once (`BlockDevice::write_out`), so
//! that the kernel writes none of them back long after the process was stopped. A few instructions
//! separate the check from the write; a process stopped exactly there writes late.
//!
//! Locking: the written block under [`uext4_sync::Rank::Claim`], over its reads and writes.
//! References: kernel documentation, `filesystems/ext4/mmp.rst`.

mod slot;

use crate::superblock::read_superblock;
use crate::{Access, Error, Result};
use slot::{Slot, field};
use std::time::Duration;
use uext4_device::{BlockDevice, Error as DeviceError};
use uext4_format::mmp::{
    MMP_MIN_CHECK_INTERVAL_SECONDS, MMP_SEQ_CLEAN, MMP_SEQ_FSCK, MMP_SEQ_MAX,
    MMP_UPDATE_INTERVAL_SECONDS, Mmp,
};
use uext4_format::{Feature, Superblock};
use uext4_journal::Journal;
use uext4_num::{clamp_u32, clamp_u64, nonnegative};
use uext4_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use uext4_sync::{Arc, Clock, Mutex, OnceLock, Rank, Weak};

/// Largest excess of a wait over the check interval, in seconds, as in the kernel.
const WAIT_MORE_MAX_SECONDS: u64 = 60;
/// Poll interval of the renewing thread.
const STEP: Duration = Duration::from_millis(100);
/// Pause before a failed renewal is retried.
const RETRY: Duration = Duration::from_secs(1);
/// The end of the lease while nothing is claimed: writes are not restricted.
const UNCLAIMED: u64 = u64::MAX;

/// Wait of a claiming host, in seconds, for a holder with this check interval.
fn wait_seconds(check_interval: u16) -> u64 {
    let check = u64::from(check_interval);
    (check * 2 + 1).min(check + WAIT_MORE_MAX_SECONDS)
}

/// Time that a holder may write after it saw its own number.
fn lease(check_interval: u16) -> Duration {
    Duration::from_secs(wait_seconds(check_interval) - 1)
}

/// The claim of a mount on its file system.
pub struct Claim {
    slot: Slot,
    interval_seconds: u16,
    clock: Arc<dyn Clock>,
    written: Mutex<Written>,
    /// End of the lease, in nanoseconds since boot, time of suspension included.
    end_ns: AtomicU64,
    /// The error that ended the claim early.
    lost: OnceLock<DeviceError>,
    /// The journal to stop when the claim is lost.
    journal: OnceLock<Weak<Journal>>,
}

/// The block as this mount wrote it.
struct Written {
    mmp: Mmp,
    /// The number of a failed write, which may be on the device.
    attempted: Option<u32>,
}

impl Written {
    fn is(&self, found: &Mmp) -> bool {
        let number = found.sequence;
        found.node_name == self.mmp.node_name
            && (number == self.mmp.sequence || Some(number) == self.attempted)
    }
}

impl Claim {
    /// Whether it is of this device.
    pub fn is_of(&self, device: &Arc<dyn BlockDevice>) -> bool {
        Arc::ptr_eq(&self.slot.device, device)
    }

    /// The claim for a file system with MMP, not taken yet. A private device needs none.
    ///
    /// # Errors
    /// Damage of the superblock.
    pub fn new(
        device: &Arc<dyn BlockDevice>,
        superblock: &Superblock,
        clock: &Arc<dyn Clock>,
    ) -> Result<Option<Arc<Self>>> {
        if !superblock.features().has(Feature::MMP) || device.is_private() {
            return Ok(None);
        }
        let mmp = Mmp {
            node_name: field(rustix::system::uname().nodename().to_str().unwrap_or("?")),
            device_name: field(device_name(&device.describe())),
            ..Mmp::clean(0)
        };
        let attempted = None;
        Ok(Some(Arc::new(Self {
            slot: Slot::new(device.clone(), superblock)?,
            interval_seconds: superblock
                .mmp_update_interval
                .max(MMP_UPDATE_INTERVAL_SECONDS),
            clock: clock.clone(),
            written: Mutex::new(Rank::Claim, Written { mmp, attempted }),
            end_ns: AtomicU64::new(UNCLAIMED),
            lost: OnceLock::new(),
            journal: OnceLock::new(),
        })))
    }

    /// Byte range of the block, which only the claim writes.
    pub fn range(&self) -> std::ops::Range<u64> {
        self.slot.range()
    }

    /// Sets the journal to stop when the claim is lost.
    pub fn watch(&self, journal: &Arc<Journal>) {
        // One mount has one journal.
        let _ = self.journal.set(Arc::downgrade(journal));
    }

    /// Whether the claim is held, so that writes must leave the cache at once.
    pub fn is_held(&self) -> bool {
        self.end_ns.load(Ordering::Relaxed) != UNCLAIMED
    }

    /// Runs before every write: returns `Ok` while the lease is valid.
    ///
    /// # Errors
    /// [`DeviceError::Taken`]; an error of the device, if the renewal failed.
    pub fn check(&self) -> std::result::Result<(), DeviceError> {
        if let Some(cause) = self.lost.get() {
            return Err(cause.clone());
        }
        if now_ns() < self.end_ns.load(Ordering::Acquire) {
            return Ok(());
        }
        self.renew(Renewal::IfOver).map_err(|error| match error {
            Error::Device(error) => error,
            other => DeviceError::io("read", self.range().start, 0, std::io::Error::other(other)),
        })
    }

    /// Waits until no other host uses the file system, and claims it.
    fn take(&self) -> Result<()> {
        let found = await_silence(&self.slot, self.interval_seconds)?;
        let now = self.clock.wall();
        let check = check_interval(&found, self.interval_seconds);
        let mut written = self.written.lock();
        written.mmp.check_interval = check;
        written.mmp.sequence = 1 + (now.nanoseconds ^ std::process::id()) % (MMP_SEQ_MAX - 1);
        written.mmp.time = nonnegative(now.seconds);
        self.slot.write(&written.mmp)?;
        sleep(wait_seconds(check));
        let checked_ns = now_ns();
        let found = self.slot.read()?;
        if !written.is(&found) {
            return Err(self.slot.busy(&found));
        }
        self.extend(checked_ns, check);
        Ok(())
    }

    /// Writes the next number; reads the block before and after.
    fn renew(&self, when: Renewal) -> Result<()> {
        let mut written = self.written.lock();
        if when == Renewal::IfOver && now_ns() < self.end_ns.load(Ordering::Acquire) {
            // Another thread was first.
            return Ok(());
        }
        self.check_unchanged(&written)?;
        let next = Mmp {
            sequence: 1 + written.mmp.sequence % MMP_SEQ_MAX,
            time: nonnegative(self.clock.wall().seconds),
            ..written.mmp.clone()
        };
        written.attempted = Some(next.sequence);
        self.slot.write(&next)?;
        written.mmp = next;
        written.attempted = None;
        let checked_ns = now_ns();
        self.check_unchanged(&written)?;
        self.extend(checked_ns, written.mmp.check_interval);
        Ok(())
    }

    /// Checks that the block is as this mount left it; if not, the claim is lost for good.
    fn check_unchanged(&self, written: &Written) -> Result<()> {
        if let Some(cause) = self.lost.get() {
            return Err(Error::Device(cause.clone()));
        }
        let found = self.slot.read()?;
        if written.is(&found) {
            return Ok(());
        }
        let user = slot::user(&found);
        let cause = self.lost.get_or_init(|| DeviceError::Taken { user });
        Err(Error::Device(cause.clone()))
    }

    fn extend(&self, checked_ns: u64, check_interval: u16) {
        let lease_ns = clamp_u64(lease(check_interval).as_nanos());
        self.end_ns.store(checked_ns + lease_ns, Ordering::Release);
    }

    /// Renews until stopped, or until the claim is lost.
    fn keep(&self, stop: &AtomicBool) {
        let interval = Duration::from_secs(self.interval_seconds.into());
        let mut due_ns = now_ns() + clamp_u64(interval.as_nanos());
        while !stop.load(Ordering::Relaxed) {
            uext4_sync::thread::sleep(STEP);
            if now_ns() < due_ns {
                continue;
            }
            // After a failed renewal the lease expires; each write then renews itself, and gets the
            // error.
            let pause = match self.renew(Renewal::Now) {
                Ok(()) => interval,
                Err(_) => RETRY,
            };
            if let Some(cause) = self.lost.get() {
                let journal = self.journal.get().and_then(Weak::upgrade);
                journal.inspect(|journal| journal.abort(cause.clone().into()));
                return;
            }
            due_ns = now_ns() + clamp_u64(pause.as_nanos());
        }
    }

    /// Marks the file system unused in the block, if the claim still holds.
    fn give_back(&self) -> Result<()> {
        let mut written = self.written.lock();
        self.check_unchanged(&written)?;
        written.mmp.sequence = MMP_SEQ_CLEAN;
        written.mmp.time = nonnegative(self.clock.wall().seconds);
        self.slot.write(&written.mmp)?;
        self.end_ns.store(UNCLAIMED, Ordering::Release);
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Renewal {
    Now,
    /// Only if the lease has expired.
    IfOver,
}

/// A held claim, which a thread renews. Dropping it releases the claim.
pub struct MmpGuard {
    claim: Arc<Claim>,
    stop: Arc<AtomicBool>,
    thread: Mutex<Option<uext4_sync::thread::JoinHandle<()>>>,
}

/// Claims the file system for a writable mount; `None` without the feature or read-only.
pub fn claim(claim: Option<&Arc<Claim>>, access: Access) -> Result<Option<MmpGuard>> {
    match claim {
        Some(claim) if access == Access::ReadWrite => MmpGuard::take(claim).map(Some),
        _ => Ok(None),
    }
}

impl MmpGuard {
    fn take(claim: &Arc<Claim>) -> Result<Self> {
        claim.take()?;
        let stop = Arc::new(AtomicBool::new(false));
        let (keeper, stopping) = (claim.clone(), stop.clone());
        let thread = uext4_sync::thread::spawn(move || keeper.keep(&stopping));
        Ok(Self {
            claim: claim.clone(),
            stop,
            thread: Mutex::new(Rank::Queue, Some(thread)),
        })
    }

    /// Stops the renewals without a write; true for the first caller.
    pub fn stop(&self) -> bool {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.lock().take();
        // A thread that panicked has stopped as well.
        thread.map(|thread| thread.join()).is_some()
    }

    /// Releases the claim: marks the block clean. A second call does nothing.
    ///
    /// # Errors
    /// The claim was lost before; an error of the device.
    pub fn release(&self) -> Result<()> {
        if self.stop() {
            self.claim.give_back()
        } else {
            Ok(())
        }
    }
}

impl Drop for MmpGuard {
    fn drop(&mut self) {
        // A lost error costs another host one more interval.
        let _ = self.release();
    }
}

/// Refuses a file system that another host has mounted, after waiting for a change of its block;
/// for writers without a mount. Without MMP, or without ext4, it accepts.
///
/// # Errors
/// [`DeviceError::Busy`] names the host. Errors of the device and of damage.
pub fn refuse_other_hosts(device: &Arc<dyn BlockDevice>) -> Result<()> {
    let Ok(superblock) = read_superblock(&**device, None) else {
        return Ok(());
    };
    if !superblock.features().has(Feature::MMP) {
        return Ok(());
    }
    let slot = Slot::new(device.clone(), &superblock)?;
    await_silence(&slot, superblock.mmp_update_interval).map(drop)
}

/// Waits until the block stayed unchanged for the longest renewal interval; returns the block.
fn await_silence(slot: &Slot, interval_seconds: u16) -> Result<Mmp> {
    let found = slot.read()?;
    match found.sequence {
        MMP_SEQ_FSCK => return Err(slot.busy(&found)),
        MMP_SEQ_CLEAN => return Ok(found),
        _ => sleep(wait_seconds(check_interval(&found, interval_seconds))),
    }
    let again = slot.read()?;
    if again.sequence == found.sequence {
        Ok(again)
    } else {
        Err(slot.busy(&again))
    }
}

fn check_interval(found: &Mmp, interval_seconds: u16) -> u16 {
    found
        .check_interval
        .max(interval_seconds)
        .max(MMP_MIN_CHECK_INTERVAL_SECONDS)
}

fn device_name(description: &str) -> &str {
    description.rsplit('/').next().unwrap_or(description)
}

fn sleep(seconds: u64) {
    uext4_sync::thread::sleep(Duration::from_secs(seconds));
}

/// Nanoseconds since boot, time of suspension included.
fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let now = Duration::new(
        now.tv_sec.cast_unsigned(),
        clamp_u32(now.tv_nsec.cast_unsigned()),
    );
    clamp_u64(now.as_nanos())
}

#[cfg(test)]
mod tests;
