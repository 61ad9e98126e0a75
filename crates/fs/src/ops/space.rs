//! Free space: discard and fragmentation.

use crate::ops::filesystem::Filesystem;
use crate::state::space::FreeFragments;
use crate::types::error::Result;
use std::ops::Range;

impl Filesystem {
    /// Discards free space inside the byte range `range`, in runs of at least `min_len_bytes`;
    /// returns how many bytes were discarded. Freed blocks that wait for a commit are skipped.
    /// Nothing is discarded while a snapshot is read, which would have to keep it.
    ///
    /// # Errors
    /// [`crate::Error::Invalid`] for a range that starts behind the file system or is shorter than
    /// a block, and for runs longer than a group; errors of the device; [`crate::Error::ReadOnly`].
    pub fn trim(&self, range: Range<u64>, min_len_bytes: u64) -> Result<u64> {
        let layer = self.fs.lifecycle.lock().media.snapshots.first().cloned();
        let left_bytes = || layer.as_ref().map_or(0, |layer| layer.left_bytes());
        self.change(|fs| {
            fs.writable()?;
            let left_before = left_bytes();
            let discarded = fs.space.trim(&fs.base, range, min_len_bytes)?;
            // A snapshot may begin and end meanwhile.
            Ok(discarded.saturating_sub(left_bytes() - left_before))
        })
    }

    /// Reads all block bitmaps; the picture has at most `slices` slices. Preallocated space and
    /// blocks that wait for a commit count as free.
    ///
    /// # Errors
    /// [`crate::Error::Corrupt`] for a damaged bitmap.
    pub fn free_fragments(&self, slices: usize) -> Result<FreeFragments> {
        // Not beside a growth, which changes bitmaps on the device.
        let _life = self.fs.lifecycle.lock();
        self.run(|fs| fs.space.fragments(&fs.base, slices))
    }
}
