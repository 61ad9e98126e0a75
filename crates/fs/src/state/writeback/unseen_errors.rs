//! Count of files with lost data that no `fsync` has reported.
//!
//! A file keeps its errors only while its inode is in memory; this count stays. While it is not
//! zero, `sync` and the unmount fail.

use crate::types::error::Error;
use uext4_sync::{Mutex, Rank};

pub(crate) struct UnseenErrors(Mutex<(u64, Option<Error>)>);

impl Default for UnseenErrors {
    fn default() -> Self {
        Self(Mutex::new(Rank::Queue, (0, None)))
    }
}

impl UnseenErrors {
    /// Counts a file that lost data after all its earlier errors were reported.
    pub(crate) fn record(&self, error: &Error) {
        let mut unseen = self.0.lock();
        unseen.0 += 1;
        unseen.1 = Some(error.clone());
    }

    /// Uncounts a file after its `fsync` reported the loss.
    pub(crate) fn seen(&self) {
        let mut unseen = self.0.lock();
        unseen.0 = unseen.0.saturating_sub(1);
    }

    /// Fails while unreported losses exist.
    ///
    /// # Errors
    /// The last one.
    pub(crate) fn check(&self) -> crate::types::error::Result<()> {
        let unseen = self.0.lock();
        match &unseen.1 {
            Some(last) if unseen.0 > 0 => Err(last.clone()),
            _ => Ok(()),
        }
    }
}
