//! One allocation: criteria from the strict to the lenient, groups in order, the best run.
//!
//! A group is chosen by its lock-free shape, then its lock is *tried*: a busy group is passed
//! over. Only the attempt at the exact goal, the last criterion and the return to a remembered
//! run wait for a lock, so free space is never missed and adjacent placement does not depend on
//! timing.
//!
//! References: kernel documentation `filesystems/ext4/allocators`, sysfs-fs-ext4 (limits).

use crate::buddy::Buddy;
use crate::group::{Shape, Space, State, average_order};
use crate::group_index::OrderIndex;
use crate::groups::Groups;
use crate::locality::{Locality, Others};
use crate::stats::{Criterion, Effort};
use crate::tunables::Limits;
use crate::{Error, Goal, Kind, Loader, Placement, Request, Run, ScanOrder, Stat};
use std::ops::{ControlFlow, Range};
use uext4_format::GroupNr;

impl Criterion {
    /// What follows for data, or for something else.
    fn next(self, order: ScanOrder, kind: Kind) -> Option<Self> {
        match (self, order, kind) {
            (Self::PowerOf2, ..) => Some(Self::GoalFast),
            (Self::GoalFast, ScanOrder::Optimized, Kind::Data) => Some(Self::BestAvail),
            (Self::GoalFast | Self::BestAvail, ..) => Some(Self::GoalSlow),
            (Self::GoalSlow, ..) => Some(Self::AnyFree),
            (Self::AnyFree, ..) => None,
        }
    }
    fn is_cheap(self) -> bool {
        matches!(self, Self::PowerOf2 | Self::GoalFast | Self::BestAvail)
    }
}

/// The longest run seen that is too short, and where.
#[derive(Clone, Copy)]
struct Best {
    group: GroupNr,
    start: u32,
    len: u32,
}

pub(crate) struct Search<'a> {
    groups: &'a Groups,
    locality: &'a Locality,
    loader: &'a dyn Loader,
    request: &'a Request,
    limits: Limits,
    order: ScanOrder,
    /// Groups at and past this one are out of bounds.
    end: u32,
    start: GroupNr,
    /// Where in `start` to begin.
    offset: u32,
    /// Clusters that satisfy the current pass.
    want: u32,
    best: Option<Best>,
    /// Free runs looked at so far.
    found: u32,
    /// Groups whose bitmaps were asked for ahead, last and in all.
    ahead: Range<u32>,
    prefetched: u32,
    /// Whose groups a stream leaves alone in this pass.
    others: Option<Others<'a>>,
    /// A group that suits was left alone.
    avoided: bool,
}

type Flow = ControlFlow<Option<Run>>;

impl<'a> Search<'a> {
    pub(crate) fn new(
        groups: &'a Groups,
        locality: &'a Locality,
        limits: Limits,
        order: ScanOrder,
        request: &'a Request,
        loader: &'a dyn Loader,
    ) -> Self {
        let per_group = u64::from(groups.volume.clusters_per_group);
        let end = request.end.map_or(groups.volume.groups, |end| {
            u32::try_from(end.0 / per_group)
                .unwrap_or(u32::MAX)
                .min(groups.volume.groups)
        });
        Self {
            groups,
            locality,
            loader,
            request,
            limits,
            order,
            end,
            start: GroupNr(0),
            offset: 0,
            want: request.len.min(groups.volume.clusters_per_group),
            best: None,
            found: 0,
            ahead: 0..0,
            prefetched: 0,
            others: None,
            avoided: false,
        }
    }

    pub(crate) fn run(mut self) -> Result<Run, Error> {
        if self.request.min_len > self.want {
            return Err(Error::NoSpace); // longer than a group
        }
        if let Some(run) = self.try_goal() {
            self.groups.stats.count(Stat::GoalHits);
            return Ok(run);
        }
        if matches!(self.request.goal, Goal::Only(_)) || self.end == 0 {
            return Err(Error::NoSpace);
        }
        self.choose_start();
        let run = self.by_criteria().ok_or_else(|| self.refusal())?;
        if let Some((group, _)) = self.groups.volume.locate(run.start) {
            self.remember(group);
        }
        Ok(run)
    }

    fn spent(&self, criterion: Criterion, effort: Effort, n: u64) {
        self.groups.stats.add_effort(criterion, effort, n);
    }

    fn refusal(&self) -> Error {
        self.groups
            .any_bad()
            .map_or(Error::NoSpace, Error::Unreadable)
    }

