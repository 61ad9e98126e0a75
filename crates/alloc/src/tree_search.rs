//! One allocation from free-space trees.
//!
//! First the tree of the goal, then by the index straight to a tree whose longest run is known to
//! suffice; when there is none, the criterion falls at once, without a scan. Only the exact goal
//! and the last criterion wait for a lock. How eagerly unknown trees are built meanwhile is the
//! *cache aggression*: 0, only when nothing known can serve; 1, every second request that the
//! strict criterion could not serve; 2, every second request that no known tree can serve; 3, one
//! at every request.

use crate::flex_groups::{FlexGroups, Space, order_of};
use crate::free_extents::FreeExtents;
use crate::stats::{self, Effort};
use crate::tree_engine::TreeEngine;
use crate::tunables::Limits;
use crate::{Error, Goal, Kind, Loader, Placement, Request, Run, Stat};
use std::ops::Range;
use uext4_format::GroupNr;

/// What a run must satisfy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Criterion {
    /// All that is wanted, data outside the first group of a flexible group.
    Strict,
    /// All that is wanted.
    Whole,
}

impl Criterion {
    /// Under which its work is counted.
    fn counted(self) -> stats::Criterion {
        match self {
            Criterion::Strict => stats::Criterion::GoalFast,
            Criterion::Whole => stats::Criterion::GoalSlow,
        }
    }
}

/// Which trees a walk over the index considers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trees {
    Loaded,
    Known,
}

pub(crate) struct Search<'a> {
    engine: &'a TreeEngine,
    groups: &'a FlexGroups,
    loader: &'a dyn Loader,
    request: &'a Request,
    limits: Limits,
    memory_limit: u64,
    /// Block groups and flexible groups at and past these are out of bounds.
    end_group: u32,
    end: u32,
    start: u32,
    /// Where in `start` to look first.
    goal: u32,
    want: u32,
}

impl<'a> Search<'a> {
    pub(crate) fn new(
        engine: &'a TreeEngine,
        request: &'a Request,
        loader: &'a dyn Loader,
    ) -> Self {
        let groups = &engine.groups;
        let volume = &groups.volume;
        let per_group = u64::from(volume.clusters_per_group);
        let end_group = request.end.map_or(volume.groups, |end| {
            u32::try_from(end.0 / per_group)
                .unwrap_or(u32::MAX)
                .min(volume.groups)
        });
        Self {
            engine,
            groups,
            loader,
            request,
            limits: engine.tunables.read(),
            memory_limit: engine.memory_limit(),
            end_group,
            end: end_group.div_ceil(volume.groups_per_flex.max(1)),
            start: 0,
            goal: 0,
            want: request.len.min(volume.clusters_per_group),
        }
    }

    pub(crate) fn run(mut self) -> Result<Run, Error> {
        let stats = &self.groups.stats;
        if self.request.min_len > self.want {
            return Err(Error::NoSpace); // longer than a group
        }
        if let Some(run) = self.try_goal() {
            stats.count(Stat::GoalHits);
            return Ok(run);
        }
        if matches!(self.request.goal, Goal::Only(_)) || self.end == 0 {
            return Err(Error::NoSpace);
        }
        let first = self.choose_start();
        let run = self.by_criteria().ok_or_else(|| self.refusal())?;
        if let Some((group, _)) = self.groups.volume.locate(run.start) {
            self.remember(first, group);
        }
        Ok(run)
    }

    fn refusal(&self) -> Error {
        self.groups
            .any_bad()
            .map_or(Error::NoSpace, Error::Unreadable)
    }

    fn remember(&self, first: GroupNr, group: GroupNr) {
        if self.request.placement == Placement::Stream {
            if self.groups.flex_of(first) == self.groups.flex_of(group) {
                self.groups.stats.count(Stat::StreamGoalHits);
            }
            self.engine.locality.streamed(self.request.inode, group);
        } else {
            self.engine.locality.used(group);
        }
    }

