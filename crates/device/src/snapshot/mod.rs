//! Snapshots of a device in use, by copy on write: the old content of a range is kept before the
//! range is written.
//!
//! Layout: `layer` has the snapshots of a device and their start; `preimages` what was overwritten
//! since a snapshot; `store` where that is kept; `end` why a snapshot ends; `changes` which parts
//! were written since some moment.
//! Invariants: no write fails or waits for a reader because of a snapshot. A snapshot that cannot
//! be kept ends; its readers get the reason, and never wrong bytes. It ends with the layer.
//! Locking: [`Rank::Device`](uext4_sync::Rank::Device), none over an access of the device below.

mod changes;
mod end;
mod layer;
mod preimages;
mod store;
#[cfg(test)]
mod tests;

pub use changes::Changes;
pub use end::SnapshotEnd;
pub use layer::{Snapshot, SnapshotStart, SnapshotUsage, Snapshots, Taken};
pub use store::SnapshotLimits;

use crate::{Backing, BlockDevice, Claimant, Error, range};
use std::ops::Range;
use uext4_num::u64_of;
use uext4_sync::Arc;

/// A device of which snapshots can be taken.
pub struct SnapshotDevice {
    inner: Arc<dyn BlockDevice>,
    snapshots: Arc<Snapshots>,
}

impl SnapshotDevice {
    /// Puts the layer over a device, which from then on has no other writer.
    pub fn new(inner: Arc<dyn BlockDevice>) -> Self {
        let snapshots = Arc::new(Snapshots::of(&inner));
        Self { inner, snapshots }
    }

    /// Takes the snapshots. It does not keep the device open.
    pub fn snapshots(&self) -> &Arc<Snapshots> {
        &self.snapshots
    }

    fn change(
        &self,
        offset: u64,
        len: u64,
        write: impl FnOnce(&dyn BlockDevice) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let range: Range<u64> = offset..offset.saturating_add(len);
        self.snapshots
            .change(&*self.inner, range, || write(&*self.inner))
    }
}

impl Drop for SnapshotDevice {
    /// Later writes to the device below pass no layer.
    fn drop(&mut self) {
        self.snapshots.end_all(SnapshotEnd::Closed);
    }
}

impl BlockDevice for SnapshotDevice {
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        self.inner.read_at(offset, buf)
    }
    fn read_past_cache_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        self.inner.read_past_cache_at(offset, buf)
    }
    fn write_past_cache_at(&self, offset: u64, buf: &[u8]) -> Result<(), Error> {
        let len = u64_of(buf.len());
        self.change(offset, len, |inner| inner.write_past_cache_at(offset, buf))
    }
    fn write_out(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.inner.write_out(offset, len)
    }
    fn backing(&self, offset: u64, len: u64) -> Option<Backing<'_>> {
        self.inner.backing(offset, len)
    }
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), Error> {
        let len = u64_of(buf.len());
        self.change(offset, len, |inner| inner.write_at(offset, buf))
    }
    fn write_vectored_at(&self, offset: u64, bufs: &[&[u8]]) -> Result<(), Error> {
        let len = range::total_bytes(bufs);
        self.change(offset, len, |inner| inner.write_vectored_at(offset, bufs))
    }
    fn write_durable_at(&self, offset: u64, buf: &[u8]) -> Result<(), Error> {
        let len = u64_of(buf.len());
        self.change(offset, len, |inner| inner.write_durable_at(offset, buf))
    }
    fn flush(&self) -> Result<(), Error> {
        self.inner.flush()
    }
    fn failed_flushes(&self) -> u64 {
        self.inner.failed_flushes()
    }
    /// Does nothing while a snapshot exists, which would have to keep all that is discarded.
    fn discard(&self, offset: u64, len: u64) -> Result<(), Error> {
        let range = offset..offset.saturating_add(len);
        self.snapshots
            .without_any(&range, || self.inner.discard(offset, len))
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
    fn lengthen(&self, least_bytes: u64) -> Result<(), Error> {
        self.inner.lengthen(least_bytes)
    }
    fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.change(offset, len, |inner| inner.write_zeroes(offset, len))
    }
    fn write_hole(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.change(offset, len, |inner| inner.write_hole(offset, len))
    }
    fn is_read_only(&self) -> bool {
        self.inner.is_read_only()
    }
    fn is_private(&self) -> bool {
        self.inner.is_private()
    }
    fn begin_writing(&self) -> Result<(), Error> {
        self.inner.begin_writing()
    }
    fn release(&self) {
        self.snapshots.end_all(SnapshotEnd::Closed);
        if Arc::strong_count(&self.inner) == 1 {
            self.inner.release();
        }
    }
    fn claim_for(&self, claimant: Claimant) -> Result<(), Error> {
        self.inner.claim_for(claimant)
    }
    fn describe(&self) -> String {
        self.inner.describe()
    }
}
