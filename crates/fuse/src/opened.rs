//! Open file handles: errseq cursor and I/O mode of each.
//!
//! Layout: a handle is a unique number with the [`OpenMode`] in its low bits. Only a file with a
//! failed writeback has a table entry, so open and close usually touch no table.
//! Locking: the table's lock is never held over a call of the library.

use std::collections::BTreeMap;
use uext4::{ErrorCursor, Writers};
use uext4_sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use uext4_sync::{Arc, Mutex, Rank};

/// I/O mode of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenMode {
    /// Direct I/O: each read is a request, and its caller waits for it.
    pub(crate) direct: bool,
    /// Write-back caching: the kernel delays writes.
    pub(crate) writeback: bool,
    /// Class of the opener as a writer, also of a file that is only read.
    pub(crate) writer: Writers,
    /// Opened write-only without `O_APPEND`: the file is never read, and its user does not seek its
    /// end after the open.
    pub(crate) only_writes: bool,
    /// Opened for writing while the file was append-only.
    pub(crate) only_appends: bool,
    /// Opened write-only, with or without `O_APPEND`.
    pub(crate) write_only: bool,
}

impl OpenMode {
    const WRITEBACK: u64 = 1;
    const BY_USERS: u64 = 2;
    const DIRECT: u64 = 4;
    const ONLY_WRITES: u64 = 8;
    const ONLY_APPENDS: u64 = 16;
    const WRITE_ONLY: u64 = 32;
    /// Excludes [`Self::BY_USERS`].
    const BY_NAMED: u64 = 64;
    const BITS: u32 = 7;

    /// Decodes the mode that was given to [`Opened::open`].
    pub(crate) fn of(handle: u64) -> Self {
        let writer = match handle & (Self::BY_USERS | Self::BY_NAMED) {
            0 => Writers::Privileged,
            Self::BY_NAMED => Writers::Named,
            _ => Writers::Users,
        };
        Self {
            direct: handle & Self::DIRECT != 0,
            writeback: handle & Self::WRITEBACK != 0,
            writer,
            only_writes: handle & Self::ONLY_WRITES != 0,
            only_appends: handle & Self::ONLY_APPENDS != 0,
            write_only: handle & Self::WRITE_ONLY != 0,
        }
    }

    fn bits(self) -> u64 {
        let bits = [
            (self.writeback, Self::WRITEBACK),
            (self.writer == Writers::Users, Self::BY_USERS),
            (self.writer == Writers::Named, Self::BY_NAMED),
            (self.direct, Self::DIRECT),
            (self.only_writes, Self::ONLY_WRITES),
            (self.only_appends, Self::ONLY_APPENDS),
            (self.write_only, Self::WRITE_ONLY),
        ];
        let set = bits.iter().filter(|(has, _)| *has);
        set.map(|(_, bit)| bit).sum()
    }
}

/// Error cursors of the handles that have one.
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

    /// Allocates a handle for an open file.
    pub(crate) fn open(&self, cursor: ErrorCursor, open_mode: OpenMode) -> u64 {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let handle = number << OpenMode::BITS | open_mode.bits();
        if !cursor.is_unused() {
            self.keep(handle, Arc::new(cursor));
        }
        handle
    }

    /// Error cursor of the handle.
    pub(crate) fn cursor(&self, handle: u64) -> Arc<ErrorCursor> {
        if self.count.load(Ordering::Acquire) == 0 {
            return Arc::default();
        }
        let known = self.cursors.lock().get(&handle).cloned();
        known.unwrap_or_default()
    }

    /// Stores the cursor from [`Self::cursor`] after its use.
    pub(crate) fn keep(&self, handle: u64, cursor: Arc<ErrorCursor>) {
        if !cursor.is_unused() && self.cursors.lock().insert(handle, cursor).is_none() {
            self.count.fetch_add(1, Ordering::Release);
        }
    }

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
    fn a_handle_says_how_its_data_move() {
        let opened = Opened::new();
        let mut seen = std::collections::HashSet::new();
        let both = OpenMode::BY_USERS | OpenMode::BY_NAMED;
        for bits in (0..1 << OpenMode::BITS).filter(|bits| bits & both != both) {
            let open_mode = OpenMode::of(bits);
            let handle = opened.open(ErrorCursor::default(), open_mode);
            assert_eq!(OpenMode::of(handle), open_mode);
            assert!(seen.insert(format!("{open_mode:?}")) && handle != 0);
        }
    }
}
