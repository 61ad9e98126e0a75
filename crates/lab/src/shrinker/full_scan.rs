//! Baseline: a shrinker with ext4's older algorithm, a sorted list instead of a round-robin scan.
//!
//! One list of all files is sorted by time of last use under its lock; a call scans whole files
//! until it has *dropped* enough entries. Delayed entries cannot be dropped and are not counted, so
//! the time of a call has no bound.

use super::load::{self, Load};
use super::{Calls, Plan};
use anyhow::Result;
use std::collections::BTreeMap;
use uext4_sync::atomic::{AtomicU64, Ordering::Relaxed};
use uext4_sync::{Clock, Latencies, Mutex, Rank, RealClock};

/// Bytes of an entry; as in the library.
const ENTRY_BYTES: u64 = 64;
/// Entries that a call drops.
const DROP: usize = 128;
/// Entries that a writer adds between two checks of the budget.
const ADDED: u32 = 32;
/// Most delayed entries; with more, writers allocate their blocks.
const DELAYED_MAX: usize = 8192;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Entry {
    Delayed,
    Cached,
}

struct File {
    entries: Mutex<BTreeMap<u32, Entry>>,
    delayed: AtomicU64,
    used_at: AtomicU64,
}

struct FullScan {
    files: Vec<File>,
    /// Indexes of files.
    list: Mutex<Vec<usize>>,
    entries: AtomicU64,
    now: AtomicU64,
    budget: u64,
    dropped: AtomicU64,
    wall: Latencies,
    thread: Latencies,
    clock: RealClock,
}

/// Runs the writers of `load` on this shrinker alone.
pub(super) fn run(plan: &Plan, load: Load) -> Result<Calls> {
    let all = FullScan::new(plan, load.files(plan));
    load::in_parallel(plan, |worker| {
        let mut added = 0;
        for place in load.places(plan, worker) {
            all.note(place);
            added += 1;
            if added % ADDED == 0 && all.entries.load(Relaxed) > all.budget {
                all.shrink();
            }
        }
        Ok(())
    })?;
    let (wall, thread) = (all.wall.summary(), all.thread.summary());
    Ok(Calls::of_ours(&wall, &thread, all.dropped.into_inner()))
}

impl FullScan {
    fn new(plan: &Plan, files: u32) -> Self {
        let file = |_| File {
            entries: Mutex::new(Rank::ExtentStatus, BTreeMap::new()),
            delayed: AtomicU64::new(0),
            used_at: AtomicU64::new(0),
        };
        Self {
            files: (0..files).map(file).collect(),
            list: Mutex::new(Rank::Queue, (0..files as usize).collect()),
            entries: AtomicU64::new(0),
            now: AtomicU64::new(0),
            budget: plan.memory_bytes / ENTRY_BYTES,
            dropped: AtomicU64::new(0),
            wall: Latencies::default(),
            thread: Latencies::default(),
            clock: RealClock::new(),
        }
    }

    fn note(&self, place: load::Place) {
        let file = &self.files[place.file as usize];
        let mut entries = file.entries.lock();
        if entries.insert(place.block, Entry::Delayed).is_none() {
            self.entries.fetch_add(1, Relaxed);
        }
        file.used_at.store(self.now.fetch_add(1, Relaxed), Relaxed);
        if file.delayed.fetch_add(1, Relaxed) + 1 >= DELAYED_MAX as u64 {
            entries
                .values_mut()
                .for_each(|entry| *entry = Entry::Cached);
            file.delayed.store(0, Relaxed);
        }
    }

    fn shrink(&self) {
        let (wall, thread) = (self.clock.monotonic(), self.clock.of_thread());
        let order = {
            let mut list = self.list.lock();
            // The times change concurrently: each is read once.
            list.sort_by_cached_key(|nr| self.files[*nr].used_at.load(Relaxed));
            list.clone()
        };
        let mut left = DROP;
        for nr in order {
            left -= self.drop_from(&self.files[nr], left);
            if left == 0 {
                break;
            }
        }
        self.thread
            .add(self.clock.of_thread().saturating_sub(thread));
        self.wall.add(self.clock.monotonic().saturating_sub(wall));
        self.dropped.fetch_add((DROP - left) as u64, Relaxed);
    }

    /// Drops entries from the front of a file; answers their number.
    fn drop_from(&self, file: &File, max: usize) -> usize {
        let mut entries = file.entries.lock();
        let cached = entries.iter().filter(|(_, entry)| **entry == Entry::Cached);
        let due: Vec<u32> = cached.map(|(block, _)| *block).take(max).collect();
        for block in &due {
            entries.remove(block);
        }
        self.entries.fetch_sub(due.len() as u64, Relaxed);
        due.len()
    }
}