    fn remember(&self, group: GroupNr) {
        if self.placement() == Placement::Stream {
            if group == self.start {
                self.groups.stats.count(Stat::StreamGoalHits);
            }
            self.locality.streamed(group);
        } else {
            self.locality.used(group);
        }
    }

    /// Takes the run at exactly the goal, waiting for the lock.
    fn try_goal(&mut self) -> Option<Run> {
        let (goal, least) = match self.request.goal {
            Goal::At(goal) => (goal, self.want),
            Goal::Only(goal) => (goal, self.request.min_len),
            Goal::Near(_) | Goal::Anywhere => return None,
        };
        let (nr, offset) = self.groups.volume.locate(goal)?;
        if nr.0 >= self.end || self.groups.shape(nr).free < least {
            return None;
        }
        // A stream that comes to the end of its group does not run into another thread's.
        let follows = matches!(self.request.goal, Goal::At(_)) && offset == 0;
        let crosses = follows && self.placement() == Placement::Stream;
        if crosses && self.locality.others(self.end).are_in(nr.0..nr.0 + 1) {
            return None;
        }
        let Ok(mut space) = self.groups.lock_loaded(nr, self.loader) else {
            return None;
        };
        let len = space.buddy.as_ref()?.free_at(offset, self.want);
        if len < least {
            return None;
        }
        if crosses {
            self.locality.streamed(nr);
        }
        Some(self.groups.take(nr, &mut space, offset, len))
    }

    fn choose_start(&mut self) {
        let volume = &self.groups.volume;
        let goal = match self.request.goal {
            Goal::At(goal) | Goal::Near(goal) | Goal::Only(goal) => volume.locate(goal),
            Goal::Anywhere => None,
        };
        let goal = goal.filter(|(group, _)| group.0 < self.end);
        (self.start, self.offset) = match (self.placement(), goal) {
            (Placement::Stream, _) => (self.locality.stream(self.end), 0),
            (Placement::Local, None) => (self.locality.anywhere(self.end), 0),
            (Placement::Local, Some((group, offset))) => {
                let start = match (self.request.goal, self.request.kind) {
                    (Goal::Near(_), Kind::Data) => self.locality.near(volume, group, self.end),
                    _ => group,
                };
                (start, if start == group { offset } else { 0 })
            }
        };
    }

    fn placement(&self) -> Placement {
        match self.locality.is_base_line() {
            true => Placement::Stream,
            false => self.request.placement,
        }
    }

    fn by_criteria(&mut self) -> Option<Run> {
        self.others = self.whom_to_avoid();
        let mut criterion = self.first_criterion();
        loop {
            match self.pass(criterion) {
                ControlFlow::Break(Some(run)) => {
                    self.groups.stats.count(criterion.hits());
                    return Some(run);
                }
                ControlFlow::Break(None) => {
                    self.groups.stats.count(Stat::Breaks);
                    break;
                }
                ControlFlow::Continue(()) => self.spent(criterion, Effort::UselessLoops, 1),
            }
            self.others = None;
            if std::mem::take(&mut self.avoided) {
                continue; // the same again, with the groups of others
            }
            match criterion.next(self.order, self.request.kind) {
                Some(next) => criterion = next,
                None => break,
            }
        }
        let best = self.best?;
        if let Some(run) = self.take_best(best) {
            self.groups.stats.count(criterion.hits());
            return Some(run);
        }
        // Others took it meanwhile. What is found under a lock cannot be lost again.
        self.groups.stats.count(Stat::Lost);
        self.want = self.request.min_len;
        self.others = None;
        self.linear(Criterion::AnyFree, self.end)
            .break_value()
            .flatten()
    }

