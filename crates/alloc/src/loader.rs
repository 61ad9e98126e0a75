//! How an engine gets bitmaps. The file system implements [`Loader`].
//!
//! Locking: called with no lock of this crate held; may do I/O and take `Rank::GroupBitmap`.

use crate::Bitmap;
use std::ops::Range;
use uext4_format::GroupNr;

/// The bitmap could not be read or is corrupt; the loader keeps the details.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bitmap of the group cannot be used")]
pub struct LoadError;

/// What to do with a group whose descriptor and bitmap count different free clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Go by the bitmap.
    Bitmap,
    /// Allocate nothing from the group.
    Neither,
}

/// Source of block bitmaps.
pub trait Loader {
    /// Puts the group's current bitmap (with every bit that was set or cleared so far, committed
    /// or not) into `used`, one bit per cluster of the group. `used` comes all clear. A group
    /// whose bitmap is uninitialised is computed, without I/O.
    fn load(&self, group: GroupNr, used: &mut Bitmap) -> Result<(), LoadError>;

    /// As [`Self::load`] for several groups, ascending, but for a look only: what is read for it
    /// does not stay in memory. Calls `each` for every group, ascending.
    fn look(&self, groups: &[GroupNr], each: &mut dyn FnMut(GroupNr, Result<&Bitmap, LoadError>));

    /// The bitmaps of these groups, all of one flexible group, will be wanted soon; must not wait.
    fn prefetch(&self, groups: Range<u32>) {
        let _ = groups;
    }

    /// The descriptor promised `expected` free clusters, the bitmap has `found`.
    fn count_differs(&self, group: GroupNr, expected: u32, found: u32) -> Trust {
        let _ = (group, expected, found);
        Trust::Neither
    }
}
