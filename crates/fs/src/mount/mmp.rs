//! Multiple mount protection: a block that tells other hosts that the file system is in use.
//!
//! A writable mount waits until the block has stayed unchanged for the check interval, writes a
//! sequence number of its own, waits again, and then renews it until it is unmounted.
//!
//! References: kernel documentation, `filesystems/ext4/mmp.rst`.

use super::medium::Medium;
use super::open::Plan;
use crate::options::Access;
use crate::{Error, Result};
use std::sync::Arc;
use std::time::Duration;
use uext4_device::BlockDevice;
use uext4_format::mmp::{
    MMP_BYTES, MMP_MIN_CHECK_INTERVAL_SECONDS, MMP_SEQ_CLEAN, MMP_SEQ_FSCK, MMP_SEQ_MAX,
    MMP_UPDATE_INTERVAL_SECONDS, Mmp,
};
use uext4_format::{BlockNr, Checksums, Feature, Superblock};
use uext4_sync::atomic::{AtomicBool, Ordering};

/// Longest wait of a mount for another host to show itself, in seconds.
const WAIT_MAX_SECONDS: u64 = 300;

/// The claim of a mount; a thread renews it. Dropping it ends the claim, too.
pub(crate) struct MmpGuard {
    slot: Slot,
    clock: Arc<dyn uext4_sync::Clock>,
    stop: Arc<AtomicBool>,
    thread: uext4_sync::Mutex<Option<uext4_sync::thread::JoinHandle<()>>>,
}

#[derive(Clone)]
struct Slot {
    device: Arc<dyn BlockDevice>,
    nr: BlockNr,
    block_size: u32,
    checksums: Checksums,
}

impl Slot {
    fn read(&self) -> Result<Mmp> {
        let mut bytes = vec![0; self.block_size as usize];
        self.device
            .read_at(self.nr.0 * u64::from(self.block_size), &mut bytes)?;
        Ok(Mmp::parse(&bytes, self.nr, &self.checksums)?)
    }

    fn write(&self, mmp: &Mmp) -> Result<()> {
        let mut bytes = [0; MMP_BYTES];
        mmp.write_to(&mut bytes, &self.checksums);
        self.device
            .write_at(self.nr.0 * u64::from(self.block_size), &bytes)?;
        Ok(self.device.flush()?)
    }
}

/// Claims the file system for a writable mount; `None` without the feature or read-only.
pub(super) fn claim(device: &Arc<Medium>, plan: &Plan) -> Result<Option<MmpGuard>> {
    if plan.options.access == Access::ReadOnly {
        return Ok(None);
    }
    claim_now(device, &plan.superblock, &plan.options.clock)
}

/// Claims the file system; `None` without the feature.
pub(super) fn claim_now(
    device: &Arc<Medium>,
    superblock: &Superblock,
    clock: &Arc<dyn uext4_sync::Clock>,
) -> Result<Option<MmpGuard>> {
    if !superblock.features().has(Feature::MMP) {
        return Ok(None);
    }
    let geometry = superblock.geometry()?;
    let slot = Slot {
        device: device.clone(),
        nr: BlockNr(superblock.mmp_block),
        block_size: geometry.block_size(),
        checksums: superblock.checksums(),
    };
    if !geometry.contains(slot.nr) {
        return Err(Error::Mount("the MMP block is out of range".into()));
    }
    let interval = superblock
        .mmp_update_interval
        .max(MMP_UPDATE_INTERVAL_SECONDS);
    let mine = take(&slot, interval, &**clock)?;
    let stop = Arc::new(AtomicBool::new(false));
    let thread = renew(slot.clone(), mine, interval, stop.clone());
    let thread = uext4_sync::Mutex::new(uext4_sync::Rank::Queue, Some(thread));
    Ok(Some(MmpGuard {
        slot,
        clock: clock.clone(),
        stop,
        thread,
    }))
}

fn take(slot: &Slot, interval: u16, clock: &dyn uext4_sync::Clock) -> Result<Mmp> {
    let mut seen = slot.read()?;
    if seen.sequence == MMP_SEQ_FSCK {
        return Err(Error::Mount(
            "e2fsck is running on the file system (MMP)".into(),
        ));
    }
    let check = seen
        .check_interval
        .max(interval)
        .max(MMP_MIN_CHECK_INTERVAL_SECONDS);
    let wait = Duration::from_secs((u64::from(check) * 2 + 1).min(WAIT_MAX_SECONDS));
    if seen.sequence != MMP_SEQ_CLEAN {
        uext4_sync::thread::sleep(wait);
        unchanged(slot, seen.sequence)?;
    }
    let now = clock.wall();
    seen.sequence = 1 + (now.nanoseconds ^ std::process::id()) % (MMP_SEQ_MAX - 1);
    seen.time = now.seconds.max(0) as u64;
    seen.check_interval = check;
    slot.write(&seen)?;
    uext4_sync::thread::sleep(wait);
    unchanged(slot, seen.sequence)?;
    Ok(seen)
}

fn unchanged(slot: &Slot, sequence: u32) -> Result<()> {
    if slot.read()?.sequence == sequence {
        return Ok(());
    }
    Err(Error::Mount(
        "the file system is in use on another host (MMP)".into(),
    ))
}

fn renew(
    slot: Slot,
    mut mine: Mmp,
    interval: u16,
    stop: Arc<AtomicBool>,
) -> uext4_sync::thread::JoinHandle<()> {
    uext4_sync::thread::spawn(move || {
        let mut since = Duration::ZERO;
        let step = Duration::from_millis(100);
        while !stop.load(Ordering::Relaxed) {
            uext4_sync::thread::sleep(step);
            since += step;
            if since >= Duration::from_secs(interval.into()) {
                since = Duration::ZERO;
                mine.sequence = 1 + mine.sequence % MMP_SEQ_MAX;
                // A host that cannot renew is seen as gone by the others, which is the truth.
                let _ = slot.write(&mine);
            }
        }
    })
}

impl MmpGuard {
    /// Stops renewing the claim, without a word to others; true for the first caller.
    pub(crate) fn stop(&self) -> bool {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.lock().take();
        // A renewer that panicked has stopped, which is all that is wanted.
        thread.map(|thread| thread.join()).is_some()
    }

    /// Ends the claim: the block says clean. Again it does nothing.
    pub(crate) fn release(&self) -> Result<()> {
        if !self.stop() {
            return Ok(());
        }
        let mut mmp = self.slot.read()?;
        mmp.sequence = MMP_SEQ_CLEAN;
        mmp.time = self.clock.wall().seconds.max(0) as u64;
        self.slot.write(&mmp)
    }
}

impl Drop for MmpGuard {
    fn drop(&mut self) {
        // Nobody is left to be told; another host waits one interval longer.
        let _ = self.release();
    }
}