    fn try_goal(&self) -> Option<Run> {
        let (goal, least) = match self.request.goal {
            Goal::At(goal) => (goal, self.want),
            Goal::Only(goal) => (goal, self.request.min_len),
            Goal::Near(_) | Goal::Anywhere => return None,
        };
        let (group, _) = self.groups.volume.locate(goal)?;
        if group.0 >= self.end_group || self.groups.free(group) < least {
            return None;
        }
        let nr = self.groups.flex_of(group);
        let mut space = self.groups.lock_loaded(nr, self.loader, self.memory_limit);
        let at = (goal.0 - self.groups.first_cluster(nr)) as u32; // inside the flexible group
        let len = space.tree.as_ref()?.free_at(at, self.want);
        (len >= least).then(|| self.groups.take(nr, &mut space, at..at + len))
    }

    /// Chooses the tree to begin with; returns the block group it was chosen by.
    fn choose_start(&mut self) -> GroupNr {
        let (volume, locality) = (&self.groups.volume, &self.engine.locality);
        let goal = match self.request.goal {
            Goal::At(goal) | Goal::Near(goal) | Goal::Only(goal) => volume.locate(goal),
            Goal::Anywhere => None,
        };
        let goal = goal.filter(|(group, _)| group.0 < self.end_group);
        let (group, offset) = match (self.request.placement, goal) {
            (Placement::Stream, _) => (locality.stream(self.request.inode, self.end_group), 0),
            (Placement::Local, None) => (locality.anywhere(self.end_group), 0),
            (Placement::Local, Some(goal)) => goal,
        };
        self.start = self.groups.flex_of(group);
        let first = volume.first_cluster(group).0 - self.groups.first_cluster(self.start);
        self.goal = first as u32 + offset; // inside the flexible group
        group
    }

    fn by_criteria(&self) -> Option<Run> {
        let stats = &self.groups.stats;
        let aggression = self.limits.cache_aggression;
        for criterion in [Criterion::Strict, Criterion::Whole] {
            let allowed = match aggression {
                0 => false,
                1 => criterion == Criterion::Whole && self.engine.every_second(),
                2 => self.engine.every_second(),
                _ => true,
            };
            if let Some(run) = self.whole(criterion, allowed) {
                stats.count(criterion.counted().hits());
                return Some(run);
            }
            stats.add_effort(criterion.counted(), Effort::UselessLoops, 1);
        }
        let run = self.any()?;
        stats.count(Stat::AnyFreeHits);
        Some(run)
    }

    /// All that is wanted, from the goal's tree, a known tree or one cold tree.
    fn whole(&self, criterion: Criterion, may_load: bool) -> Option<Run> {
        let start = self.groups.flex(self.start);
        let cold = self
            .groups
            .cold
            .next(0, self.start, self.start + 1)
            .is_some();
        if (cold || start.largest() >= self.want)
            && let Some(run) = self.visit(self.start, criterion)
        {
            return Some(run);
        }
        if may_load && self.limits.cache_aggression >= 3 {
            self.load_cold();
        }
        let known = self.by_index(criterion, Trees::Loaded);
        known
            .or_else(|| self.by_index(criterion, Trees::Known))
            .or_else(|| {
                let nr = may_load.then(|| self.load_cold())??;
                (self.groups.flex(nr).largest() >= self.want).then(|| self.visit(nr, criterion))?
            })
    }

    /// Goes by the index from the start upward, wrapped last; within a stretch by order, upward.
    fn by_index(&self, criterion: Criterion, trees: Trees) -> Option<Run> {
        let orders = order_of(self.want)?..self.groups.orders;
        let mut tries = self.limits.max_to_scan.max(1);
        for range in [self.start..self.end, 0..self.start] {
            for order in orders.clone() {
                let mut from = range.start;
                while let Some(GroupNr(nr)) = self.groups.by_largest.next(order, from, range.end) {
                    from = nr + 1;
                    let flex = self.groups.flex(nr);
                    if flex.largest() < self.want || flex.is_loaded() != (trees == Trees::Loaded) {
                        continue;
                    }
                    if let Some(run) = self.visit(nr, criterion) {
                        return Some(run);
                    }
                    tries -= 1;
                    if tries == 0 {
                        return None;
                    }
                }
            }
        }
        None
    }

    /// Builds the next tree of which nothing sure is known.
    fn load_cold(&self) -> Option<u32> {
        let next = |range: Range<u32>| self.groups.cold.next(0, range.start, range.end);
        let GroupNr(nr) = next(self.start..self.end).or_else(|| next(0..self.start))?;
        self.groups.load(nr, self.loader, self.memory_limit);
        Some(nr)
    }

