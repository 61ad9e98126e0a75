//! Source of the bitmaps of an engine. The file system implements [`Loader`].
//!
//! Locking: called with no lock of this crate held; may do I/O and take `Rank::GroupBitmap`.

use crate::Bitmap;
use std::ops::Range;
use uext4_format::GroupNr;

/// The bitmap could not be read or is corrupt; the loader keeps the details.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bitmap of the group cannot be used")]
pub struct LoadError;

/// Source of block bitmaps.
pub trait Loader {
    /// Puts the group's current bitmap, one bit per cluster, into `used`, which starts all clear.
    /// The bitmap has every bit change so far, committed or not. An uninitialised bitmap is
    /// computed, without I/O.
    fn load(&self, group: GroupNr, used: &mut Bitmap) -> Result<(), LoadError>;

    /// As [`Self::load`] for several groups, ascending, but the bitmaps are not kept in memory.
    /// Calls `each` for every group, ascending.
    fn scan(&self, groups: &[GroupNr], each: &mut dyn FnMut(GroupNr, Result<&Bitmap, LoadError>));

    /// The bitmap of the group cannot be used, so its `clusters` free clusters are not allocated.
    /// Called once for each such group, with no lock held; clusters of it that are freed later are
    /// not returned by [`crate::Engine::finish_return`].
    fn lost(&self, group: GroupNr, clusters: u32) {
        let _ = (group, clusters);
    }

    /// Prefetches the bitmaps of these groups, all of one flexible group; must not wait.
    fn prefetch(&self, groups: Range<u32>) {
        let _ = groups;
    }
}
