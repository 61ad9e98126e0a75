//! A device of any size that discards all writes but those to its first block.

use uext4_device::{BlockDevice, Error};
use uext4_sync::{Mutex, Rank};

pub(super) struct Discarding {
    size_bytes: u64,
    first: Mutex<Vec<u8>>,
}

impl Discarding {
    /// A device with `first` as its initial contents.
    pub(super) fn new(size_bytes: u64, first: &[u8]) -> Self {
        Self {
            size_bytes,
            first: Mutex::new(Rank::Device, first.to_vec()),
        }
    }
}

impl BlockDevice for Discarding {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        buf.fill(0);
        let first = self.first.lock();
        let from = usize::try_from(offset).map_or(first.len(), |at| at.min(first.len()));
        let known = &first[from..];
        let len = known.len().min(buf.len());
        buf[..len].copy_from_slice(&known[..len]);
        Ok(())
    }

    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), Error> {
        let mut first = self.first.lock();
        if offset == 0 && buf.len() == first.len() {
            first.copy_from_slice(buf);
        }
        Ok(())
    }

    fn flush(&self) -> Result<(), Error> {
        Ok(())
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn describe(&self) -> String {
        "a device that keeps nothing".into()
    }
}
