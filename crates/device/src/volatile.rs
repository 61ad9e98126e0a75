//! A device in memory with a volatile write cache, for tests.
//!
//! Writes go to the cache, and reads show it. [`BlockDevice::flush`] makes durable what was written
//! before. [`VolatileDevice::lose_cache`] drops what was written since, as Linux drops the dirty
//! pages of a failed write-back, and a disk its cache in a reset.
//!
//! Invariants: a write that runs while the cache is lost may be lost with it.
//! Locking: one mutex ([`Rank::Device`]) for the two states, never held during an access.

use crate::{BlockDevice, Error, MemDevice};
use std::sync::Arc;
use uext4_sync::{Mutex, Rank};

/// See the module.
pub struct VolatileDevice {
    size_bytes: u64,
    states: Mutex<States>,
}

struct States {
    cached: Arc<MemDevice>,
    durable: Arc<MemDevice>,
}

impl VolatileDevice {
    /// A device whose durable bytes are those of `device` now.
    pub fn new(device: &MemDevice) -> Self {
        let states = States {
            cached: Arc::new(device.snapshot()),
            durable: Arc::new(device.snapshot()),
        };
        Self {
            size_bytes: device.size_bytes(),
            states: Mutex::new(Rank::Device, states),
        }
    }

    /// Drops everything that was written since the last flush that succeeded.
    pub fn lose_cache(&self) {
        let durable = self.states.lock().durable.clone();
        let cached = Arc::new(durable.snapshot());
        self.states.lock().cached = cached;
    }

    /// What a power cut leaves.
    pub fn durable(&self) -> MemDevice {
        let durable = self.states.lock().durable.clone();
        durable.snapshot()
    }

    fn cached(&self) -> Arc<MemDevice> {
        self.states.lock().cached.clone()
    }
}

impl BlockDevice for VolatileDevice {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        self.cached().read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), Error> {
        self.cached().write_at(offset, buf)
    }
    fn flush(&self) -> Result<(), Error> {
        let durable = Arc::new(self.cached().snapshot());
        self.states.lock().durable = durable;
        Ok(())
    }
    fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.cached().write_zeroes(offset, len)
    }
    fn is_read_only(&self) -> bool {
        false
    }
    fn describe(&self) -> String {
        format!("memory ({} bytes) behind a volatile cache", self.size_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    }
}
