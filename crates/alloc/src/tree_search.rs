//! One allocation from free-space trees.
//!
//! First the tree of the goal, then by the summary straight to a tree whose longest run is known
//! to suffice. When there is none, the request may look into some regions that nobody has read
//! yet, those first whose free counts promise most; then the criterion falls at once, without a
//! scan. Only the exact goal and the last criterion wait for a lock.
//!
//! How eagerly a request reads is the *cache aggression*: 0, only what promises much more than the
//! region that the search begins in, or when nothing known can serve at all; 1, at every second
//! request that the strict criterion could not serve; 2, at every second request that no known
//! tree can serve wholly; 3, at every request, and each builds one tree more. At 1 and 2 a thread
//! that looks in vain looks less often, so that a volume without long runs does not make every
//! write read.

use crate::events;
use crate::free_extents::FreeExtents;
use crate::locality::Others;
use crate::region::Space;
use crate::regions::{Regions, order_of};
use crate::stats::{self, Effort};
use crate::tree_engine::TreeEngine;
use crate::tunables::Limits;
use crate::{Error, Goal, Kind, Loader, Placement, Request, Run, Stat};
use std::ops::Range;
use uext4_format::GroupNr;

/// Regions that one request may read before it gives up on contiguity: 4 MiB of bitmaps.
const LOOKS_PER_REQUEST: u32 = 64;
/// The same where reading is avoided.
const RELUCTANT_LOOKS: u32 = 4;

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
    regions: &'a Regions,
    loader: &'a dyn Loader,
    request: &'a Request,
    limits: Limits,
    memory_limit: u64,
    /// Block groups and regions at and past these are out of bounds.
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
        let regions = &engine.regions;
        let volume = &regions.volume;
        let per_group = u64::from(volume.clusters_per_group);
        let end_group = request.end.map_or(volume.groups, |end| {
            u32::try_from(end.0 / per_group)
                .unwrap_or(u32::MAX)
                .min(volume.groups)
        });
        Self {
            engine,
            regions,
            loader,
            request,
            limits: engine.tunables.read(),
            memory_limit: engine.memory_limit(),
            end_group,
            end: end_group.div_ceil(regions.per_region),
            start: 0,
            goal: 0,
            want: request.len.min(volume.clusters_per_group),
        }
    }

    pub(crate) fn run(mut self) -> Result<Run, Error> {
        let stats = &self.regions.stats;
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
        self.choose_start();
        let run = self.by_criteria().ok_or_else(|| self.refusal())?;
        if let Some((group, _)) = self.regions.volume.locate(run.start) {
            self.remember(group);
        }
        Ok(run)
    }

    fn refusal(&self) -> Error {
        self.regions
            .any_bad()
            .map_or(Error::NoSpace, Error::Unreadable)
    }

    fn remember(&self, group: GroupNr) {
        let nr = self.regions.region_of(group);
        if self.request.placement == Placement::Stream {
            if nr == self.start {
                self.regions.stats.count(Stat::StreamGoalHits);
            }
            self.engine.locality.streamed(group);
        } else {
            self.engine.locality.used(group);
            self.engine.used(nr);
        }
    }

    fn try_goal(&self) -> Option<Run> {
        let (goal, least) = match self.request.goal {
            Goal::At(goal) => (goal, self.want),
            Goal::Only(goal) => (goal, self.request.min_len),
            Goal::Near(_) | Goal::Anywhere => return None,
        };
        let (group, _) = self.regions.volume.locate(goal)?;
        if group.0 >= self.end_group || self.regions.free(group) < least {
            return None;
        }
        let nr = self.regions.region_of(group);
        let at = (goal.0 - self.regions.first_cluster(nr)) as u32; // inside the region
        // A stream that comes to the end of its region does not run into another thread's.
        let follows = matches!(self.request.goal, Goal::At(_)) && at == 0;
        let (crosses, locality) = (follows && self.is_stream(), &self.engine.locality);
        if crosses
            && locality
                .others(self.end_group)
                .are_in(self.regions.groups_of(nr))
        {
            return None;
        }
        let mut space = self.regions.lock_loaded(nr, self.loader, self.memory_limit);
        let len = space.tree.as_ref()?.free_at(at, self.want);
        if len < least {
            return None;
        }
        if crosses {
            locality.streamed(group);
        }
        Some(self.regions.take(nr, &mut space, at..at + len))
    }

    fn is_stream(&self) -> bool {
        self.request.placement == Placement::Stream
    }

    /// Chooses the region to begin with.
    fn choose_start(&mut self) {
        let (volume, locality) = (&self.regions.volume, &self.engine.locality);
        let goal = match self.request.goal {
            Goal::At(goal) | Goal::Near(goal) | Goal::Only(goal) => volume.locate(goal),
            Goal::Anywhere => None,
        };
        let goal = goal.filter(|(group, _)| group.0 < self.end_group);
        let (group, offset) = match (self.request.placement, goal) {
            (Placement::Stream, _) => (locality.stream(self.end_group), 0),
            (Placement::Local, None) => (locality.anywhere(self.end_group), 0),
            (Placement::Local, Some(goal)) => goal,
        };
        let near = self.request.kind == Kind::Data
            && self.request.placement == Placement::Local
            && matches!(self.request.goal, Goal::Near(_));
        let wanted = self.regions.region_of(group);
        self.start = match near {
            true => self.engine.region_near(group).min(self.end - 1),
            false => wanted,
        };
        if self.start == wanted {
            let first = volume.first_cluster(group).0 - self.regions.first_cluster(wanted);
            self.goal = first as u32 + offset; // inside the region
        }
    }

    fn by_criteria(&self) -> Option<Run> {
        let stats = &self.regions.stats;
        let mut looks = match self.limits.cache_aggression {
            0 => RELUCTANT_LOOKS,
            _ => LOOKS_PER_REQUEST,
        };
        for criterion in [Criterion::Strict, Criterion::Whole] {
            let allowed = if self.may_look(criterion) {
                &mut looks
            } else {
                &mut 0
            };
            if let Some(run) = self.whole(criterion, allowed) {
                stats.count(criterion.counted().hits());
                return Some(run);
            }
            stats.add_effort(criterion.counted(), Effort::UselessLoops, 1);
            events::criterion_failed(criterion.counted().name(), self.want);
        }
        let run = self.any()?;
        stats.count(Stat::AnyFreeHits);
        Some(run)
    }

    fn may_look(&self, criterion: Criterion) -> bool {
        let last = criterion == Criterion::Whole;
        match self.limits.cache_aggression {
            0 => last,
            1 => last && self.engine.is_look_due(),
            2 => self.engine.is_look_due(),
            _ => true,
        }
    }

    /// What a region must promise to be looked at, in clusters.
    fn least_promise(&self) -> u32 {
        match self.limits.cache_aggression {
            0 => {
                let here = self.regions.region(self.start).promise();
                self.want.max(here.saturating_add(here / 2))
            }
            _ => self.want,
        }
    }

    /// All that is wanted, from the goal's tree, a known tree or one that nobody has read yet.
    fn whole(&self, criterion: Criterion, looks: &mut u32) -> Option<Run> {
        let start = self.regions.region(self.start);
        if !start.is_known() && start.promise() >= self.want {
            self.regions.survey(self.start, self.loader);
        }
        if start.longest() >= self.want
            && let Some(run) = self.visit(self.start, criterion)
        {
            return Some(run);
        }
        if *looks > 0 && self.limits.cache_aggression >= 3 {
            self.load_cold();
        }
        self.apart(criterion)
            .or_else(|| self.by_index(criterion, Trees::Loaded, None))
            .or_else(|| self.by_index(criterion, Trees::Known, None))
            .or_else(|| self.explore(criterion, looks))
    }

    /// From regions where no other thread's stream is.
    fn apart(&self, criterion: Criterion) -> Option<Run> {
        if !self.is_stream() {
            return None;
        }
        let others = self.engine.locality.others(self.end_group);
        if !others.are_in(0..self.end_group) {
            return None;
        }
        let others = Some(&others);
        self.by_index(criterion, Trees::Loaded, others)
            .or_else(|| self.by_index(criterion, Trees::Known, others))
    }

    /// Reads regions that promise all that is wanted, until one keeps it.
    fn explore(&self, criterion: Criterion, looks: &mut u32) -> Option<Run> {
        let before = *looks;
        let run = self.explore_now(criterion, looks);
        if *looks < before {
            self.engine.looked(run);
        }
        run
    }

    fn explore_now(&self, criterion: Criterion, looks: &mut u32) -> Option<Run> {
        let least = self.least_promise();
        for step in self.regions.cold.steps(least) {
            for range in [self.start..self.end, 0..self.start.min(self.end)] {
                let mut from = range.start;
                while *looks > 0
                    && let Some(nr) = self.regions.cold.next(step, from..range.end)
                {
                    from = nr + 1;
                    let region = self.regions.region(nr);
                    if region.promise() < least || !self.regions.survey(nr, self.loader) {
                        continue;
                    }
                    *looks -= 1;
                    if region.longest() >= self.want
                        && let Some(run) = self.visit(nr, criterion)
                    {
                        return Some(run);
                    }
                }
            }
        }
        None
    }

    /// Goes by the index from the start upward, wrapped last; within a stretch by order, upward.
    fn by_index(
        &self,
        criterion: Criterion,
        trees: Trees,
        others: Option<&Others<'_>>,
    ) -> Option<Run> {
        let is_theirs = |nr| others.is_some_and(|others| others.are_in(self.regions.groups_of(nr)));
        let orders = order_of(self.want)?..self.regions.orders;
        let mut tries = self.limits.max_to_scan.max(1);
        for range in [self.start..self.end, 0..self.start] {
            for order in orders.clone() {
                let mut from = range.start;
                while let Some(GroupNr(nr)) = self.regions.by_longest.next(order, from, range.end) {
                    from = nr + 1;
                    let region = self.regions.region(nr);
                    if region.longest() < self.want
                        || region.is_loaded() != (trees == Trees::Loaded)
                        || is_theirs(nr)
                    {
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

    /// Builds the most promising tree of which nothing sure is known.
    fn load_cold(&self) -> Option<u32> {
        let here = |step| {
            let next = |range| self.regions.cold.next(step, range);
            next(self.start..self.end).or_else(|| next(0..self.start.min(self.end)))
        };
        let nr = self.regions.cold.steps(1).find_map(here)?;
        self.regions.load(nr, self.loader, self.memory_limit);
        Some(nr)
    }

    fn visit(&self, nr: u32, criterion: Criterion) -> Option<Run> {
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

    /// A run of all that is wanted: at the goal, soon after it, else where it fits best.
    fn find_whole(&self, nr: u32, tree: &FreeExtents, criterion: Criterion) -> Option<Range<u32>> {
        if tree.largest() < self.want {
            return None;
        }
        let volume = &self.regions.volume;
        let data = self.request.kind == Kind::Data && volume.groups_per_flex >= 4;
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

    /// The rest of a free run from a stripe's border on, when whole stripes are wanted.
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
        let first = (self.regions.first_cluster(nr) % u64::from(stripe)) as u32;
        tree.fitting(self.want)
            .take(self.limits.max_to_scan as usize)
            .map(|run| run.start + (stripe - (first + run.start) % stripe) % stripe..run.end)
            .find(|run| run.start <= run.end && allowed(run))
    }

    /// The longest run of a tree with the longest known runs; builds trees until one serves.
    fn any(&self) -> Option<Run> {
        let mut turns = u64::from(self.end) * 2 + 16;
        loop {
            if let Some(known) = self.longest() {
                return Some(known);
            }
            turns = turns.checked_sub(1)?;
            self.load_cold()?;
        }
    }

    /// From the trees with the longest runs, those in memory first among equals.
    fn longest(&self) -> Option<Run> {
        let least = order_of(self.request.min_len)?;
        let orders = (least..self.regions.orders).rev();
        let mut both = orders.flat_map(|order| [(order, Trees::Loaded), (order, Trees::Known)]);
        both.find_map(|(order, trees)| self.longest_of(order, trees))
    }

    fn longest_of(&self, order: u32, trees: Trees) -> Option<Run> {
        for range in [self.start..self.end, 0..self.start] {
            let mut from = range.start;
            while let Some(GroupNr(nr)) = self.regions.by_longest.next(order, from, range.end) {
                from = nr + 1;
                let region = self.regions.region(nr);
                let due = region.is_loaded() == (trees == Trees::Loaded);
                if due
                    && region.longest() >= self.request.min_len
                    && let Some(run) = self.take_longest(nr)
                {
                    return Some(run);
                }
            }
        }
        None
    }

    fn take_longest(&self, nr: u32) -> Option<Run> {
        let mut space = self.regions.lock_loaded(nr, self.loader, self.memory_limit);
        let run = self.find_longest(nr, &space)?;
        Some(self.regions.take(nr, &mut space, run))
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
