//! Choice of the tree: the criteria of a search, and the regions that it may read for them.
//!
//! *Cache aggression* limits the reading of unknown regions:
//! - 0: only regions that promise 1.5 times as much as the start region, or if no known region
//!   serves;
//! - 1: at every second request that fails the strict criterion;
//! - 2: at every second request, for both criteria;
//! - 3: at every request, which also builds one more tree.
//!
//! At 1 and 2 a thread backs off while its scans find nothing, so that a volume without long runs
//! does not make every write read. Not here: the backoff (`tree_engine.rs`), the run taken of a
//! tree (`visit.rs`).

use super::{Criterion, Search};
use crate::events;
use crate::locality::Others;
use crate::regions::order_of;
use crate::stats::Effort;
use crate::{Run, Stat};
use uext4_format::GroupNr;

/// Regions that one request may read before it gives up contiguity: 4 MiB of bitmaps.
const SCANS_PER_REQUEST: u32 = 64;
/// The same at cache aggression 0.
const RELUCTANT_SCANS: u32 = 4;

/// The trees that a walk over the index considers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trees {
    Loaded,
    Known,
}

impl Search<'_> {
    pub(super) fn by_criteria(&self) -> Option<Run> {
        let stats = &self.regions.stats;
        let mut scans = 0;
        for criterion in [Criterion::Strict, Criterion::Whole] {
            if criterion == self.first_with_scans() {
                scans = self.scans_max();
            }
            if let Some(run) = self.whole(criterion, &mut scans) {
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

    /// The first criterion for which the request may read unknown regions.
    fn first_with_scans(&self) -> Criterion {
        match self.limits.cache_aggression {
            0 | 1 => Criterion::Whole,
            _ => Criterion::Strict,
        }
    }

    /// Regions that the request may read. Called once per request, since each call counts.
    fn scans_max(&self) -> u32 {
        match self.limits.cache_aggression {
            0 => RELUCTANT_SCANS,
            1 | 2 if !self.engine.is_scan_due() => 0,
            _ => SCANS_PER_REQUEST,
        }
    }

    /// Promise of a region, in clusters, below which it is not read.
    fn least_promise(&self) -> u32 {
        match self.limits.cache_aggression {
            0 => {
                let here = self.regions.region(self.start).promise();
                self.want.max(here.saturating_add(here / 2))
            }
            _ => self.want,
        }
    }

    /// The full length, from the goal's tree, a known tree or an unknown one.
    fn whole(&self, criterion: Criterion, scans: &mut u32) -> Option<Run> {
        let start = self.regions.region(self.start);
        if !start.is_known() && start.promise() >= self.want {
            self.regions.survey(self.start, self.loader);
        }
        if start.longest() >= self.want
            && let Some(run) = self.visit(self.start, criterion)
        {
            return Some(run);
        }
        if *scans > 0 && self.limits.cache_aggression >= 3 {
            self.load_cold();
        }
        self.apart(criterion)
            .or_else(|| self.by_index(criterion, Trees::Loaded, None))
            .or_else(|| self.by_index(criterion, Trees::Known, None))
            .or_else(|| self.explore(criterion, scans))
    }

    /// From regions without another thread's stream.
    fn apart(&self, criterion: Criterion) -> Option<Run> {
        if !self.is_stream() {
            return None;
        }
        let others = self.engine.locality.others(self.end_group)?;
        let others = Some(&others);
        self.by_index(criterion, Trees::Loaded, others)
            .or_else(|| self.by_index(criterion, Trees::Known, others))
    }

    /// Reads regions that promise the full length, until one serves.
    fn explore(&self, criterion: Criterion, scans: &mut u32) -> Option<Run> {
        let before = *scans;
        let run = self.explore_now(criterion, scans);
        if *scans < before {
            self.engine.record_scan(run);
        }
        run
    }

    fn explore_now(&self, criterion: Criterion, scans: &mut u32) -> Option<Run> {
        let least = self.least_promise();
        for step in self.regions.cold.steps(least) {
            for range in [self.start..self.end, 0..self.start.min(self.end)] {
                let mut from = range.start;
                while *scans > 0
                    && let Some(nr) = self.regions.cold.next(step, from..range.end)
                {
                    from = nr + 1;
                    let region = self.regions.region(nr);
                    if region.promise() < least || !self.regions.survey(nr, self.loader) {
                        continue;
                    }
                    *scans -= 1;
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

    /// Walks the index from the start upward, with wrap-around; within each part by order, upward.
    fn by_index(
        &self,
        criterion: Criterion,
        trees: Trees,
        others: Option<&Others<'_>>,
    ) -> Option<Run> {
        let orders = order_of(self.want)?..self.regions.orders;
        let mut tries = self.limits.max_to_scan.max(1);
        for range in [self.start..self.end, 0..self.start] {
            for order in orders.clone() {
                let mut from = range.start;
                while let Some(GroupNr(nr)) = self.regions.by_longest.next(order, from, range.end) {
                    from = nr + 1;
                    let group = GroupNr(nr * self.regions.per_region);
                    if others.is_some_and(|others| others.are_near(group)) {
                        continue; // without a scan of the region, which its thread changes
                    }
                    let region = self.regions.region(nr);
                    if region.longest() < self.want
                        || region.is_loaded() != (trees == Trees::Loaded)
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

    /// Builds the most promising cold tree.
    fn load_cold(&self) -> Option<u32> {
        let nr = self.regions.cold.steps(1).find_map(|step| {
            let next = |range| self.regions.cold.next(step, range);
            next(self.start..self.end).or_else(|| next(0..self.start.min(self.end)))
        })?;
        self.regions.load(nr, self.loader, self.memory_limit);
        Some(nr)
    }

    /// The longest known run of any tree; builds trees until one serves.
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

    /// From the trees with the longest runs, loaded ones first among equals.
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
}
