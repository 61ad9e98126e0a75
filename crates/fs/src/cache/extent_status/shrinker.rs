//! Shrinker of the extent status cache: keeps it within its budget.
//!
//! CLOCK over the files with entries. A call scans a fixed number of entries, from where the last
//! call stopped, and drops those without a lookup since the last scan. The scan length bounds its
//! time, whatever the files are like. Threads that add entries above the budget do the work in
//! small parts; a locked tree or list is skipped.
//!
//! Two clocks time each call: wall time, and the thread's CPU time, which stops while the thread is
//! interrupted or preempted. That is four readings per call, and none per entry.
//!
//! Locking: a list ([`Rank::Queue`]) is held to take or insert a file; never together with a tree.
//! References: Kara, "Ext4 filesystem scaling" (round robin, resume, scanned not reclaimed).

use super::{FileStatus, Left, Mapping, Order};
use std::collections::VecDeque;
use std::time::Duration;
use uext4_format::InodeNr;
use uext4_num::{clamp_i64, clamp_usize, nonnegative, u64_of, usize_of};
use uext4_sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use uext4_sync::{Arc, Clock, Counter, Latencies, Mutex, Rank, Sharded, Weak};

/// Memory of an entry in bytes, with its share of the tree's nodes.
pub(crate) const ENTRY_BYTES: u64 = 64;
/// Entries that one call scans.
const SCAN_MAX: usize = 64;
/// Entries that a thread adds between checks of the budget. It is so much less than [`SCAN_MAX`]
/// that two rounds are faster than the insertions, and the second chance costs nothing.
const ADDED_MAX: u64 = 16;
/// Number of lists, so that files with new entries rarely share one.
const LISTS: usize = 16;

#[derive(Default)]
pub(super) struct List {
    pub(super) files: VecDeque<Weak<FileStatus>>,
    /// Length at which dead files are pruned.
    prune_at: usize,
}

/// The extent status cache of all files.
pub(crate) struct ExtentStatus {
    entries: Counter,
    hits: Counter,
    misses: Counter,
    budget_bytes: AtomicU64,
    added: Sharded<AtomicU64>,
    pub(super) lists: Box<[Mutex<List>]>,
    next: AtomicUsize,
    pub(super) order: Order,
    report: ShrinkerCounters,
    pub(super) clock: Arc<dyn Clock>,
}

/// Counters of the shrinker, which alone writes them.
#[derive(Default)]
struct ShrinkerCounters {
    scanned: AtomicU64,
    dropped: AtomicU64,
    wall: Latencies,
    thread: Latencies,
    worst_inode: AtomicU64,
}

impl ExtentStatus {
    pub(crate) fn new(budget_bytes: u64, order: Order, clock: Arc<dyn Clock>) -> Self {
        Self {
            entries: Counter::new(0),
            hits: Counter::new(0),
            misses: Counter::new(0),
            budget_bytes: AtomicU64::new(budget_bytes),
            added: Sharded::new(|_| AtomicU64::new(0)),
            lists: (0..order.lists(LISTS))
                .map(|_| Mutex::new(Rank::Queue, List::default()))
                .collect(),
            next: AtomicUsize::new(0),
            order,
            report: ShrinkerCounters::default(),
            clock,
        }
    }

    /// The budget in bytes; later insertions use a changed value.
    pub(crate) fn budget_bytes(&self) -> &AtomicU64 {
        &self.budget_bytes
    }

    /// Counts the change of a tree's length.
    pub(super) fn count(&self, before: usize, after: usize) {
        if before != after {
            self.entries.add(clamp_i64(after) - clamp_i64(before));
        }
    }

    pub(super) fn looked_up(&self, found: Option<&Mapping>) {
        match found {
            Some(_) => self.hits.add(1),
            None => self.misses.add(1),
        }
    }

    /// Lists a file that got its first entry.
    pub(super) fn list(&self, file: &Arc<FileStatus>) {
        let mut list = self.lists[usize_of(file.nr.0) % self.lists.len()].lock();
        if list.files.len() >= list.prune_at {
            list.files.retain(|file| file.strong_count() > 0);
            list.prune_at = 64.max(2 * list.files.len());
        }
        list.files.push_back(Arc::downgrade(file));
    }

    /// Runs one call of the shrinker if the caller has added enough, and the budget is exceeded.
    pub(super) fn keep_to_budget(&self) {
        let added = self.added.local().fetch_add(1, Relaxed);
        if added % ADDED_MAX == ADDED_MAX - 1 && self.used_bytes() > self.budget_bytes.load(Relaxed)
        {
            self.shrink(SCAN_MAX);
        }
    }

    fn used_bytes(&self) -> u64 {
        nonnegative(self.entries.sum()) * ENTRY_BYTES
    }

    /// Drops about a quarter of all entries, in calls of the usual length; returns how many.
    pub(crate) fn shed(&self) -> u64 {
        let entries = clamp_usize(nonnegative(self.entries.sum()));
        let mut missing = entries.div_ceil(4);
        // Two rounds: the first may only clear reference bits.
        for _ in 0..=2 * entries / SCAN_MAX {
            missing = missing.saturating_sub(self.shrink(SCAN_MAX));
            if missing == 0 {
                break;
            }
        }
        u64_of(entries.div_ceil(4) - missing)
    }

    /// Scans up to `max` entries; returns how many were dropped.
    pub(crate) fn shrink(&self, max: usize) -> usize {
        let (round, taken) = Taken::by(&*self.clock, || self.go_round(max));
        self.report.add(max, &round, &taken);
        round.dropped
    }

