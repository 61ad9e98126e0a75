//! Keeping the extent status of all files within its budget.
//!
//! The shrinker goes round the files that have entries. A call looks at a fixed number of entries,
//! from where the last one stopped, and drops those that nobody looked up since it came by last:
//! its time is bounded by what it looks at, whatever the files are like. Whoever adds entries above
//! the budget does the work, a little at a time; a tree or list that is in use is passed over.
//!
//! Each call is timed by two clocks: that of the wall, and that of the thread, which stands while
//! the thread is interrupted or waits for a processor. Four readings a call, none for an entry.
//!
//! Locking: a list ([`Rank::Queue`]) is held to take a file from it or to put one in; never
//! together with a tree.
//! References: Kara, "Ext4 filesystem scaling" (round robin, resume, scanned not reclaimed).

use super::{FileStatus, Left};
use crate::map::Mapping;
use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;
use uext4_format::InodeNr;
use uext4_sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use uext4_sync::{Clock, Counter, Latencies, Mutex, Rank, Sharded};

/// What an entry costs, with its share of the tree's nodes.
pub(crate) const ENTRY_BYTES: u64 = 64;
/// Entries that one call looks at.
const SCAN_MAX: usize = 64;
/// A thread looks at the budget when it has added this many; less than [`SCAN_MAX`] by so much
/// that the second chance costs nothing: two rounds are faster than what is added.
const ADDED_MAX: u64 = 16;
/// Lists, so that files with new entries do not meet.
const LISTS: usize = 16;

#[derive(Default)]
struct List {
    files: VecDeque<Weak<FileStatus>>,
    /// Length at which files that are gone are taken out.
    prune_at: usize,
}

/// The extent status of all files.
pub(crate) struct ExtentStatus {
    entries: Counter,
    hits: Counter,
    misses: Counter,
    budget_bytes: AtomicU64,
    added: Sharded<AtomicU64>,
    lists: Box<[Mutex<List>]>,
    next: AtomicUsize,
    report: Report,
    clock: Arc<dyn Clock>,
}

/// What the shrinker did; written by calls of the shrinker only.
#[derive(Default)]
struct Report {
    scanned: AtomicU64,
    dropped: AtomicU64,
    wall: Latencies,
    thread: Latencies,
    worst_inode: AtomicU64,
}

impl ExtentStatus {
    pub(crate) fn new(budget_bytes: u64, clock: Arc<dyn Clock>) -> Self {
        let list = |_| Mutex::new(Rank::Queue, List::default());
        Self {
            entries: Counter::new(0),
            hits: Counter::new(0),
            misses: Counter::new(0),
            budget_bytes: AtomicU64::new(budget_bytes),
            added: Sharded::new(|_| AtomicU64::new(0)),
            lists: (0..LISTS).map(list).collect(),
            next: AtomicUsize::new(0),
            report: Report::default(),
            clock,
        }
    }

    /// The budget in bytes; a change holds for what is noted from then on.
    pub(crate) fn budget_bytes(&self) -> &AtomicU64 {
        &self.budget_bytes
    }

    /// A tree's number of entries changed.
    pub(super) fn count(&self, before: usize, after: usize) {
        if before != after {
            self.entries.add(after as i64 - before as i64);
        }
    }

    /// A tree was asked.
    pub(super) fn looked_up(&self, found: Option<&Mapping>) {
        match found {
            Some(_) => self.hits.add(1),
            None => self.misses.add(1),
        }
    }

    /// A file got its first entry.
    pub(super) fn list(&self, file: &Arc<FileStatus>) {
        let mut list = self.lists[file.nr.0 as usize % LISTS].lock();
        if list.files.len() >= list.prune_at {
            list.files.retain(|file| file.strong_count() > 0);
            list.prune_at = 64.max(2 * list.files.len());
        }
        list.files.push_back(Arc::downgrade(file));
    }

    /// Shrinks by a call's worth if the caller has added enough, and the budget is used up.
    pub(super) fn keep_to_budget(&self) {
        let added = self.added.local().fetch_add(1, Relaxed);
        if added % ADDED_MAX == ADDED_MAX - 1 && self.used_bytes() > self.budget_bytes.load(Relaxed)
        {
            self.shrink(SCAN_MAX);
        }
    }

    fn used_bytes(&self) -> u64 {
        self.entries.sum().max(0) as u64 * ENTRY_BYTES
    }

