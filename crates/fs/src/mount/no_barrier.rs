//! `nobarrier`: a device that is never asked to flush.
//!
//! For devices whose cache survives a power cut. Writes still go out in the order that the journal
//! wants; when they become durable is the device's affair.

use super::open::Plan;
use std::sync::Arc;
use uext4_device::{BlockDevice, Error};

struct NoBarrier(Arc<dyn BlockDevice>);

/// Takes flushes away from the device, and from that of an external journal.
pub(super) fn without_flushes(
    device: Arc<dyn BlockDevice>,
    plan: &mut Plan,
) -> Arc<dyn BlockDevice> {
    let journal = plan.options.journal_device.take();
    plan.options.journal_device = journal.map(|device| Arc::new(NoBarrier(device)) as _);
    Arc::new(NoBarrier(device))
}

impl BlockDevice for NoBarrier {
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        self.0.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), Error> {
        self.0.write_at(offset, buf)
    }
    fn write_vectored_at(&self, offset: u64, bufs: &[&[u8]]) -> Result<(), Error> {
        self.0.write_vectored_at(offset, bufs)
    }
    fn flush(&self) -> Result<(), Error> {
        Ok(())
    }
    fn discard(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.0.discard(offset, len)
    }
    fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.0.write_zeroes(offset, len)
    }
    fn is_read_only(&self) -> bool {
        self.0.is_read_only()
    }
    fn describe(&self) -> String {
        self.0.describe()
    }
}
