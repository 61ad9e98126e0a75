//! Files that lost data which could not be written out, and of which no `fsync` was told.
//!
//! A file keeps its errors only while its inode is in memory; this count stays. While there is such
//! a file, `sync` fails, and so does the unmount.

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
    /// A file whose errors were all told lost data.
    pub(crate) fn note(&self, error: &Error) {
        let mut untold = self.0.lock();
        untold.0 += 1;
        untold.1 = Some(error.clone());
    }

    /// An `fsync` of one of the files was told.
    pub(crate) fn told(&self) {
        let mut untold = self.0.lock();
        untold.0 = untold.0.saturating_sub(1);
    }

    /// Whether there is none.
    ///
    /// # Errors
    /// The last.
    pub(crate) fn check(&self) -> crate::Result<()> {
        let untold = self.0.lock();
        match &untold.1 {
            Some(last) if untold.0 > 0 => Err(last.clone()),
            _ => Ok(()),
        }
    }
}
