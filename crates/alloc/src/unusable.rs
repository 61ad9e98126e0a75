//! Groups whose bitmap cannot be used: unreadable, damaged, or with another count than the
//! descriptor.
//!
//! Invariants: nothing is allocated in such a group, and the loader hears once how many free
//! clusters that loses. A group is marked only while it is not loaded, so its count of free
//! clusters is the descriptor's, less those that wait for a commit.
//!
//! Locking: `Rank::GroupSpace`, released before the loader is called.

use crate::Loader;
use crate::group::{Shape, State};
use crate::groups::Groups;
use crate::regions::Regions;
use uext4_format::GroupNr;
use uext4_sync::atomic::Ordering::Relaxed;

impl Groups {
    /// Marks a group unless it is loaded or marked.
    pub(crate) fn mark_bad(&self, nr: GroupNr, loader: &dyn Loader) {
        let lost = {
            let mut space = self.group(nr).space.lock();
            let shape = self.shape(nr);
            if space.buddy.is_some() || shape.state == State::Bad {
                return;
            }
            let bad = Shape {
                fragments: 0,
                order: None,
                state: State::Bad,
                ..shape
            };
            self.publish(nr, bad);
            // A bitmap that another thread has read meanwhile is not installed.
            space.generation = space.generation.wrapping_add(1);
            shape.free
        };
        self.bad.store(nr.0, Relaxed);
        loader.lost(nr, lost);
    }

    /// A group whose bitmap cannot be used.
    pub(crate) fn any_bad(&self) -> Option<GroupNr> {
        Some(self.bad.load(Relaxed))
            .filter(|nr| *nr < self.volume.groups)
            .map(GroupNr)
    }
}

impl Regions {
    /// Marks a group unless the tree of its region is loaded, or it is marked.
    pub(crate) fn mark_bad(&self, group: GroupNr, loader: &dyn Loader) {
        let lost = {
            let region = self.region(self.region_of(group));
            let mut space = region.space.lock();
            let counts = self.group(group);
            if space.tree.is_some() || counts.bad.swap(true, Relaxed) {
                return;
            }
            space.generation = space.generation.wrapping_add(1);
            counts.free.load(Relaxed)
        };
        self.bad.store(group.0, Relaxed);
        loader.lost(group, lost);
    }

    /// A group whose bitmap cannot be used.
    pub(crate) fn any_bad(&self) -> Option<GroupNr> {
        let bad = self.bad.load(Relaxed);
        (bad < self.volume.groups).then_some(GroupNr(bad))
    }
}
