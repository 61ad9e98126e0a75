//! Files that processes have open, as far as they differ: what each was told of errors.
//!
//! Layout: a handle is a number of its own. Only one whose file ever failed to write out data has
//! an entry, so that opening and closing touch no table.
//! Locking: the table's lock is never held over a call of the library.

use std::collections::BTreeMap;
use std::sync::Arc;
use uext4::ErrorCursor;
use uext4_sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use uext4_sync::{Mutex, Rank};

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
    pub(crate) fn open(&self, cursor: ErrorCursor) -> u64 {
        let handle = self.last.fetch_add(1, Ordering::Relaxed) + 1;
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
