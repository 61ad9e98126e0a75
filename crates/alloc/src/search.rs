//! One allocation: criteria from strict to lenient, groups in order, the best run.
//!
//! A group is chosen by its lock-free shape, then its lock is *tried*: a busy group is skipped.
//! Apart from the load of a bitmap, only the attempt at the exact goal, the last criterion and the
//! return to a remembered run wait for a lock. So free space is never missed, and adjacent
//! placement does not depend on timing.
//!
//! Layout: this file has the state of a search, the exact goal and the start; `criteria` goes
//! through the groups pass by pass; `visit` tries one group.
//! References: kernel documentation `filesystems/ext4/allocators`, sysfs-fs-ext4 (limits).

mod criteria;
#[cfg(test)]
mod tests;
mod visit;

use crate::groups::Groups;
use crate::locality::{Locality, Others};
use crate::stats::{Criterion, Effort};
use crate::tunables::Limits;
use crate::{ClusterUse, Error, Goal, Loader, Placement, Request, Run, ScanOrder, Stat};
use std::ops::{ControlFlow, Range};
use uext4_format::GroupNr;

impl Criterion {
    /// The next criterion for this kind of request.
    fn next(self, order: ScanOrder, kind: ClusterUse) -> Option<Self> {
        match (self, order, kind) {
            (Self::PowerOf2, ..) => Some(Self::GoalFast),
            (Self::GoalFast, ScanOrder::Optimized, ClusterUse::Data) => Some(Self::BestAvail),
            (Self::GoalFast | Self::BestAvail, ..) => Some(Self::GoalSlow),
            (Self::GoalSlow, ..) => Some(Self::AnyFree),
            (Self::AnyFree, ..) => None,
        }
    }
    fn is_cheap(self) -> bool {
        matches!(self, Self::PowerOf2 | Self::GoalFast | Self::BestAvail)
    }
}

/// The longest run seen that is too short.
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
    /// Offset in `start` to begin at.
    offset: u32,
    /// Clusters that satisfy the current pass.
    want: u32,
    best: Option<Best>,
    /// Free runs examined so far.
    found: u32,
    /// Groups prefetched last; `prefetched` counts all.
    ahead: Range<u32>,
    prefetched: u32,
    /// Groups of other streams, which a stream avoids in this pass.
    others: Option<Others<'a>>,
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
        let locked_goal = self.locality.base_lines().locked_goal;
        if locked_goal {
            self.choose_start();
        }
        if let Some(run) = self.try_goal() {
            self.groups.stats.count(Stat::GoalHits);
            if locked_goal {
                self.remember_group_of(run);
            }
            return Ok(run);
        }
        if matches!(self.request.goal, Goal::Only(_)) || self.end == 0 {
            return Err(Error::NoSpace);
        }
        self.choose_start();
        let run = self.by_criteria().ok_or_else(|| self.refusal())?;
        self.remember_group_of(run);
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

    fn remember_group_of(&self, run: Run) {
        let Some((group, _)) = self.groups.volume.locate(run.start) else {
            return;
        };
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
        // A stream at the end of its group does not enter the group of another stream.
        let follows = matches!(self.request.goal, Goal::At(_)) && offset == 0;
        let crosses = follows && self.placement() == Placement::Stream;
        let near_another = crosses
            && self
                .locality
                .others(self.end)
                .is_some_and(|others| others.are_near(nr));
        if near_another {
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
                    (Goal::Near(_), ClusterUse::Data) => {
                        self.locality.near(volume, group, self.end)
                    }
                    _ => group,
                };
                (start, if start == group { offset } else { 0 })
            }
        };
    }

    fn placement(&self) -> Placement {
        if self.locality.base_lines().have_one_goal() {
            Placement::Stream
        } else {
            self.request.placement
        }
    }
}
