//! Devices of a file system in use: redirects writes to memory, and filters flushes.
//!
//! A read-only mount that needs a replay replays the journal *in memory*, on an overlay;
//! [`Media::flush_overlay`] writes the overlay to the device when the mount becomes writable.
//! `nobarrier` drops flushes, for devices whose cache survives a power cut: writes keep the order
//! that the journal needs.
//!
//! Invariants: while writes go to memory, the device is never written. While the mount holds the
//! MMP lease ([`crate::mmp`]), the lease is checked before each device write. The switch to the
//! device happens when both have the same bytes, so concurrent reads are consistent.
//! Locking: none of its own but the overlay's.

use crate::mmp::Claim;
use std::iter;
use std::ops::Range;
use uext4_device::{Backing, BlockDevice, Claimant, Error, FlushQueue, Overlay, Snapshots};
use uext4_format::superblock::{SUPERBLOCK_BYTES, SUPERBLOCK_OFFSET};
use uext4_num::{clamp_i64, clamp_usize, nonnegative, u64_of};
use uext4_sync::atomic::{AtomicBool, Ordering};
use uext4_sync::{Arc, Counter};

/// Bytes per copy step.
const COPY_BYTES: u64 = 1 << 20;

/// Initial target of writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// Each write goes to the device.
    Device,
    /// Writes go to an overlay in memory, which the device does not see until it is flushed.
    Memory,
}

/// The devices of a mount: that of the file system, and perhaps that of its journal.
pub struct Media {
    /// The device of the file system.
    pub home: Arc<Medium>,
    /// The device of an external journal.
    pub log: Option<Arc<Medium>>,
    /// The snapshots of the file system's device and of the journal's, if the devices can have
    /// some.
    pub snapshots: Vec<Arc<Snapshots>>,
}

impl Media {
    /// Puts a medium over the device, and over the device of an external journal. With `writes` to
    /// memory a replay and its writes to the log stay there.
    pub fn new(
        device: Arc<dyn BlockDevice>,
        journal: Option<Arc<dyn BlockDevice>>,
        claim: Option<Arc<Claim>>,
        writes: Writes,
    ) -> Self {
        let home = Medium::new(device, writes, claim.clone());
        let log = journal.map(|device| Medium::new(device, writes, claim));
        let snapshots = Vec::new();
        Self {
            home,
            log,
            snapshots,
        }
    }

    /// The device of an external journal.
    pub fn journal_device(&self) -> Option<Arc<dyn BlockDevice>> {
        self.log.clone().map(|log| -> Arc<dyn BlockDevice> { log })
    }

    /// The MMP claim, if the file system has MMP.
    pub fn claim(&self) -> Option<&Arc<Claim>> {
        self.home.claim.as_ref()
    }

    /// Reads the superblock of the device itself, past the cache.
    pub fn superblock_below(&self) -> Result<[u8; SUPERBLOCK_BYTES], Error> {
        let mut bytes = [0; SUPERBLOCK_BYTES];
        let device = self.home.base();
        device.read_past_cache_at(SUPERBLOCK_OFFSET, &mut bytes)?;
        Ok(bytes)
    }

    /// Sets whether flushes reach the devices (mount options `barrier` and `nobarrier`).
    pub fn set_barrier(&self, barrier: bool) {
        for medium in iter::once(&self.home).chain(&self.log) {
            medium.barrier.store(barrier, Ordering::Relaxed);
        }
    }

    /// Prepares the devices for writes; they may have been opened read-only.
    pub fn begin_writing(&self) -> Result<(), Error> {
        iter::once(&self.home)
            .chain(&self.log)
            .try_for_each(|medium| medium.base.begin_writing())
    }

    /// Gives the claims on devices back that the caller of the mount has not kept: the mount uses
    /// them no more.
    pub fn release(&self) {
        iter::once(&self.home)
            .chain(&self.log)
            .for_each(|medium| medium.release());
    }

