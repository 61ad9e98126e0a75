//! Inodes with timestamps that are not logged yet (`lazytime`).

use super::Inode;
use std::collections::BTreeMap;
use uext4_format::{InodeNr, Timestamp};
use uext4_sync::{Arc, Mutex, Rank};

pub(crate) const DAY_SECONDS: i64 = 24 * 3600;
/// Longest list: each inode on it is pinned in memory.
const LISTED_MAX: usize = 4096;

/// Inodes with unlogged times.
pub(crate) struct LazyTimes {
    list: Mutex<List>,
}

#[derive(Default)]
struct List {
    inodes: BTreeMap<InodeNr, Arc<Inode>>,
    /// Time of the first insertion, in seconds.
    since: i64,
}

impl Default for LazyTimes {
    fn default() -> Self {
        Self {
            list: Mutex::new(Rank::Queue, List::default()),
        }
    }
}

impl LazyTimes {
    /// Puts the inode on the list; true when the list is due to be emptied.
    pub(crate) fn record(&self, inode: &Arc<Inode>, now: Timestamp) -> bool {
        let mut list = self.list.lock();
        if list.inodes.is_empty() {
            list.since = now.seconds;
        }
        list.inodes
            .entry(inode.nr())
            .or_insert_with(|| inode.clone());
        list.inodes.len() >= LISTED_MAX || now.seconds.saturating_sub(list.since) >= DAY_SECONDS
    }

    /// Takes the inode off the list.
    pub(crate) fn take(&self, nr: InodeNr) -> Option<Arc<Inode>> {
        self.list.lock().inodes.remove(&nr)
    }

    /// Takes all inodes off the list.
    pub(crate) fn take_all(&self) -> Vec<Arc<Inode>> {
        let inodes = std::mem::take(&mut self.list.lock().inodes);
        inodes.into_values().collect()
    }
}
