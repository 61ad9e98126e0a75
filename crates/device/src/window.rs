//! Sub-range of a device as a device: a partition, an embedded image.

use crate::{Backing, BlockDevice, Claimant, Error, range};
use uext4_num::u64_of;
use uext4_sync::Arc;

/// Bytes `start..start + size` of another device. Errors of the inner device keep its offsets.
pub struct Window {
    inner: Arc<dyn BlockDevice>,
    start: u64,
    size_bytes: u64,
}

impl Window {
    /// The window of `size_bytes` from byte `start`.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] when it does not lie in `inner`.
    pub fn new(inner: Arc<dyn BlockDevice>, start: u64, size_bytes: u64) -> Result<Self, Error> {
        range::check(inner.size_bytes(), start, size_bytes)?;
        Ok(Self {
            inner,
            start,
            size_bytes,
        })
    }

    /// The offset in the inner device of `offset` in the window, if `len` bytes fit from there.
    fn inner_offset(&self, offset: u64, len: u64) -> Result<u64, Error> {
        range::check(self.size_bytes, offset, len)?;
        Ok(self.start + offset)
    }
}

impl BlockDevice for Window {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        self.inner
            .read_at(self.inner_offset(offset, u64_of(buf.len()))?, buf)
    }
    fn read_past_cache_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        let place = self.inner_offset(offset, u64_of(buf.len()))?;
        self.inner.read_past_cache_at(place, buf)
    }
    fn write_past_cache_at(&self, offset: u64, buf: &[u8]) -> Result<(), Error> {
        let place = self.inner_offset(offset, u64_of(buf.len()))?;
        self.inner.write_past_cache_at(place, buf)
    }
    fn write_out(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.inner.write_out(self.inner_offset(offset, len)?, len)
    }
    fn backing(&self, offset: u64, len: u64) -> Option<Backing<'_>> {
        self.inner
            .backing(self.inner_offset(offset, len).ok()?, len)
    }
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), Error> {
        self.inner
            .write_at(self.inner_offset(offset, u64_of(buf.len()))?, buf)
    }
    fn write_vectored_at(&self, offset: u64, bufs: &[&[u8]]) -> Result<(), Error> {
        self.inner
            .write_vectored_at(self.inner_offset(offset, range::total_bytes(bufs))?, bufs)
    }
    fn write_durable_at(&self, offset: u64, buf: &[u8]) -> Result<(), Error> {
        let place = self.inner_offset(offset, u64_of(buf.len()))?;
        self.inner.write_durable_at(place, buf)
    }
    fn flush(&self) -> Result<(), Error> {
        self.inner.flush()
    }
    fn discard(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.inner.discard(self.inner_offset(offset, len)?, len)
    }
    fn forget_cache(&self) {
        self.inner.forget_cache();
    }
    fn read_ahead(&self, offset: u64, len: u64) {
        if let Ok(place) = self.inner_offset(offset, len) {
            self.inner.read_ahead(place, len);
        }
    }
    fn is_rotational(&self) -> bool {
        self.inner.is_rotational()
    }
    fn write_zeroes(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.inner
            .write_zeroes(self.inner_offset(offset, len)?, len)
    }
    fn write_hole(&self, offset: u64, len: u64) -> Result<(), Error> {
        self.inner.write_hole(self.inner_offset(offset, len)?, len)
    }
    fn is_read_only(&self) -> bool {
        self.inner.is_read_only()
    }
    fn begin_writing(&self) -> Result<(), Error> {
        self.inner.begin_writing()
    }
    fn release(&self) {
        if Arc::strong_count(&self.inner) == 1 {
            self.inner.release();
        }
    }
    fn claim_for(&self, claimant: Claimant) -> Result<(), Error> {
        self.inner.claim_for(claimant)
    }
    fn describe(&self) -> String {
        format!("{} at byte {}", self.inner.describe(), self.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemDevice;

    #[test]
    fn every_access_is_shifted_and_bounded() {
        let inner = Arc::new(MemDevice::from_bytes(&[9; 100]));
        let window = Window::new(inner.clone(), 10, 20).unwrap();
        assert_eq!(window.size_bytes(), 20);
        window.write_at(0, &[1]).unwrap();
        window.write_vectored_at(1, &[&[2], &[3]]).unwrap();
        window.write_zeroes(3, 1).unwrap();
        window.write_durable_at(18, &[4]).unwrap();
        window.discard(19, 1).unwrap();
        let bytes = inner.to_bytes();
        assert_eq!((bytes[9], &bytes[10..15]), (9, [1, 2, 3, 0, 9].as_slice()));
        assert_eq!(bytes[28..31], [4, 0, 9]);
        let mut buf = [0; 3];
        window.read_at(0, &mut buf).unwrap();
        assert_eq!(buf, [1, 2, 3]);
        for past in [20, u64::MAX] {
            assert!(window.read_at(past, &mut [0]).is_err());
            assert!(window.write_at(past, &[0]).is_err());
            assert!(window.write_durable_at(past, &[0]).is_err());
            assert!(window.write_vectored_at(past, &[&[0]]).is_err());
            assert!(window.discard(past, 1).is_err() && window.write_zeroes(past, 1).is_err());
        }
        assert!(Window::new(inner, 90, 11).is_err());
    }
}
