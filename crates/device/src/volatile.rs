//! Device behind a volatile write cache, for tests.
//!
//! Writes go to the cache, and reads see it. [`BlockDevice::flush`] writes all earlier writes to
//! the device below and flushes that. [`VolatileDevice::lose_cache`] drops the writes since the
//! last flush, as Linux drops dirty pages after failed write-back, and a disk its cache in a reset.
//!
//! Layout: an [`Overlay`] over the device below, and the list of ranges written since the last
//! flush. A flush leaves its pages in the overlay: they equal the bytes below.
//! Invariants: a write that overlaps the loss of the cache may be lost. If a flush fails below, its
//! ranges stay in the list; their bytes may be durable or not.
//! Locking: a flag ([`Rank::Device`], with a condition variable) serialises flushes and losses; the
//! mutexes are never held during an access.

use crate::{BlockDevice, Error, MemDevice, Overlay};
use std::ops::Range;
use uext4_num::{clamp_usize, u64_of};
use uext4_sync::{Arc, Condvar, Mutex, Rank};

/// Transfer size of a flush, in bytes.
const COPY_BYTES: u64 = 1 << 20;

/// A device whose writes are volatile until a flush.
pub struct VolatileDevice<D = MemDevice> {
    below: Arc<D>,
    cache: Mutex<Cache>,
    /// A flush or a loss of the cache is running.
    is_busy: Mutex<bool>,
    idle: Condvar,
}

struct Cache {
    pages: Arc<Overlay>,
    written: Vec<Range<u64>>,
}

impl VolatileDevice {
    /// A device whose durable bytes are a copy of those of `device` now.
    pub fn new(device: &MemDevice) -> Self {
        Self::over(Arc::new(device.snapshot()))
    }

    /// The bytes that survive a power cut.
    pub fn durable(&self) -> MemDevice {
        self.below.snapshot()
    }
}

impl<D: BlockDevice + 'static> VolatileDevice<D> {
    /// A cache over `below`, which holds the durable bytes and has no other writer.
    pub fn over(below: Arc<D>) -> Self {
        let cache = Cache {
            pages: Arc::new(Overlay::new(below.clone())),
            written: Vec::new(),
        };
        Self {
            below,
            cache: Mutex::new(Rank::Device, cache),
            is_busy: Mutex::new(Rank::Device, false),
            idle: Condvar::new(),
        }
    }

    /// The device with the durable bytes.
    pub fn below(&self) -> &Arc<D> {
        &self.below
    }

    /// Drops all writes since the last successful flush.
    pub fn lose_cache(&self) {
        self.alone(|| {
            *self.cache.lock() = Cache {
                pages: Arc::new(Overlay::new(self.below.clone())),
                written: Vec::new(),
            };
        });
    }

    fn pages(&self) -> Arc<Overlay> {
        self.cache.lock().pages.clone()
    }

    /// Runs `work` while no other flush or loss runs.
    fn alone<T>(&self, work: impl FnOnce() -> T) -> T {
        let mut is_busy = self.is_busy.lock();
        while *is_busy {
            self.idle.wait(&mut is_busy);
        }
        *is_busy = true;
        drop(is_busy);
        let done = work();
        *self.is_busy.lock() = false;
        self.idle.notify_all();
        done
    }

    fn flush_alone(&self) -> Result<(), Error> {
        let (pages, written) = {
            let mut cache = self.cache.lock();
            (cache.pages.clone(), std::mem::take(&mut cache.written))
        };
        let merged = merged(written);
        let copied = merged.iter().try_for_each(|range| self.copy(&pages, range));
        let flushed = copied.and_then(|()| self.below.flush());
        if flushed.is_err() {
            self.cache.lock().written.extend(merged);
        }
        flushed
    }

    fn copy(&self, pages: &Overlay, range: &Range<u64>) -> Result<(), Error> {
        let mut bytes = Vec::new();
        for at in range.clone().step_by(clamp_usize(COPY_BYTES)) {
            bytes.resize(clamp_usize((range.end - at).min(COPY_BYTES)), 0);
            pages.read_at(at, &mut bytes)?;
            self.below.write_at(at, &bytes)?;
        }
        Ok(())
    }
}

