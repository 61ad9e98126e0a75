//! A device in memory with the latency and bandwidth of another one, in virtual time.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use uext4_device::{BlockDevice, Error, MemDevice};
use uext4_sync::{simulation, thread};

/// Requests are transferred one after the other, and each has the latency. The access to the memory
/// itself costs nothing.
pub(super) struct TimedDevice {
    inner: MemDevice,
    latency: Duration,
    ns_per_byte: f64,
    /// When all requests so far are transferred, in nanoseconds.
    free_ns: AtomicU64,
}

impl TimedDevice {
    /// A bandwidth of 0 is unlimited.
    pub(super) fn new(inner: MemDevice, latency_us: f64, megabytes_per_second: f64) -> Self {
        let ns_per_byte = if megabytes_per_second > 0.0 {
            1e3 / megabytes_per_second
        } else {
            0.0
        };
        Self {
            inner,
            latency: Duration::from_nanos((latency_us * 1e3) as u64),
            ns_per_byte,
            free_ns: AtomicU64::new(0),
        }
    }

    fn request<T>(&self, bytes: usize, body: impl FnOnce() -> T) -> T {
        let result = simulation::unobserved(body);
        let Some(now) = simulation::now() else {
            return result;
        };
        let now = now.as_nanos() as u64;
        let transfer = (bytes as f64 * self.ns_per_byte) as u64;
        let end = now.max(self.free_ns.load(Relaxed)) + transfer;
        self.free_ns.store(end, Relaxed);
        let wait = Duration::from_nanos(end - now) + self.latency;
        if !wait.is_zero() {
            thread::sleep(wait);
        }
        result
    }
}

impl BlockDevice for TimedDevice {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        self.request(buf.len(), || self.inner.read_at(offset, buf))
    }
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), Error> {
        self.request(buf.len(), || self.inner.write_at(offset, buf))
    }
    fn write_vectored_at(&self, offset: u64, bufs: &[&[u8]]) -> Result<(), Error> {
        let bytes = bufs.iter().map(|buf| buf.len()).sum();
        self.request(bytes, || self.inner.write_vectored_at(offset, bufs))
    }
    fn flush(&self) -> Result<(), Error> {
        self.request(0, || self.inner.flush())
    }
    fn discard(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.request(0, || self.inner.discard(offset, len))
    }
    fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.request(0, || self.inner.write_zeroes(offset, len))
    }
    fn is_read_only(&self) -> bool {
        self.inner.is_read_only()
    }
    fn describe(&self) -> String {
        self.inner.describe()
    }
}