    /// Drops about a quarter of all entries, in calls as short as others; answers how many.
    pub(crate) fn shed(&self) -> u64 {
        let entries = self.entries.sum().max(0) as usize;
        let mut missing = entries.div_ceil(4);
        // Twice round: the first may only take second chances away.
        for _ in 0..=2 * entries / SCAN_MAX {
            missing = missing.saturating_sub(self.shrink(SCAN_MAX));
            if missing == 0 {
                break;
            }
        }
        (entries.div_ceil(4) - missing) as u64
    }

    /// Looks at `max` entries, fewer when there are no more; answers how many were dropped.
    pub(crate) fn shrink(&self, max: usize) -> usize {
        let (round, taken) = Taken::by(&*self.clock, || self.go_round(max));
        self.report.add(max, &round, &taken);
        round.dropped
    }

    fn go_round(&self, max: usize) -> Round {
        let mut round = Round::new(max);
        // Every list once at most: what is busy now is for the next call.
        for _ in 0..LISTS {
            let at = self.next.load(Relaxed);
            self.scan_list(&self.lists[at % LISTS], &mut round);
            if round.left == 0 {
                break;
            }
            self.next.store((at + 1) % LISTS, Relaxed);
        }
        round
    }

    /// Looks at the files of a list, each once at most.
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
                // The file is gone. To see that is work, too.
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

    /// Calls that the clock of the thread timed.
    #[cfg(test)]
    pub(super) fn timed_by_thread(&self) -> u64 {
        self.report.thread.summary().count
    }

    /// What there is, and what was done.
    pub(crate) fn stats(&self) -> ExtentStatusStats {
        let files = |list: &Mutex<List>| list.lock().files.len() as u64;
        let report = &self.report;
        let (wall, thread) = (report.wall.summary(), report.thread.summary());
        ExtentStatusStats {
            entries: self.entries.sum().max(0) as u64,
            used_bytes: self.used_bytes(),
            budget_bytes: self.budget_bytes.load(Relaxed),
            files: self.lists.iter().map(files).sum(),
            hits: self.hits.sum().max(0) as u64,
            misses: self.misses.sum().max(0) as u64,
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

impl Report {
    fn add(&self, max: usize, round: &Round, taken: &Taken) {
        self.scanned.fetch_add((max - round.left) as u64, Relaxed);
        self.dropped.fetch_add(round.dropped as u64, Relaxed);
        self.thread.add(taken.thread);
        if self.wall.add(taken.wall) {
            self.worst_inode.store(round.last.0.into(), Relaxed);
        }
    }
}

/// Times of a call, by both clocks.
struct Taken {
    wall: Duration,
    thread: Duration,
}

impl Taken {
    /// Runs `work`; the time of the thread is read within that of the wall.
    fn by<T>(clock: &dyn Clock, work: impl FnOnce() -> T) -> (T, Self) {
        let (wall, thread) = (clock.monotonic(), clock.of_thread());
        let done = work();
        let thread = clock.of_thread().saturating_sub(thread);
        let wall = clock.monotonic().saturating_sub(wall);
        (done, Self { wall, thread })
    }
}

/// One call of the shrinker.
struct Round {
    /// Entries that may still be looked at.
    left: usize,
    dropped: usize,
    last: InodeNr,
}

impl Round {
    fn new(max: usize) -> Self {
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

/// The extent status and its shrinker (`es_shrinker_info`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ExtentStatusStats {
    /// Entries of all files.
    pub entries: u64,
    /// What they cost.
    pub used_bytes: u64,
    /// What they may cost (`extent_cache=`).
    pub budget_bytes: u64,
    /// Files in the shrinker's lists.
    pub files: u64,
    /// Lookups in deep maps that were answered.
    pub hits: u64,
    /// Lookups in deep maps that were not.
    pub misses: u64,
    /// Calls of the shrinker.
    pub shrinker_calls: u64,
    /// Entries that it looked at.
    pub shrinker_scanned: u64,
    /// Entries that it dropped.
    pub shrinker_dropped: u64,
    /// Its time, together.
    pub shrinker_ns: u64,
    /// Of this, the time that it had a processor.
    pub shrinker_thread_ns: u64,
    /// Its longest call.
    pub worst_call_ns: u64,
    /// The most time that a call had a processor.
    pub worst_call_thread_ns: u64,
    /// 999 of 1000 calls took at most this ([`uext4_sync::LatencySummary::p999_ns`]).
    pub p999_call_ns: u64,
    /// The same of the time that calls had a processor.
    pub p999_call_thread_ns: u64,
    /// The file that the longest call ended with.
    pub worst_call_inode: u64,
}