/// The same bytes in ascending ranges that neither meet nor touch.
fn merged(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

impl<D: BlockDevice + 'static> BlockDevice for VolatileDevice<D> {
    fn size_bytes(&self) -> u64 {
        self.below.size_bytes()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        self.pages().read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), Error> {
        self.pages().write_at(offset, buf)?;
        // Only after the write: a flush that takes the range must find its bytes.
        let range = offset..offset + u64_of(buf.len());
        self.cache.lock().written.push(range);
        Ok(())
    }
    fn write_durable_at(&self, offset: u64, buf: &[u8]) -> Result<(), Error> {
        self.alone(|| {
            self.pages().write_at(offset, buf)?;
            let through = self.below.write_durable_at(offset, buf);
            if through.is_err() {
                let range = offset..offset + u64_of(buf.len());
                self.cache.lock().written.push(range);
            }
            through
        })
    }
    fn flush(&self) -> Result<(), Error> {
        self.alone(|| self.flush_alone())
    }
    fn forget_cache(&self) {
        self.below.forget_cache();
    }
    fn read_ahead(&self, offset: u64, len: u64) {
        self.below.read_ahead(offset, len);
    }
    fn is_read_only(&self) -> bool {
        false
    }
    fn claim_for(&self, claimant: crate::Claimant) -> Result<(), Error> {
        self.below.claim_for(claimant)
    }
    fn describe(&self) -> String {
        format!("{} behind a volatile cache", self.below.describe())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cause, Fault, Faulty, Operation, When};

    #[test]
    fn what_was_not_flushed_goes_with_the_cache() {
        let device = VolatileDevice::new(&MemDevice::new(1 << 20));
        device.write_at(0, &[1]).unwrap();
        device.flush().unwrap();
        device.write_at(1, &[2]).unwrap();
        let mut seen = [0; 2];
        device.read_at(0, &mut seen).unwrap();
        assert_eq!(seen, [1, 2]);
        assert_eq!(device.durable().to_bytes()[..2], [1, 0]);
        device.lose_cache();
        device.read_at(0, &mut seen).unwrap();
        assert_eq!(seen, [1, 0]);
        device.write_at(1, &[3]).unwrap();
        device.flush().unwrap();
        assert_eq!(device.durable().to_bytes()[..2], [1, 3]);
    }

    #[test]
    fn a_durable_write_outlives_the_cache_alone() {
        let device = VolatileDevice::new(&MemDevice::new(1 << 20));
        device.write_at(0, &[1, 1]).unwrap();
        device.write_durable_at(1, &[2]).unwrap();
        assert_eq!(device.durable().to_bytes()[..2], [0, 2]);
        let mut seen = [0; 2];
        device.read_at(0, &mut seen).unwrap();
        assert_eq!(seen, [1, 2]);
        device.lose_cache();
        device.read_at(0, &mut seen).unwrap();
        assert_eq!(seen, [0, 2]);
    }

    #[test]
    fn what_a_flush_could_not_write_below_is_for_the_next() {
        let memory = Arc::new(MemDevice::new(1 << 20));
        let below = Arc::new(Faulty::new(memory.clone()));
        let device = VolatileDevice::over(below.clone());
        device.write_at(5, &[7]).unwrap();
        for operation in [Operation::Write, Operation::Flush] {
            below.arm(Fault {
                operation,
                when: When::Always,
                cause: Cause::Io,
            });
            assert!(device.flush().is_err());
            below.disarm();
        }
        device.flush().unwrap();
        assert_eq!(memory.to_bytes()[5], 7);
    }

    #[test]
    fn ranges_that_meet_or_touch_are_merged() {
        let ranges = vec![10..20, 0..5, 15..30, 30..31, 40..41, 0..2];
        assert_eq!(merged(ranges), [0..5, 10..31, 40..41]);
    }

    /// Threads write and flush concurrently: flushed bytes are on the device below.
    #[test]
    fn flushes_beside_writes_leave_nothing_out() {
        const THREADS: u64 = 4;
        let device = VolatileDevice::new(&MemDevice::new(1 << 20));
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let device = &device;
                scope.spawn(move || {
                    for round in 1..=100 {
                        // Threads share pages.
                        let at = thread * 1000 + round * 7;
                        device.write_at(at, &[round as u8; 7]).unwrap();
                        device.flush().unwrap();
                        let durable = device.durable().to_bytes();
                        let found = &durable[at as usize..at as usize + 7];
                        assert_eq!(found, [round as u8; 7]);
                    }
                });
            }
        });
    }
}