    /// Where other threads' streams are, if this search is to stay away at first.
    fn whom_to_avoid(&self) -> Option<Others<'a>> {
        let is_stream = self.placement() == Placement::Stream && !self.locality.is_base_line();
        is_stream.then(|| self.locality.others(self.end))
    }

    fn first_criterion(&self) -> Criterion {
        let order = self.want.ilog2();
        let fits = (self.limits.order2_req..=self.groups.max_order).contains(&order);
        if self.want.is_power_of_two() && fits {
            Criterion::PowerOf2
        } else {
            Criterion::GoalFast
        }
    }

    /// Visits the groups once by this criterion. `Break(None)`: enough was looked at.
    fn pass(&mut self, criterion: Criterion) -> Flow {
        if self.order == ScanOrder::Linear || !criterion.is_cheap() {
            return self.linear(criterion, self.end);
        }
        let orders = self.groups.max_order + 1;
        match criterion {
            Criterion::PowerOf2 => {
                self.linear(criterion, self.limits.max_linear_groups)?;
                self.indexed(
                    criterion,
                    &self.groups.by_largest,
                    self.want.ilog2()..orders,
                )
            }
            Criterion::BestAvail => self.shortened(),
            _ => {
                // The start group may not be in the index yet, but it is where we want to be.
                self.linear(criterion, self.limits.max_linear_groups.max(1))?;
                let from = average_order(self.want, orders);
                self.indexed(criterion, &self.groups.by_average, from..orders)
            }
        }
    }

    /// The groups after the start, wrapped, `most` of them.
    fn linear(&mut self, criterion: Criterion, most: u32) -> Flow {
        for nr in (self.start.0..self.end)
            .chain(0..self.start.0)
            .take(most as usize)
        {
            self.visit(GroupNr(nr), criterion)?;
        }
        Flow::Continue(())
    }

    /// `[start, end)` over all orders first, then `[0, start)`, so that placement stays close.
    fn indexed(&mut self, criterion: Criterion, index: &OrderIndex, orders: Range<u32>) -> Flow {
        for groups in [self.start.0..self.end, 0..self.start.0] {
            for order in orders.clone() {
                let mut from = groups.start;
                while let Some(nr) = index.next(order, from, groups.end) {
                    self.visit(nr, criterion)?;
                    from = nr.0 + 1;
                }
            }
        }
        Flow::Continue(())
    }

    /// Shortens what is wanted order by order.
    fn shortened(&mut self) -> Flow {
        let (whole, orders) = (self.want, self.groups.max_order + 1);
        let least = self.request.min_len.max(self.limits.stripe).max(1);
        let top = whole.ilog2();
        for order in (top.saturating_sub(self.limits.trim_orders)..=top).rev() {
            let mut want = 1u32 << order;
            if self.limits.stripe > 1 {
                want -= want % self.limits.stripe;
            }
            if want < least || want >= whole {
                continue;
            }
            self.want = want;
            let at = average_order(want, orders);
            let flow = self.indexed(Criterion::BestAvail, &self.groups.by_average, at..at + 1);
            self.want = whole;
            flow?;
        }
        Flow::Continue(())
    }

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
        self.request.kind == Kind::Data
            && volume.groups_per_flex >= 4
            && volume.flex_start(nr) == nr
    }

    fn visit(&mut self, nr: GroupNr, criterion: Criterion) -> Flow {
        self.spent(criterion, Effort::GroupsConsidered, 1);
        let shape = self.groups.shape(nr);
        if !self.suits(nr, shape, criterion) {
            return Flow::Continue(());
        }
        let is_theirs = |others: &Others<'_>| others.are_in(nr.0..nr.0 + 1);
        if self.others.as_ref().is_some_and(is_theirs) {
            self.avoided = true;
            return Flow::Continue(());
        }
        if !self.make_ready(nr, shape, criterion) {
            return Flow::Continue(());
        }
        let waits = criterion == Criterion::AnyFree || self.locality.is_base_line();
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

    /// Loads a group if the criterion may; false when the group is to be passed over.
    fn make_ready(&mut self, nr: GroupNr, shape: Shape, criterion: Criterion) -> bool {
        if shape.state == State::Loaded {
            return true;
        }
        let costs_io = shape.state == State::Cold && shape.fragments == 0;
        if criterion.is_cheap() && costs_io && nr != self.start {
            return false;
        }
        if shape.state == State::Cold {
            self.prefetch(nr);
        }
        self.groups.load(nr, self.loader).is_ok()
    }

    /// Asks for the bitmaps of the groups that follow in the flexible group: they stand in a row.
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
            let len = run.len() as u32;
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

    /// A run on a stripe border, when whole stripes are wanted.
    fn find_stripe(&mut self, nr: GroupNr, buddy: &Buddy) -> Option<Range<u32>> {
        let stripe = self.limits.stripe;
        if stripe <= 1 || !self.want.is_multiple_of(stripe) {
            return None;
        }
        let first = (self.groups.volume.first_cluster(nr).0 % u64::from(stripe)) as u32;
        buddy.runs(0..buddy.clusters()).find_map(|run| {
            let start = run.start + (stripe - (first + run.start) % stripe) % stripe;
            (start + self.want <= run.end).then_some(start..run.end)
        })
    }

    /// The run that fits best among the first few that fit, else the longest.
    fn find_run(&mut self, nr: GroupNr, buddy: &Buddy) -> Option<Range<u32>> {
        let from = if nr == self.start { self.offset } else { 0 };
        let mut best: Option<Range<u32>> = None;
        let mut fitting = 0;
        for run in buddy
            .runs(from..buddy.clusters())
            .chain(buddy.runs(0..from))
        {
            self.found += 1;
            let fits = run.len() as u32 >= self.want;
            if run.len() as u32 == self.want || (fits && from > 0 && run.start == from) {
                return Some(run);
            }
            fitting += u32::from(fits);
            if best
                .as_ref()
                .is_none_or(|best| self.is_better(run.len(), best.len()))
            {
                best = Some(run);
            }
            if fitting >= self.limits.min_to_scan || self.found > self.limits.max_to_scan {
                let enough = best.as_ref().map_or(0, |best| best.len() as u32);
                if enough >= self.request.min_len {
                    break;
                }
            }
        }
        best
    }

    fn is_better(&self, len: usize, than: usize) -> bool {
        let want = self.want as usize;
        match (len >= want, than >= want) {
            (true, true) => len < than,
            (fits, than_fits) if fits != than_fits => fits,
            _ => len > than,
        }
    }

    fn take_best(&mut self, best: Best) -> Option<Run> {
        let mut space = self.groups.lock_loaded(best.group, self.loader).ok()?;
        let len = space.buddy.as_ref()?.free_at(best.start, best.len);
        let enough = len >= self.request.min_len;
        enough.then(|| self.groups.take(best.group, &mut space, best.start, len))
    }
}

