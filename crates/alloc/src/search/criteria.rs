//! The passes of a search: order of the criteria, and the groups of each pass.
//!
//! If a pass avoided groups of other threads' streams, it is repeated with them before the
//! criterion fails.
//!
//! Not here: whether a group serves, and which run is taken (`visit.rs`).

use super::{Flow, Search};
use crate::group::average_order;
use crate::group_index::OrderIndex;
use crate::locality::Others;
use crate::stats::{Criterion, Effort};
use crate::{Placement, Run, ScanOrder, Stat};
use std::ops::{ControlFlow, Range};
use uext4_format::GroupNr;
use uext4_num::usize_of;

impl<'a> Search<'a> {
    pub(super) fn by_criteria(&mut self) -> Option<Run> {
        self.others = self.others_to_avoid();
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
        // Another thread took it. A run found under a lock cannot be lost again.
        self.groups.stats.count(Stat::Lost);
        self.want = self.request.min_len;
        self.others = None;
        self.linear(Criterion::AnyFree, self.end)
            .break_value()
            .flatten()
    }

    /// The stream groups of other threads, if this search avoids them at first.
    fn others_to_avoid(&self) -> Option<Others<'a>> {
        let has_own = !self.locality.base_lines().have_one_goal();
        (has_own && self.placement() == Placement::Stream)
            .then(|| self.locality.others(self.end))?
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

    /// Visits the groups once by this criterion. `Break(None)`: the scan limit is reached.
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
                // The start group may not be in the index yet, but it is the preferred one.
                self.linear(criterion, self.limits.max_linear_groups.max(1))?;
                let from = average_order(self.want, orders);
                self.indexed(criterion, &self.groups.by_average, from..orders)
            }
        }
    }

    /// The groups from the start on, with wrap-around, at most `most`.
    fn linear(&mut self, criterion: Criterion, most: u32) -> Flow {
        for nr in (self.start.0..self.end)
            .chain(0..self.start.0)
            .take(usize_of(most))
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

    /// Shortens the wanted length order by order.
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
}
