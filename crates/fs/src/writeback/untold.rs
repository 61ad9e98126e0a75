//! Count of files with lost data that no `fsync` has reported.
//!
//! A file keeps its errors only while its inode is in memory; this count stays. While it is not
//! zero, `sync` and the unmount fail.

use crate::Error;
use uext4_sync::{Mutex, Rank};

/// See the module.
pub(crate) struct Untold(Mutex<(u64, Option<Error>)>);

impl Default for Untold {
    fn default() -> Self {
        Self(Mutex::new(Rank::Queue, (0, None)))
    }
}

impl Untold {
    /// Counts a file that lost data after all its earlier errors were reported.
    pub(crate) fn note(&self, error: &Error) {
        let mut untold = self.0.lock();
        untold.0 += 1;
        untold.1 = Some(error.clone());
    }

    /// Uncounts a file after its `fsync` reported the loss.
    pub(crate) fn told(&self) {
        let mut untold = self.0.lock();
        untold.0 = untold.0.saturating_sub(1);
    }

    /// Fails while unreported losses exist.
    ///
    /// # Errors
    /// The last one.
    pub(crate) fn check(&self) -> crate::Result<()> {
        let untold = self.0.lock();
        match &untold.1 {
            Some(last) if untold.0 > 0 => Err(last.clone()),
            _ => Ok(()),
        }
    }
}