    /// Writes the in-memory replay to the devices, in an order in which a crash leads to the same
    /// replay; later writes reach the devices. `log` is the byte ranges of the log on the file
    /// system's own device.
    pub fn flush_overlay(&self, log: &[Range<u64>], block_size: u64) -> Result<(), Error> {
        self.home.flush_overlay(log, block_size)?;
        self.log
            .iter()
            .try_for_each(|medium| medium.flush_overlay(&[], block_size))
    }
}

/// One device, or memory over it, behind the claim.
pub struct Medium {
    base: Arc<dyn BlockDevice>,
    overlay: Overlay,
    claim: Option<Arc<Claim>>,
    in_memory: AtomicBool,
    barrier: AtomicBool,
    flushes: FlushQueue,
    /// Bytes that reached the device.
    written: Counter,
    /// Writes that ended, durable ones apart: without a new one a flush has nothing to do.
    n_writes: Counter,
}

impl Medium {
    fn new(base: Arc<dyn BlockDevice>, writes: Writes, claim: Option<Arc<Claim>>) -> Arc<Self> {
        Arc::new(Self {
            claim,
            overlay: Overlay::new(base.clone()),
            base,
            in_memory: AtomicBool::new(writes == Writes::Memory),
            barrier: AtomicBool::new(true),
            flushes: FlushQueue::default(),
            written: Counter::new(0),
            n_writes: Counter::new(0),
        })
    }

    /// Bytes written to the device, without zeroes that the device made itself.
    pub fn written_bytes(&self) -> u64 {
        nonnegative(self.written.sum())
    }

    fn count_written(&self, bytes: usize) {
        if !self.in_memory.load(Ordering::Relaxed) {
            self.written.add(clamp_i64(bytes));
        }
    }

    /// The device below the overlay, without writes that are only in memory.
    pub fn base(&self) -> &Arc<dyn BlockDevice> {
        &self.base
    }

    fn release(&self) {
        // This, the overlay, and a claim of this device.
        let claim = self.claim.as_ref();
        let own = 2 + usize::from(claim.is_some_and(|claim| claim.is_of(&self.base)));
        if Arc::strong_count(&self.base) == own {
            self.base.release();
        }
    }

    fn claim_in_force(&self) -> Option<&Arc<Claim>> {
        let reaches_device = !self.in_memory.load(Ordering::Relaxed);
        self.claim.as_ref().filter(|_| reaches_device)
    }

    /// Runs before every write that reaches the device.
    fn check_claim(&self) -> Result<(), Error> {
        self.claim_in_force().map_or(Ok(()), |claim| claim.check())
    }

    /// Writes by `write`, if this host may; a failed write may have written some.
    fn change(&self, write: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        self.check_claim()?;
        let written = write();
        self.n_writes.add(1);
        written
    }

    /// Runs after every write: otherwise the kernel would write back the page cache even after this
    /// process stopped and another host took the file system over.
    fn write_out_if_claimed(&self, offset: u64, len: usize) -> Result<(), Error> {
        match self.claim_in_force() {
            Some(claim) if claim.is_held() => self.base.write_out(offset, u64_of(len)),
            _ => Ok(()),
        }
    }

    /// Writes the overlay to the device: first all ranges outside `last`, without the superblock;
    /// then the superblock; then the rest. A flush follows each. Later writes reach the device.
    ///
    /// With the log as `last`, a crash in between is harmless: a replay of the log writes the same
    /// blocks home again. The superblock follows the descriptors because Linux reads both before it
    /// replays: after a growth it refuses the new size with the old descriptors.
    fn flush_overlay(&self, last: &[Range<u64>], grain: u64) -> Result<(), Error> {
        if !self.in_memory.load(Ordering::Acquire) {
            return Ok(());
        }
        // The claim's block is current on the device; the overlay's copy is older.
        let claimed = self.claim.as_ref().map(|claim| claim.range());
        let mut pieces = self.changed_pieces(grain);
        if let Some(claimed) = claimed {
            pieces.retain(|piece| !claimed.contains(&piece.start));
        }
        let (late, early): (Vec<_>, Vec<_>) = pieces
            .into_iter()
            .partition(|piece| last.iter().any(|range| range.contains(&piece.start)));
        let (superblock, early) = early
            .into_iter()
            .partition(|piece| piece.contains(&SUPERBLOCK_OFFSET));
        for pieces in [early, superblock, late] {
            pieces.iter().try_for_each(|piece| self.copy(piece))?;
            self.base.flush()?;
        }
        self.in_memory.store(false, Ordering::Release);
        Ok(())
    }

