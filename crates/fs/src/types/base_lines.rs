//! Earlier designs, to measure against: the feature `experiments`.
//!
//! Without the feature no mount has a baseline, which the compiler knows.

/// Earlier behaviour, as a baseline for experiments only. Each field is one design as it was before
/// an improvement; all but [`Self::untracked_orphans`] keep every promise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "experiments"), expect(unreachable_pub))]
pub struct BaseLines {
    /// Searches wait for busy buddy groups instead of skipping them, and all share one goal.
    pub blocking_groups: bool,
    /// Searches of buddy groups read and store one goal behind a mutex.
    pub locked_goal: bool,
    /// Searches load the bitmaps of all buddy groups on their way: there is no summary.
    pub cold_groups: bool,
    /// Orphans are not tracked: after a crash their space leaks.
    pub untracked_orphans: bool,
    /// Every truncate and removal locks the orphan list, even for an inode that stays on it. The
    /// orphan file is not used.
    pub locked_orphans: bool,
    /// The shrinker of cached extents sorts all files by their last use, and scans files from their
    /// start until it has dropped enough.
    pub sorted_shrinker: bool,
    /// Every commit checks all blocks that wait for their checkpoint, instead of counting them.
    pub scanned_checkpoints: bool,
    /// A free inode is found without a lock and set under one; another thread may be faster. All
    /// threads begin at the same inode of the same group.
    pub racing_inodes: bool,
}

#[cfg(feature = "experiments")]
impl BaseLines {
    /// Those of buddy groups.
    pub(crate) fn of_buddies(self) -> uext4_alloc::BuddyBaseLines {
        uext4_alloc::BuddyBaseLines {
            waits: self.blocking_groups,
            locked_goal: self.locked_goal,
            loads_all: self.cold_groups,
        }
    }

    pub(crate) fn tracking(self) -> uext4_journal::Tracking {
        if self.scanned_checkpoints {
            uext4_journal::Tracking::Scanned
        } else {
            uext4_journal::Tracking::Counted
        }
    }
}
