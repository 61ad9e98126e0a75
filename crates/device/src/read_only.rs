//! A device that refuses writes, whatever the one below takes.

use crate::{Backing, BlockDevice, Error};
use uext4_sync::Arc;

/// Another device, for users that must not write it.
pub struct ReadOnly(Arc<dyn BlockDevice>);

impl ReadOnly {
    /// Hides the writes of `device`.
    pub fn new(device: Arc<dyn BlockDevice>) -> Self {
        Self(device)
    }
}

impl BlockDevice for ReadOnly {
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        self.0.read_at(offset, buf)
    }
    fn read_past_cache_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        self.0.read_past_cache_at(offset, buf)
    }
    fn backing(&self, offset: u64, len: u64) -> Option<Backing<'_>> {
        self.0.backing(offset, len)
    }
    fn write_at(&self, _offset: u64, _buf: &[u8]) -> Result<(), Error> {
        Err(Error::ReadOnly)
    }
    fn write_zeroes(&self, _offset: u64, _len: u64) -> Result<(), Error> {
        Err(Error::ReadOnly)
    }
    fn flush(&self) -> Result<(), Error> {
        Ok(())
    }
    fn forget_cache(&self) {
        self.0.forget_cache();
    }
    fn read_ahead(&self, offset: u64, len: u64) {
        self.0.read_ahead(offset, len);
    }
    fn is_rotational(&self) -> bool {
        self.0.is_rotational()
    }
    fn is_read_only(&self) -> bool {
        true
    }
    fn is_private(&self) -> bool {
        self.0.is_private()
    }
    fn describe(&self) -> String {
        self.0.describe()
    }
}
