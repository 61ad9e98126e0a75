//! All groups of a volume with their indexes: load, take, give back, evict.
//!
//! Invariants: every change of a loaded group publishes its new shape before the lock is released.
//! A bitmap is read with no lock held, and installed only if the group's generation has not
//! changed, less the clusters that are then pending (see `pending_free.rs`).
//!
//! Locking: `Rank::GroupSpace`, one group at a time; `Rank::PendingFree` under it.

use crate::buddy::{Buddy, max_order};
use crate::group::{Group, Shape, Space, State};
use crate::group_index::OrderIndex;
use crate::pending_free::PendingFree;
use crate::{Bitmap, ClusterNr, Error, GroupReport, LoadError, Loader, Run, Stat, Stats};
use crate::{Summary, Volume, words};
use std::time::Instant;
use uext4_format::GroupNr;
use uext4_num::{clamp_u32, usize_of};
use uext4_sync::atomic::AtomicU32;
use uext4_sync::{CachePadded, Latest, MutexGuard};

pub(crate) struct Groups {
    pub(crate) volume: Latest<Volume>,
    pub(crate) max_order: u32,
    pub(crate) by_largest: OrderIndex,
    pub(crate) by_average: OrderIndex,
    pub(crate) pending: PendingFree,
    pub(crate) stats: Stats,
    /// Those behind the last one are empty until the volume grows.
    groups: Box<[CachePadded<Group>]>,
    /// The last group found unusable; `u32::MAX`: none.
    pub(crate) bad: AtomicU32,
}

/// Shape guessed from the descriptor: an uninitialised group has its metadata first and one run.
fn first_shape(summary: Summary, max_order: u32) -> Shape {
    let free = summary.free_clusters;
    let known = summary.uninit && free > 0;
    Shape {
        free,
        fragments: u32::from(known),
        order: known.then(|| free.ilog2().saturating_sub(1).min(max_order)),
        state: if summary.uninit {
            State::Uninit
        } else {
            State::Cold
        },
    }
}

impl Groups {
    pub(crate) fn new(volume: Volume, summary: &dyn Fn(GroupNr) -> Summary) -> Self {
        let max_order = max_order(volume.clusters_per_group);
        let by_largest = OrderIndex::new(max_order + 1, volume.groups_max);
        let by_average = OrderIndex::new(max_order + 1, volume.groups_max);
        let groups = (0..volume.groups_max)
            .map(|nr| {
                let known = (nr < volume.groups).then(|| summary(GroupNr(nr)));
                let shape = first_shape(known.unwrap_or_default(), max_order);
                by_largest.change(GroupNr(nr), None, shape.order);
                by_average.change(GroupNr(nr), None, shape.average_order(max_order + 1));
                CachePadded::new(Group::new(shape))
            })
            .collect();
        let (pending, stats) = (PendingFree::default(), Stats::default());
        Self {
            volume: Latest::new(volume),
            max_order,
            by_largest,
            by_average,
            pending,
            stats,
            groups,
            bad: AtomicU32::new(u32::MAX),
        }
    }

    pub(crate) fn group(&self, nr: GroupNr) -> &Group {
        &self.groups[usize_of(nr.0)]
    }

    pub(crate) fn shape(&self, nr: GroupNr) -> Shape {
        self.group(nr).shape()
    }

    /// Clusters of a group that can be allocated.
    pub(crate) fn free(&self, nr: GroupNr) -> u32 {
        let shape = self.shape(nr);
        if shape.state == State::Bad {
            0
        } else {
            shape.free
        }
    }

    /// Stores a group's shape and moves it in the indexes. The caller holds the group's lock.
    pub(crate) fn publish(&self, nr: GroupNr, shape: Shape) {
        let group = self.group(nr);
        let old = group.shape();
        group.store_shape(shape);
        let orders = self.max_order + 1;
        self.by_largest.change(nr, old.order, shape.order);
        self.by_average
            .change(nr, old.average_order(orders), shape.average_order(orders));
    }

    fn publish_buddy(&self, nr: GroupNr, buddy: &Buddy) {
        let (free, fragments) = (buddy.free(), buddy.fragments());
        let shape = Shape {
            free,
            fragments,
            order: buddy.largest_order(),
            state: State::Loaded,
        };
        self.publish(nr, shape);
    }

