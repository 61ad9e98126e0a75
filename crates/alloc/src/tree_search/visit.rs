//! One tree in a search: the run that serves, within the bounds of the request.
//!
//! Locking: `Rank::GroupSpace`, of this region only: tried for the full length, waited for as the
//! last resort, for the longest run.

use super::{Criterion, Search};
use crate::events;
use crate::free_extents::FreeExtents;
use crate::region::Space;
use crate::stats::Effort;
use crate::{ClusterUse, Run, Stat};
use std::ops::Range;
use uext4_num::{clamp_u32, usize_of};

impl Search<'_> {
    pub(super) fn visit(&self, nr: u32, criterion: Criterion) -> Option<Run> {
        let stats = &self.regions.stats;
        stats.add_effort(criterion.counted(), Effort::GroupsConsidered, 1);
        events::region_chosen(nr, self.regions.region(nr).longest(), self.want);
        if !self.regions.region(nr).is_loaded() {
            self.regions.load(nr, self.loader, self.memory_limit);
        }
        let Some(mut space) = self.regions.region(nr).space.try_lock() else {
            stats.count(Stat::BusySkips);
            return None;
        };
        stats.count(Stat::GroupsScanned);
        let run = self.find_whole(nr, space.tree.as_ref()?, criterion)?;
        Some(self.regions.take(nr, &mut space, run))
    }

    /// First cluster in the region that is out of bounds.
    fn bound(&self, nr: u32) -> u32 {
        let groups = self.end_group - nr * self.regions.per_region;
        groups.saturating_mul(self.regions.volume.clusters_per_group)
    }

    /// A run of the full length: at the goal, soon after it, else the best fit.
    fn find_whole(&self, nr: u32, tree: &FreeExtents, criterion: Criterion) -> Option<Range<u32>> {
        if tree.largest() < self.want {
            return None;
        }
        let volume = &self.regions.volume;
        let data = self.request.kind == ClusterUse::Data && volume.groups_per_flex >= 4;
        let first = (nr * self.regions.per_region).is_multiple_of(volume.groups_per_flex.max(1));
        let strict = criterion == Criterion::Strict && data && first;
        let (least, bound) = (
            if strict { volume.clusters_per_group } else { 0 },
            self.bound(nr),
        );
        let allowed = |run: &Range<u32>| {
            run.end - run.start >= self.want && run.start >= least && run.end <= bound
        };
        let cut = |run: Range<u32>| run.start..run.start + self.want;
        if let Some(run) = self.on_stripe(nr, tree, allowed) {
            return Some(cut(run));
        }
        if nr == self.start {
            let here = tree
                .containing(self.goal)
                .map(|run| self.goal..run.end)
                .filter(allowed);
            let run = here.or_else(|| {
                let runs = tree.starting_in(self.goal..u32::MAX);
                runs.take(usize_of(self.limits.min_to_scan)).find(allowed)
            });
            if let Some(run) = run {
                return Some(cut(run));
            }
        }
        tree.fitting(self.want)
            .take(usize_of(self.limits.max_to_scan))
            .find(allowed)
            .map(cut)
    }

    /// The part of a free run from a stripe boundary on, if whole stripes are wanted.
    fn on_stripe(
        &self,
        nr: u32,
        tree: &FreeExtents,
        allowed: impl Fn(&Range<u32>) -> bool,
    ) -> Option<Range<u32>> {
        let stripe = self.limits.stripe;
        if stripe <= 1 || !self.want.is_multiple_of(stripe) {
            return None;
        }
        let first = clamp_u32(self.regions.first_cluster(nr) % u64::from(stripe));
        tree.fitting(self.want)
            .take(usize_of(self.limits.max_to_scan))
            .map(|run| run.start + (stripe - (first + run.start) % stripe) % stripe..run.end)
            .find(|run| run.start <= run.end && allowed(run))
    }

    pub(super) fn take_longest(&self, nr: u32) -> Option<Run> {
        let mut space = self.regions.lock_loaded(nr, self.loader, self.memory_limit);
        let run = self.find_longest(nr, &space)?;
        Some(self.regions.take(nr, &mut space, run))
    }

    fn find_longest(&self, nr: u32, space: &Space) -> Option<Range<u32>> {
        let (tree, bound) = (space.tree.as_ref()?, self.bound(nr));
        let whole = self.find_whole(nr, tree, Criterion::Whole);
        whole.or_else(|| {
            let inside = |run: &Range<u32>| run.end <= bound;
            let longest = tree.longest().filter(inside);
            let longest = longest.or_else(|| tree.fitting(self.request.min_len).rfind(inside))?;
            let len = (longest.end - longest.start).min(self.want);
            (len >= self.request.min_len).then(|| longest.start..longest.start + len)
        })
    }
}
