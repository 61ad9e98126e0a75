//! Extent status cache: cached lookups in the maps of files.
//!
//! Only deep maps are cached: a root in the inode is searched as fast as a cache. A map that
//! shrinks back into its inode drops its cache, so that changes have nothing to invalidate. Holes,
//! unwritten and written blocks are cached alike. Delayed blocks are in the file's buffer
//! (`delayed`) instead, so the shrinker never meets them.
//!
//! Invariants: the inode's state lock guards the map. A writer holds it exclusively and invalidates
//! the range first; a reader that looks up and caches the result holds it shared.
//! Locking: each tree has its own lock ([`Rank::ExtentStatus`]), held for a search or an insertion.
//! A lookup never touches the shrinker's list; only a file's first entry does.
//! References: Kara, "Ext4 filesystem scaling"; kernel `extents_status`, as documented.

mod by_use;
mod mapping;
mod shrinker;
#[cfg(test)]
mod tests;
mod tree;

pub(crate) use by_use::Order;
pub(crate) use mapping::Mapping;
pub(crate) use shrinker::ExtentStatus;
pub use shrinker::ExtentStatusStats;

use std::ops::Range;
use tree::{Scanned, Tree};
use uext4_format::{InodeNr, LogicalBlock};
use uext4_sync::atomic::{AtomicBool, AtomicU64, Ordering};
use uext4_sync::{Arc, OnceLock, Rank, RwLock};

/// Slot for the tree in an inode's state; empty until the first entry.
#[derive(Default)]
pub(crate) struct StatusSlot {
    file: OnceLock<Arc<FileStatus>>,
    /// The map is being changed: the cache is bypassed.
    changing: bool,
}

/// Whether a change of the map is part of another one.
pub(crate) struct Nested(bool);

impl StatusSlot {
    fn file(&self) -> Option<&Arc<FileStatus>> {
        self.file.get().filter(|_| !self.changing)
    }

    /// The cached mapping at `at`.
    pub(crate) fn find(&self, at: LogicalBlock) -> Option<Mapping> {
        let status = self.file()?;
        status.mark_used();
        let found = status.tree.read().find(at.0);
        status.all.looked_up(found.as_ref());
        found
    }

    /// Caches the mapping of inode `nr` at `at`.
    pub(crate) fn record(
        &self,
        all: &Arc<ExtentStatus>,
        nr: InodeNr,
        at: LogicalBlock,
        found: Mapping,
    ) {
        if self.changing {
            return;
        }
        self.file
            .get_or_init(|| Arc::new(FileStatus::new(nr, all.clone())))
            .record(at, found);
    }

    /// Invalidates `range`, and bypasses the cache until [`Self::end_change`].
    pub(crate) fn begin_change(&mut self, range: Range<u64>) -> Nested {
        if let Some(status) = self.file() {
            status.change(|tree| tree.remove(range));
        }
        Nested(std::mem::replace(&mut self.changing, true))
    }

    /// Ends a change; whether it was the outermost one and the file has a cache.
    pub(crate) fn end_change(&mut self, before: Nested) -> bool {
        self.changing = before.0;
        !before.0 && self.file.get().is_some()
    }

    pub(crate) fn clear(&mut self) {
        self.file = OnceLock::default();
    }
}

/// The cached entries of one file's map.
pub(crate) struct FileStatus {
    nr: InodeNr,
    tree: RwLock<Tree>,
    /// In the shrinker's list. Cleared with the tree locked and empty.
    listed: AtomicBool,
    /// Wall time of the last use in milliseconds; kept for [`Order::ByUse`] alone.
    used_at: AtomicU64,
    all: Arc<ExtentStatus>,
}

impl FileStatus {
    fn new(nr: InodeNr, all: Arc<ExtentStatus>) -> Self {
        Self {
            nr,
            tree: RwLock::new(Rank::ExtentStatus, Tree::default()),
            listed: AtomicBool::new(false),
            used_at: AtomicU64::new(0),
            all,
        }
    }

    fn record(self: &Arc<Self>, at: LogicalBlock, found: Mapping) {
        self.mark_used();
        self.change(|tree| tree.insert(at.0, found));
        let listed = self.listed.load(Ordering::Acquire);
        if !listed && !self.listed.swap(true, Ordering::AcqRel) {
            self.all.list(self);
        }
        self.all.keep_to_budget();
    }

    /// Changes the tree, and counts its entries.
    fn change(&self, change: impl FnOnce(&mut Tree)) {
        let mut tree = self.tree.write();
        let before = tree.len();
        change(&mut tree);
        self.all.count(before, tree.len());
    }

    /// One step of the shrinker; `None` if the tree is locked.
    fn scan(&self, max: usize) -> Option<(Scanned, Left)> {
        let mut tree = self.tree.try_write()?;
        let before = tree.len();
        let scanned = tree.scan(max);
        self.all.count(before, tree.len());
        let left = match (tree.len(), tree.was_scanned_to_end()) {
            (0, _) => Left::Nothing,
            (_, true) => Left::Again,
            (_, false) => Left::Rest,
        };
        if left == Left::Nothing {
            self.listed.store(false, Ordering::Release);
        }
        Some((scanned, left))
    }
}

impl Drop for FileStatus {
    fn drop(&mut self) {
        self.all.count(self.tree.get_mut().len(), 0);
    }
}

/// Entries left after a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Left {
    Nothing,
    /// Entries, all of which were scanned.
    Again,
    /// Entries that were not scanned yet.
    Rest,
}
