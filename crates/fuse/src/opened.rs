//! Files that processes have open, as far as they differ: what each was told of errors, and
//! whether the kernel holds back what is written to it.
//!
//! Layout: a handle is a number of its own, and how it writes ([`Written`]). Only one whose file
//! ever failed to write out data has an entry, so that opening and closing touch no table.
//! Locking: the table's lock is never held over a call of the library.

use std::collections::BTreeMap;
use std::sync::Arc;
use uext4::{ErrorCursor, Writers};
use uext4_sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use uext4_sync::{Mutex, Rank};

/// How what is written to an open file comes to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    /// The kernel holds it back.
    pub(crate) later: bool,
    /// By whom.
    pub(crate) by: Writers,
}

impl Written {
    const LATER: u64 = 1;
    const BY_USERS: u64 = 2;
    const BITS: u32 = 2;

    /// What [`Opened::open`] was told.
    pub(crate) fn to(handle: u64) -> Self {
        let by = match handle & Self::BY_USERS {
            0 => Writers::Privileged,
            _ => Writers::Users,
        };
        Self {
            later: handle & Self::LATER != 0,
            by,
        }
    }

    fn bits(self) -> u64 {
        let by_users = match self.by {
            Writers::Privileged => 0,
            Writers::Users => Self::BY_USERS,
        };
        match self.later {
            true => Self::LATER | by_users,
            false => by_users,
        }
    }
}

/// The handles that differ.
pub(crate) struct Opened {
    last: AtomicU64,
    count: AtomicUsize,
    cursors: Mutex<BTreeMap<u64, Arc<ErrorCursor>>>,
}

impl Opened {
    pub(crate) fn new() -> Self {
        Self {
            last: AtomicU64::new(0),
            count: AtomicUsize::new(0),
            cursors: Mutex::new(Rank::CacheShard, BTreeMap::new()),
        }
    }

    /// A handle for a file that is opened now.
    pub(crate) fn open(&self, cursor: ErrorCursor, written: Written) -> u64 {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let handle = number << Written::BITS | written.bits();
        if !cursor.is_unused() {
            self.keep(handle, Arc::new(cursor));
        }
        handle
    }

    /// What the handle was told.
    pub(crate) fn cursor(&self, handle: u64) -> Arc<ErrorCursor> {
        if self.count.load(Ordering::Acquire) == 0 {
            return Arc::default();
        }
        let known = self.cursors.lock().get(&handle).cloned();
        known.unwrap_or_default()
    }

    /// What [`Self::cursor`] gave was used.
    pub(crate) fn keep(&self, handle: u64, cursor: Arc<ErrorCursor>) {
        if !cursor.is_unused() && self.cursors.lock().insert(handle, cursor).is_none() {
            self.count.fetch_add(1, Ordering::Release);
        }
    }

    /// The handle is closed.
    pub(crate) fn close(&self, handle: u64) {
        if self.count.load(Ordering::Acquire) != 0 && self.cursors.lock().remove(&handle).is_some()
        {
            self.count.fetch_sub(1, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_says_how_it_writes() {
        let opened = Opened::new();
        let mut seen = std::collections::HashSet::new();
        for later in [false, true] {
            for by in [Writers::Users, Writers::Privileged] {
                let written = Written { later, by };
                let handle = opened.open(ErrorCursor::default(), written);
                assert_eq!(Written::to(handle), written);
                assert!(seen.insert(handle) && handle != 0);
            }
        }
    }
}