    fn go_round(&self, max: usize) -> Round {
        if self.order == Order::ByUse {
            return self.go_by_use(max);
        }
        let mut round = Round::new(max);
        let lists = self.lists.len();
        // Every list at most once: locked ones are left for the next call.
        for _ in 0..lists {
            let at = self.next.load(Relaxed);
            self.scan_list(&self.lists[at % lists], &mut round);
            if round.left == 0 {
                break;
            }
            self.next.store((at + 1) % lists, Relaxed);
        }
        round
    }

    /// Scans the files of a list, each at most once.
    fn scan_list(&self, list: &Mutex<List>, round: &mut Round) {
        let Some(mut files) = list.try_lock().map(|list| list.files.len()) else {
            return;
        };
        while round.left > 0 && files > 0 {
            let Some(next) = list.try_lock().and_then(|mut list| list.files.pop_front()) else {
                return;
            };
            files -= 1;
            let Some(file) = next.upgrade() else {
                // The file is gone; the check counts as work.
                round.left -= 1;
                continue;
            };
            match round.scan(&file) {
                Left::Nothing => {}
                Left::Again => list.lock().files.push_back(next),
                Left::Rest => list.lock().files.push_front(next),
            }
        }
    }

    /// Number of calls with a CPU time.
    #[cfg(test)]
    pub(super) fn timed_by_thread(&self) -> u64 {
        self.report.thread.summary().count
    }

    /// Current counters and sizes.
    pub(crate) fn stats(&self) -> ExtentStatusStats {
        let files = |list: &Mutex<List>| u64_of(list.lock().files.len());
        let report = &self.report;
        let (wall, thread) = (report.wall.summary(), report.thread.summary());
        ExtentStatusStats {
            entries: nonnegative(self.entries.sum()),
            used_bytes: self.used_bytes(),
            budget_bytes: self.budget_bytes.load(Relaxed),
            files: self.lists.iter().map(files).sum(),
            hits: nonnegative(self.hits.sum()),
            misses: nonnegative(self.misses.sum()),
            shrinker_calls: wall.count,
            shrinker_scanned: report.scanned.load(Relaxed),
            shrinker_dropped: report.dropped.load(Relaxed),
            shrinker_ns: wall.total_ns,
            shrinker_thread_ns: thread.total_ns,
            worst_call_ns: wall.worst_ns,
            worst_call_thread_ns: thread.worst_ns,
            p999_call_ns: wall.p999_ns,
            p999_call_thread_ns: thread.p999_ns,
            worst_call_inode: report.worst_inode.load(Relaxed),
        }
    }
}

impl ShrinkerCounters {
    fn add(&self, max: usize, round: &Round, taken: &Taken) {
        self.scanned.fetch_add(u64_of(max - round.left), Relaxed);
        self.dropped.fetch_add(u64_of(round.dropped), Relaxed);
        self.thread.add(taken.thread);
        if self.wall.add(taken.wall) {
            self.worst_inode.store(round.last.0.into(), Relaxed);
        }
    }
}

/// Durations of a call, by both clocks.
struct Taken {
    wall: Duration,
    thread: Duration,
}

impl Taken {
    /// Runs `work`; CPU time is read inside the wall time.
    fn by<T>(clock: &dyn Clock, work: impl FnOnce() -> T) -> (T, Self) {
        let (wall, thread) = (clock.monotonic(), clock.of_thread());
        let done = work();
        let thread = clock.of_thread().saturating_sub(thread);
        let wall = clock.monotonic().saturating_sub(wall);
        (done, Self { wall, thread })
    }
}

/// One call of the shrinker.
pub(super) struct Round {
    /// Entries left to scan.
    pub(super) left: usize,
    pub(super) dropped: usize,
    pub(super) last: InodeNr,
}

impl Round {
    pub(super) fn new(max: usize) -> Self {
        Self {
            left: max,
            dropped: 0,
            last: InodeNr(0),
        }
    }

    fn scan(&mut self, file: &FileStatus) -> Left {
        self.last = file.nr;
        let Some((step, left)) = file.scan(self.left) else {
            self.left -= 1;
            return Left::Again;
        };
        self.left -= step.scanned;
        self.dropped += step.dropped;
        left
    }
}

/// Statistics of the extent status cache and its shrinker (`es_shrinker_info`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ExtentStatusStats {
    /// Entries of all files.
    pub entries: u64,
    /// Memory of the entries, in bytes.
    pub used_bytes: u64,
    /// Budget of the entries (`extent_cache=`), in bytes.
    pub budget_bytes: u64,
    /// Files in the shrinker's lists.
    pub files: u64,
    /// Hits in deep maps.
    pub hits: u64,
    /// Misses in deep maps.
    pub misses: u64,
    /// Calls of the shrinker since the mount.
    pub shrinker_calls: u64,
    /// Entries that these calls scanned.
    pub shrinker_scanned: u64,
    /// Entries that these calls dropped.
    pub shrinker_dropped: u64,
    /// Total wall time of the calls, in nanoseconds.
    pub shrinker_ns: u64,
    /// Total CPU time of the calls, in nanoseconds.
    pub shrinker_thread_ns: u64,
    /// Longest call, in wall time.
    pub worst_call_ns: u64,
    /// Longest call, in CPU time.
    pub worst_call_thread_ns: u64,
    /// 999 of 1000 calls took at most this ([`uext4_sync::LatencySummary::p999_ns`]).
    pub p999_call_ns: u64,
    /// The same percentile of CPU time.
    pub p999_call_thread_ns: u64,
    /// The inode at which the longest call ended.
    pub worst_call_inode: u64,
}
