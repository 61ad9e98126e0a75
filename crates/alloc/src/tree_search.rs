//! One allocation from free-space trees.
//!
//! A search tries the tree of the goal, then goes by the summary to a tree whose longest run is
//! known to suffice. If there is none, the request may read some unknown regions, those with the
//! highest free counts first; then the criterion fails without a scan. Apart from the read of
//! bitmaps, only the exact goal and the last criterion wait for a lock.
//!
//! Layout: this file has the state of a search, the exact goal and the start; `criteria` chooses
//! the tree and limits the reading of regions; `visit` takes a run of one tree.

mod criteria;
mod visit;

use crate::regions::Regions;
use crate::stats;
use crate::tree_engine::TreeEngine;
use crate::tunables::Limits;
use crate::{ClusterUse, Error, Goal, Loader, Placement, Request, Run, Stat};
use uext4_format::GroupNr;
use uext4_num::clamp_u32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Criterion {
    /// The full length; data outside the first group of a flexible group.
    Strict,
    /// The full length, in any group.
    Whole,
}

impl Criterion {
    /// The criterion under which its work is counted.
    fn counted(self) -> stats::Criterion {
        match self {
            Criterion::Strict => stats::Criterion::GoalFast,
            Criterion::Whole => stats::Criterion::GoalSlow,
        }
    }
}

pub(crate) struct Search<'a> {
    engine: &'a TreeEngine,
    regions: &'a Regions,
    loader: &'a dyn Loader,
    request: &'a Request,
    limits: Limits,
    memory_limit: u64,
    /// First block group and first region out of bounds.
    end_group: u32,
    end: u32,
    start: u32,
    /// Offset in `start` to search first.
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
        let at = clamp_u32(goal.0 - self.regions.first_cluster(nr)); // inside the region
        // A stream at the end of its region does not enter the region of another stream.
        let follows = matches!(self.request.goal, Goal::At(_)) && at == 0;
        let (crosses, locality) = (follows && self.is_stream(), &self.engine.locality);
        let near_another = crosses
            && locality
                .others(self.end_group)
                .is_some_and(|others| others.are_near(group));
        if near_another {
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

    /// Chooses the region to start with.
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
        let near = self.request.kind == ClusterUse::Data
            && self.request.placement == Placement::Local
            && matches!(self.request.goal, Goal::Near(_));
        let wanted = self.regions.region_of(group);
        self.start = if near {
            self.engine.region_near(group).min(self.end - 1)
        } else {
            wanted
        };
        if self.start == wanted {
            let first = volume.first_cluster(group).0 - self.regions.first_cluster(wanted);
            self.goal = clamp_u32(first) + offset; // inside the region
        }
    }
}