    fn visit(&self, nr: u32, criterion: Criterion) -> Option<Run> {
        let stats = &self.groups.stats;
        stats.add_effort(criterion.counted(), Effort::GroupsConsidered, 1);
        if !self.groups.flex(nr).is_loaded() {
            self.groups.load(nr, self.loader, self.memory_limit);
        }
        let Some(mut space) = self.groups.flex(nr).space.try_lock() else {
            stats.count(Stat::BusySkips);
            return None;
        };
        stats.count(Stat::GroupsScanned);
        let run = self.find_whole(nr, space.tree.as_ref()?, criterion)?;
        Some(self.groups.take(nr, &mut space, run))
    }

    /// First cluster in the flexible group that is out of bounds.
    fn bound(&self, nr: u32) -> u32 {
        let volume = &self.groups.volume;
        let groups = self.end_group - nr * volume.groups_per_flex.max(1);
        groups.saturating_mul(volume.clusters_per_group)
    }

    /// A run of all that is wanted: at the goal, soon after it, else where it fits best.
    fn find_whole(&self, nr: u32, tree: &FreeExtents, criterion: Criterion) -> Option<Range<u32>> {
        if tree.largest() < self.want {
            return None;
        }
        let volume = &self.groups.volume;
        let data = self.request.kind == Kind::Data && volume.groups_per_flex >= 4;
        let strict = criterion == Criterion::Strict && data;
        let (least, bound) = (
            if strict { volume.clusters_per_group } else { 0 },
            self.bound(nr),
        );
        let allowed = |run: &Range<u32>| {
            run.end - run.start >= self.want && run.start >= least && run.end <= bound
        };
        let cut = |run: Range<u32>| run.start..run.start + self.want;
        if nr == self.start {
            let here = tree
                .containing(self.goal)
                .map(|run| self.goal..run.end)
                .filter(allowed);
            let after = || {
                let runs = tree.starting_in(self.goal..u32::MAX);
                runs.take(self.limits.min_to_scan as usize).find(allowed)
            };
            if let Some(run) = here.or_else(after) {
                return Some(cut(run));
            }
        }
        tree.fitting(self.want)
            .take(self.limits.max_to_scan as usize)
            .find(allowed)
            .map(cut)
    }

    /// The longest run of a tree with the longest known runs; builds trees until one serves.
    fn any(&self) -> Option<Run> {
        let mut turns = u64::from(self.end) * 2 + 16;
        loop {
            let known = self
                .longest(Trees::Loaded)
                .or_else(|| self.longest(Trees::Known));
            if known.is_some() {
                return known;
            }
            turns = turns.checked_sub(1)?;
            self.load_cold()?;
        }
    }

    fn longest(&self, trees: Trees) -> Option<Run> {
        let least = order_of(self.request.min_len)?;
        for order in (least..self.groups.orders).rev() {
            for range in [self.start..self.end, 0..self.start] {
                let mut from = range.start;
                while let Some(GroupNr(nr)) = self.groups.by_largest.next(order, from, range.end) {
                    from = nr + 1;
                    let flex = self.groups.flex(nr);
                    let due = flex.is_loaded() == (trees == Trees::Loaded);
                    if due
                        && flex.largest() >= self.request.min_len
                        && let Some(run) = self.take_longest(nr)
                    {
                        return Some(run);
                    }
                }
            }
        }
        None
    }

    fn take_longest(&self, nr: u32) -> Option<Run> {
        let mut space = self.groups.lock_loaded(nr, self.loader, self.memory_limit);
        let run = self.find_longest(nr, &space)?;
        Some(self.groups.take(nr, &mut space, run))
    }

    fn find_longest(&self, nr: u32, space: &Space) -> Option<Range<u32>> {
        let (tree, bound) = (space.tree.as_ref()?, self.bound(nr));
        let whole = self.find_whole(nr, tree, Criterion::Whole);
        let longest = || {
            let inside = |run: &Range<u32>| run.end <= bound;
            let longest = tree.longest().filter(inside);
            let longest = longest.or_else(|| tree.fitting(self.request.min_len).rfind(inside))?;
            let len = (longest.end - longest.start).min(self.want);
            (len >= self.request.min_len).then(|| longest.start..longest.start + len)
        };
        whole.or_else(longest)
    }
}
