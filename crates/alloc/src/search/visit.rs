//! One group in a search: whether it may serve, its bitmap, and the best fitting run.
//!
//! Locking: `Rank::GroupSpace`, of this group only. The shape is checked without the lock and again
//! under it. Bitmaps are loaded and prefetched with no lock held.

use super::{Best, Flow, Search};
use crate::buddy::Buddy;
use crate::group::{Shape, Space, State};
use crate::stats::{Criterion, Effort};
use crate::{ClusterUse, Run, Stat, words};
use std::ops::Range;
use uext4_format::GroupNr;
use uext4_num::clamp_u32;

impl Search<'_> {
    /// Whether a group of this shape may serve the request.
    fn suits(&self, nr: GroupNr, shape: Shape, criterion: Criterion) -> bool {
        let least = self.request.min_len;
        if shape.state == State::Bad || shape.free < least.max(1) {
            return false;
        }
        let known = shape.fragments > 0;
        let longest = match (shape.state, shape.order) {
            // Without an aligned chunk of the next order no run is longer than this.
            (State::Loaded, Some(order)) if order < self.groups.max_order => (4 << order) - 2,
            _ => u32::MAX,
        };
        if longest < least {
            return false;
        }
        match criterion {
            Criterion::PowerOf2 if self.reserved_for_metadata(nr) => false,
            _ if criterion.is_cheap() && shape.free < self.want => false,
            Criterion::PowerOf2 => !known || shape.order >= Some(self.want.ilog2()),
            Criterion::GoalFast | Criterion::BestAvail => {
                !known || shape.free / shape.fragments >= self.want
            }
            Criterion::GoalSlow => shape.free >= self.want,
            Criterion::AnyFree => true,
        }
    }

    fn reserved_for_metadata(&self, nr: GroupNr) -> bool {
        let volume = &self.groups.volume;
        self.request.kind == ClusterUse::Data
            && volume.groups_per_flex >= 4
            && volume.flex_start(nr) == nr
    }

    pub(super) fn visit(&mut self, nr: GroupNr, criterion: Criterion) -> Flow {
        self.spent(criterion, Effort::GroupsConsidered, 1);
        // Without a look at the group, which its thread changes.
        let near_another = self
            .others
            .as_ref()
            .is_some_and(|others| others.are_near(nr));
        if near_another {
            self.avoided = true;
            return Flow::Continue(());
        }
        let shape = self.groups.shape(nr);
        if !self.suits(nr, shape, criterion) {
            return Flow::Continue(());
        }
        if !self.make_ready(nr, shape, criterion) {
            return Flow::Continue(());
        }
        let waits = criterion == Criterion::AnyFree || self.locality.base_lines().waits;
        let space = if waits {
            self.groups.lock_loaded(nr, self.loader).ok()
        } else {
            self.groups.group(nr).space.try_lock()
        };
        let Some(mut space) = space else {
            self.groups.stats.count(Stat::BusySkips);
            return Flow::Continue(());
        };
        if !self.suits(nr, self.groups.shape(nr), criterion) {
            return Flow::Continue(());
        }
        self.search_group(nr, &mut space, criterion)
    }

    /// Loads a group if the criterion may; false if the group is to be skipped.
    fn make_ready(&mut self, nr: GroupNr, shape: Shape, criterion: Criterion) -> bool {
        if shape.state == State::Loaded {
            return true;
        }
        let costs_io = shape.state == State::Cold && shape.fragments == 0;
        let may_load = nr == self.start || self.locality.base_lines().loads_all;
        if criterion.is_cheap() && costs_io && !may_load {
            return false;
        }
        if shape.state == State::Cold {
            self.prefetch(nr);
        }
        self.groups.load(nr, self.loader).is_ok()
    }

    /// Prefetches the bitmaps of the next groups of the flexible group, which are contiguous.
    fn prefetch(&mut self, nr: GroupNr) {
        let left = self.limits.prefetch_limit.saturating_sub(self.prefetched);
        let most = self.limits.prefetch.min(left);
        if most == 0 || self.ahead.contains(&nr.0) {
            return;
        }
        let volume = &self.groups.volume;
        let flex = match volume.groups_per_flex {
            0 | 1 => u32::MAX,
            groups => volume.flex_start(nr).0.saturating_add(groups),
        };
        let end = flex.min(volume.groups).min(nr.0.saturating_add(most));
        self.prefetched += end - nr.0;
        self.ahead = nr.0..end;
        self.loader.prefetch(nr.0..end);
    }

    fn search_group(&mut self, nr: GroupNr, space: &mut Space, criterion: Criterion) -> Flow {
        let Some(buddy) = space.buddy.as_ref() else {
            return Flow::Continue(()); // evicted between load and lock
        };
        self.groups.stats.count(Stat::GroupsScanned);
        let seen = self.found;
        let found = match criterion {
            Criterion::PowerOf2 => buddy
                .find_chunk(self.want.ilog2())
                .map(|start| start..start + self.want),
            _ => self
                .find_stripe(nr, buddy)
                .or_else(|| self.find_run(nr, buddy)),
        };
        self.spent(
            criterion,
            Effort::ExtentsScanned,
            u64::from(self.found - seen),
        );
        if let Some(run) = found {
            let len = words::len(&run);
            if len >= self.want {
                let len = len.min(self.request.len);
                return Flow::Break(Some(self.groups.take(nr, space, run.start, len)));
            }
            if len >= self.request.min_len && self.best.is_none_or(|best| best.len < len) {
                self.best = Some(Best {
                    group: nr,
                    start: run.start,
                    len,
                });
            }
        }
        if self.best.is_some() && self.found > self.limits.max_to_scan {
            return Flow::Break(None);
        }
        Flow::Continue(())
    }

    /// A run on a stripe boundary, if whole stripes are wanted.
    fn find_stripe(&mut self, nr: GroupNr, buddy: &Buddy) -> Option<Range<u32>> {
        let stripe = self.limits.stripe;
        if stripe <= 1 || !self.want.is_multiple_of(stripe) {
            return None;
        }
        let first = clamp_u32(self.groups.volume.first_cluster(nr).0 % u64::from(stripe));
        buddy.runs(0..buddy.clusters()).find_map(|run| {
            let start = run.start + (stripe - (first + run.start) % stripe) % stripe;
            (start + self.want <= run.end).then_some(start..run.end)
        })
    }

    /// The best fit among the first runs that fit, else the longest run.
    fn find_run(&mut self, nr: GroupNr, buddy: &Buddy) -> Option<Range<u32>> {
        let from = if nr == self.start { self.offset } else { 0 };
        let mut best: Option<Range<u32>> = None;
        let mut fitting = 0;
        for run in buddy
            .runs(from..buddy.clusters())
            .chain(buddy.runs(0..from))
        {
            self.found += 1;
            let fits = words::len(&run) >= self.want;
            if words::len(&run) == self.want || (fits && from > 0 && run.start == from) {
                return Some(run);
            }
            fitting += u32::from(fits);
            if best
                .as_ref()
                .is_none_or(|best| self.is_better(words::len(&run), words::len(best)))
            {
                best = Some(run);
            }
            if fitting >= self.limits.min_to_scan || self.found > self.limits.max_to_scan {
                let enough = best.as_ref().map_or(0, words::len);
                if enough >= self.request.min_len {
                    break;
                }
            }
        }
        best
    }

    fn is_better(&self, len: u32, than: u32) -> bool {
        match (len >= self.want, than >= self.want) {
            (true, true) => len < than,
            (fits, than_fits) if fits != than_fits => fits,
            _ => len > than,
        }
    }

    pub(super) fn take_best(&mut self, best: Best) -> Option<Run> {
        let mut space = self.groups.lock_loaded(best.group, self.loader).ok()?;
        let len = space.buddy.as_ref()?.free_at(best.start, best.len);
        let enough = len >= self.request.min_len;
        enough.then(|| self.groups.take(best.group, &mut space, best.start, len))
    }
}
