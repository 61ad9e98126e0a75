//! Search limits that may change at run time; the names are those of sysfs, less `mb_`.

use uext4_sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Relaxed atomics; a search reads them once.
#[derive(Debug)]
pub struct Tunables {
    /// Free runs that one request examines before it takes the best seen.
    pub max_to_scan: AtomicU32,
    /// Fitting runs that are examined in one group before the best is taken.
    pub min_to_scan: AtomicU32,
    /// Smallest order whose requests are served as aligned chunks.
    pub order2_req: AtomicU32,
    /// Groups visited sequentially before the index is used (4 suits rotating disks).
    pub max_linear_groups: AtomicU32,
    /// Orders by which a request may be shortened before slow criteria are tried.
    pub best_avail_max_trim_order: AtomicU32,
    /// Groups whose bitmaps are prefetched at once.
    pub prefetch: AtomicU32,
    /// Maximum number of groups that one request prefetches.
    pub prefetch_limit: AtomicU32,
    /// RAID stripe in clusters; 0 or 1: none. Shortened requests stay multiples of it.
    pub stripe: AtomicU32,
    /// Eagerness to build free-space trees, 0 to 3 (see `tree_search/criteria.rs`).
    pub cache_aggression: AtomicU32,
    /// Bytes of memory for free-space trees; 0: the default of the volume.
    pub freespace_memory_bytes: AtomicU64,
}

impl Default for Tunables {
    fn default() -> Self {
        Self {
            max_to_scan: 200.into(),
            min_to_scan: 10.into(),
            order2_req: 2.into(),
            max_linear_groups: 0.into(),
            best_avail_max_trim_order: 3.into(),
            prefetch: 32.into(),
            prefetch_limit: 128.into(),
            stripe: 0.into(),
            cache_aggression: 1.into(),
            freespace_memory_bytes: 0.into(),
        }
    }
}

/// Values of [`Tunables`] that one search uses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) max_to_scan: u32,
    pub(crate) min_to_scan: u32,
    pub(crate) order2_req: u32,
    pub(crate) max_linear_groups: u32,
    pub(crate) trim_orders: u32,
    pub(crate) prefetch: u32,
    pub(crate) prefetch_limit: u32,
    pub(crate) stripe: u32,
    pub(crate) cache_aggression: u32,
}

impl Tunables {
    pub(crate) fn read(&self) -> Limits {
        Limits {
            max_to_scan: self.max_to_scan.load(Relaxed),
            min_to_scan: self.min_to_scan.load(Relaxed),
            order2_req: self.order2_req.load(Relaxed),
            max_linear_groups: self.max_linear_groups.load(Relaxed),
            trim_orders: self.best_avail_max_trim_order.load(Relaxed),
            prefetch: self.prefetch.load(Relaxed),
            prefetch_limit: self.prefetch_limit.load(Relaxed),
            stripe: self.stripe.load(Relaxed),
            cache_aggression: self.cache_aggression.load(Relaxed),
        }
    }
}