    /// The changed ranges, split at the grain.
    fn changed_pieces(&self, grain: u64) -> Vec<Range<u64>> {
        let grain = grain.min(COPY_BYTES);
        self.overlay
            .changed_ranges()
            .into_iter()
            .flat_map(|range| {
                let start = range.start;
                let pieces = (range.end - start).div_ceil(grain);
                (0..pieces)
                    .map(move |i| start + i * grain..(start + (i + 1) * grain).min(range.end))
            })
            .collect()
    }

    fn copy(&self, piece: &Range<u64>) -> Result<(), Error> {
        let mut bytes = vec![0; clamp_usize(piece.end - piece.start)];
        self.overlay.read_at(piece.start, &mut bytes)?;
        if let Some(claim) = &self.claim {
            claim.check()?;
        }
        self.base.write_at(piece.start, &bytes)
    }

    fn target(&self) -> &dyn BlockDevice {
        if self.in_memory.load(Ordering::Relaxed) {
            &self.overlay
        } else {
            &*self.base
        }
    }
}

impl BlockDevice for Medium {
    fn size_bytes(&self) -> u64 {
        self.base.size_bytes()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        self.target().read_at(offset, buf)
    }
    fn backing(&self, offset: u64, len: u64) -> Option<Backing<'_>> {
        self.target().backing(offset, len)
    }
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), Error> {
        self.count_written(buf.len());
        self.change(|| self.target().write_at(offset, buf))?;
        self.write_out_if_claimed(offset, buf.len())
    }
    fn write_vectored_at(&self, offset: u64, bufs: &[&[u8]]) -> Result<(), Error> {
        let len = bufs.iter().map(|buf| buf.len()).sum();
        self.count_written(len);
        self.change(|| self.target().write_vectored_at(offset, bufs))?;
        self.write_out_if_claimed(offset, len)
    }
    fn write_durable_at(&self, offset: u64, buf: &[u8]) -> Result<(), Error> {
        if !self.barrier.load(Ordering::Relaxed) {
            return self.write_at(offset, buf);
        }
        self.count_written(buf.len());
        self.check_claim()?;
        self.flushes
            .write_durable(|| self.target().write_durable_at(offset, buf))
    }
    fn flush(&self) -> Result<(), Error> {
        self.check_claim()?;
        if self.barrier.load(Ordering::Relaxed) {
            self.flushes
                .flush(|| self.n_writes.sum(), || self.target().flush())
        } else {
            Ok(())
        }
    }
    fn failed_flushes(&self) -> u64 {
        self.flushes.failed()
    }
    fn discard(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.change(|| self.target().discard(offset, len))
    }
    fn read_ahead(&self, offset: u64, len: u64) {
        self.base.read_ahead(offset, len);
    }
    fn is_rotational(&self) -> bool {
        self.base.is_rotational()
    }
    fn lengthen(&self, least_bytes: u64) -> Result<(), Error> {
        self.base.lengthen(least_bytes)
    }
    fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.change(|| self.target().write_zeroes(offset, len))?;
        self.write_out_if_claimed(offset, clamp_usize(len))
    }
    fn write_hole(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.change(|| self.target().write_hole(offset, len))?;
        self.write_out_if_claimed(offset, clamp_usize(len))
    }
    fn is_read_only(&self) -> bool {
        self.target().is_read_only()
    }
    fn claim_for(&self, claimant: Claimant) -> Result<(), Error> {
        self.base.claim_for(claimant)
    }
    fn describe(&self) -> String {
        self.base.describe()
    }
}