    /// Locks the group and loads it; waits for the lock.
    pub(crate) fn lock_loaded(
        &self,
        nr: GroupNr,
        loader: &dyn Loader,
    ) -> Result<MutexGuard<'_, Space>, LoadError> {
        loop {
            let space = self.group(nr).space.lock();
            if space.buddy.is_some() {
                return Ok(space);
            }
            drop(space);
            self.load(nr, loader)?;
        }
    }

    /// Loads a group unless it is loaded.
    pub(crate) fn load(&self, nr: GroupNr, loader: &dyn Loader) -> Result<(), LoadError> {
        loop {
            let generation = {
                let space = self.group(nr).space.lock();
                if space.buddy.is_some() {
                    return Ok(());
                }
                space.generation
            };
            if self.shape(nr).state == State::Bad {
                return Err(LoadError);
            }
            let mut used = Bitmap::new(self.volume.clusters_in(nr));
            if let Err(error) = loader.load(nr, &mut used) {
                self.mark_bad(nr, loader);
                return Err(error);
            }
            if self.install(nr, used, generation).is_err() {
                self.mark_bad(nr, loader);
            }
        }
    }

    /// Builds the group from `used` if that is still current. Fails if the descriptor's count of
    /// free clusters differs.
    fn install(&self, nr: GroupNr, mut used: Bitmap, generation: u32) -> Result<(), LoadError> {
        let mut space = self.group(nr).space.lock();
        if space.buddy.is_some() || space.generation != generation {
            return Ok(());
        }
        self.mark_pending(nr, &mut used);
        if self.shape(nr).free != used.count_clear() {
            return Err(LoadError);
        }
        let start = Instant::now();
        let buddy = Buddy::new(&used, self.max_order);
        self.stats.count_load(start.elapsed());
        self.publish_buddy(nr, &buddy);
        space.buddy = Some(Box::new(buddy));
        Ok(())
    }

    /// Marks clusters that wait for a commit: the bitmap of the group shows them as free.
    pub(crate) fn mark_pending(&self, nr: GroupNr, used: &mut Bitmap) {
        let first = self.volume.first_cluster(nr).0;
        let end = first + u64::from(used.len());
        self.pending
            .overlapping(ClusterNr(first), ClusterNr(end), |from, to| {
                used.fill_range(clamp_u32(from - first)..clamp_u32(to - first)); // inside the group
            });
    }

    /// Takes free clusters of a loaded group for a reservation.
    pub(crate) fn take(&self, nr: GroupNr, space: &mut Space, start: u32, len: u32) -> Run {
        let buddy = space
            .buddy
            .as_mut()
            .expect("clusters are found in loaded groups only");
        buddy.take(start, len);
        self.group(nr).reserve(len);
        self.publish_buddy(nr, buddy);
        Run::new(
            ClusterNr(self.volume.first_cluster(nr).0 + u64::from(start)),
            len,
        )
    }

    /// Takes exactly this run, which lies in one group.
    pub(crate) fn take_exact(&self, run: Run, loader: &dyn Loader) -> Result<(), Error> {
        let (nr, offset) = self.volume.locate(run.start).ok_or(Error::NoSpace)?;
        if run.len == 0 || run.len > self.volume.clusters_in(nr) - offset {
            return Err(Error::NoSpace);
        }
        let mut space = self
            .lock_loaded(nr, loader)
            .map_err(|_| Error::Unreadable(nr))?;
        let free = space
            .buddy
            .as_ref()
            .map_or(0, |buddy| buddy.free_at(offset, run.len));
        if free < run.len {
            return Err(Error::NoSpace);
        }
        self.take(nr, &mut space, offset, run.len);
        Ok(())
    }

    /// Reserves every free run of at least `min_len` clusters of a group.
    pub(crate) fn take_all(
        &self,
        nr: GroupNr,
        min_len: u32,
        loader: &dyn Loader,
    ) -> Result<Vec<Run>, Error> {
        let mut space = self
            .lock_loaded(nr, loader)
            .map_err(|_| Error::Unreadable(nr))?;
        let runs: Vec<_> = space.buddy.as_ref().map_or(Vec::new(), |buddy| {
            buddy
                .runs(0..buddy.clusters())
                .filter(|run| words::len(run) >= min_len)
                .collect()
        });
        Ok(runs
            .into_iter()
            .map(|run| self.take(nr, &mut space, run.start, run.end - run.start))
            .collect())
    }

    /// Reserved clusters are set on disk now.
    pub(crate) fn mark_in_use(&self, run: Run) {
        for (nr, _, len) in self.volume.split(run) {
            self.group(nr).unreserve(len);
        }
    }

    /// Reserved clusters become free.
    pub(crate) fn release(&self, run: Run) {
        for (nr, offset, len) in self.volume.split(run) {
            let group = self.group(nr);
            let mut space = group.space.lock();
            let buddy = space
                .buddy
                .as_mut()
                .expect("a group with reservations stays loaded");
            buddy.give(offset, len);
            group.unreserve(len);
            self.publish_buddy(nr, buddy);
        }
    }

    /// Frees returned runs: one lock acquisition per group for consecutive runs in it. Answers how
    /// many clusters can be allocated again.
    pub(crate) fn finish_return(&self, runs: &[Run]) -> u64 {
        let located = |run: &Run| {
            self.volume
                .locate(run.start)
                .expect("a returning run lies inside the volume")
                .0
        };
        let batches = runs.chunk_by(|a, b| located(a) == located(b));
        let returned = batches.map(|batch| self.return_to_group(located(&batch[0]), batch));
        returned.map(u64::from).sum()
    }

    fn return_to_group(&self, nr: GroupNr, batch: &[Run]) -> u32 {
        self.stats.count(Stat::GiveBackGroups);
        let first = self.volume.first_cluster(nr).0;
        let mut space = self.group(nr).space.lock();
        let mut total = 0;
        for run in batch {
            self.pending.forget(*run);
            total += run.len;
            if let Some(buddy) = space.buddy.as_mut() {
                buddy.give(clamp_u32(run.start.0 - first), run.len); // inside the group
            }
        }
        if let Some(buddy) = &space.buddy {
            self.publish_buddy(nr, buddy);
            return total;
        }
        space.generation = space.generation.wrapping_add(1);
        let shape = self.shape(nr);
        // The guessed orders of an uninitialised group are stale, but not too large.
        self.publish(
            nr,
            Shape {
                free: shape.free + total,
                ..shape
            },
        );
        match shape.state {
            State::Bad => 0,
            _ => total,
        }
    }

    /// Drops the group from memory; false while it is not loaded or has reservations.
    pub(crate) fn evict(&self, nr: GroupNr) -> bool {
        let group = self.group(nr);
        let mut space = group.space.lock();
        if space.buddy.is_none() || group.reserved() > 0 {
            return false;
        }
        space.buddy = None;
        space.generation = space.generation.wrapping_add(1);
        // The orders stay in the index: a hint by which a search loads only promising groups.
        self.publish(
            nr,
            Shape {
                state: State::Cold,
                ..group.shape()
            },
        );
        self.stats.count(Stat::Evictions);
        true
    }

    /// Begins again with a group: as `now` says, and without reservations. Answers how many
    /// clusters were reserved or unusable.
    pub(crate) fn renew(&self, nr: GroupNr, now: Summary) -> u64 {
        let group = self.group(nr);
        let mut space = group.space.lock();
        space.buddy = None;
        space.generation = space.generation.wrapping_add(1);
        let old = group.shape();
        self.publish(nr, first_shape(now, self.max_order));
        let unusable = match old.state {
            State::Bad => old.free,
            _ => 0,
        };
        u64::from(group.drop_reserved()) + u64::from(unusable)
    }

    pub(crate) fn report(&self, nr: GroupNr) -> GroupReport {
        let space = self.group(nr).space.lock();
        let shape = self.shape(nr);
        let buddy = space.buddy.as_ref();
        GroupReport {
            group: nr,
            free_clusters: shape.free,
            fragments: buddy.map_or(0, |buddy| buddy.fragments()),
            first_free: buddy
                .map(|buddy| buddy.first_free())
                .filter(|_| shape.free > 0),
            chunks: buddy.map_or(Vec::new(), |buddy| {
                (0..=self.max_order)
                    .map(|order| buddy.chunks(order))
                    .collect()
            }),
        }
    }
}