#[cfg(test)]
mod tests {
    use crate::{Affinity, Bitmap, BuddyEngine, Config, Engine, LoadError, Loader, Request};
    use crate::{ScanOrder, Stat, Summary, Volume};
    use std::time::Duration;
    use uext4_format::{BlockNr, GroupNr};

    struct Empty;

    impl Loader for Empty {
        fn load(&self, _: GroupNr, _: &mut Bitmap) -> Result<(), LoadError> {
            Ok(())
        }
        fn look(&self, _: &[GroupNr], _: &mut dyn FnMut(GroupNr, Result<&Bitmap, LoadError>)) {}
    }

    fn engine(groups: u32) -> BuddyEngine {
        let volume = Volume {
            groups,
            clusters_per_group: 1024,
            clusters_in_last_group: 1024,
            first_block: BlockNr(0),
            cluster_bits: 0,
            groups_per_flex: 1,
        };
        let config = Config {
            volume,
            affinity: Affinity::None,
        };
        let summary = |_| Summary {
            free_clusters: 1024,
            uninit: false,
        };
        BuddyEngine::new(config, ScanOrder::Linear, &summary)
    }

    #[test]
    fn busy_groups_are_passed_over() {
        let engine = engine(2);
        engine.load(GroupNr(0), &Empty).unwrap();
        let busy = engine.groups.group(GroupNr(0)).space.lock();
        let run = std::thread::scope(|scope| {
            let search = scope.spawn(|| engine.allocate(&Request::new(3), &Empty));
            search.join().unwrap().unwrap()
        });
        drop(busy);
        assert_eq!(run.start.0, 1024);
        assert!(engine.stats().get(Stat::BusySkips) > 0);
    }

    #[test]
    fn the_base_line_waits_where_others_pass_over() {
        let engine = engine(2).with_blocking_locks();
        engine.load(GroupNr(0), &Empty).unwrap();
        let busy = engine.groups.group(GroupNr(0)).space.lock();
        let run = std::thread::scope(|scope| {
            let search = scope.spawn(|| engine.allocate(&Request::new(3), &Empty));
            std::thread::sleep(Duration::from_millis(20));
            drop(busy);
            search.join().unwrap().unwrap()
        });
        assert_eq!(run.start.0, 0);
        assert_eq!(engine.stats().get(Stat::BusySkips), 0);
    }

    #[test]
    fn the_last_criterion_waits_for_busy_groups() {
        let engine = engine(1);
        engine.load(GroupNr(0), &Empty).unwrap();
        let busy = engine.groups.group(GroupNr(0)).space.lock();
        std::thread::scope(|scope| {
            let search = scope.spawn(|| engine.allocate(&Request::new(3), &Empty));
            std::thread::sleep(Duration::from_millis(20));
            drop(busy);
            assert!(search.join().unwrap().is_ok());
        });
    }
}
