//! Survey of buddy groups: finds their orders ahead of requests.
//!
//! A group whose bitmap was never read is in no order, so the cheap criteria cannot find it. The
//! survey reads its bitmap once, together with those of its flexible group, and keeps only the
//! group's summary. A search that the summary leads to the group loads it.
//!
//! Locking: `Rank::GroupSpace`, one group at a time; none while bitmaps are read. As in
//! [`Groups::load`], a bitmap counts only if the group's generation has not changed.

use crate::buddy::Buddy;
use crate::group::{Shape, State};
use crate::groups::Groups;
use crate::{Bitmap, LoadError, Loader, Stat};
use std::ops::Range;
use uext4_format::GroupNr;
use uext4_num::clamp_u32;

impl Groups {
    /// Whether only the free count of a group is known.
    fn is_unknown(&self, nr: GroupNr) -> bool {
        let shape = self.shape(nr);
        shape.state == State::Cold && shape.fragments == 0 && shape.free > 0
    }

    /// Number of groups of which only the free count is known.
    pub(crate) fn unknown(&self) -> u32 {
        let groups = (0..self.volume.groups).map(GroupNr);
        clamp_u32(groups.filter(|nr| self.is_unknown(*nr)).count()) // at most the groups
    }

    /// Indexes the unknown ones of `groups` by their orders, and marks those that cannot be used.
    pub(crate) fn survey(&self, groups: Range<u32>, loader: &dyn Loader) {
        let unknown = groups.map(GroupNr).filter(|nr| self.is_unknown(*nr));
        let unknown: Vec<GroupNr> = unknown.collect();
        let generation = |nr: &GroupNr| self.group(*nr).space.lock().generation;
        let mut generations = unknown
            .iter()
            .map(generation)
            .collect::<Vec<_>>()
            .into_iter();
        loader.scan(&unknown, &mut |nr, seen| {
            let generation = generations.next();
            let good = match (seen, generation) {
                (Ok(used), Some(generation)) => self.learn(nr, used.clone(), generation),
                _ => seen.map(|_| ()),
            };
            if good.is_err() {
                self.mark_bad(nr, loader);
            }
        });
    }

    /// Fails if the descriptor's count of free clusters differs.
    fn learn(&self, nr: GroupNr, mut used: Bitmap, generation: u32) -> Result<(), LoadError> {
        let space = self.group(nr).space.lock();
        if space.buddy.is_some() || space.generation != generation || !self.is_unknown(nr) {
            return Ok(());
        }
        self.mark_pending(nr, &mut used);
        let free = self.shape(nr).free;
        if used.count_clear() != free {
            return Err(LoadError);
        }
        let buddy = Buddy::new(&used, self.max_order);
        let (fragments, order) = (buddy.fragments(), buddy.largest_order());
        let state = State::Cold;
        let shape = Shape {
            free,
            fragments,
            order,
            state,
        };
        self.publish(nr, shape);
        self.stats.count(Stat::Surveys);
        Ok(())
    }
}
