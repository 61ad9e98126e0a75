//! One block group: its free space under a lock, and a summary that is read without it.
//!
//! Layout: a group fills cache lines of its own. The summary is one word, so free clusters,
//! fragments and largest order are always consistent.
//!
//! Invariants: the summary is stored only under the group's lock. `reserved` counts clusters that
//! are taken in memory and not yet set on disk; while it is not zero the group stays loaded.

use crate::buddy::Buddy;
use uext4_format::GroupNr;
use uext4_num::low_u32;
use uext4_sync::atomic::{AtomicU32, AtomicU64, Ordering};
use uext4_sync::{Mutex, Rank};

/// Contents of a group descriptor, known before the bitmap is loaded. By default it is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Free clusters of the group, as the descriptor counts them.
    pub free_clusters: u32,
    /// The bitmap is uninitialised (`BLOCK_UNINIT`): computed without I/O when needed.
    pub uninit: bool,
}

/// One row of `mb_groups`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupReport {
    /// Block group that the row describes.
    pub group: GroupNr,
    /// Clusters that can be allocated.
    pub free_clusters: u32,
    /// Free runs; 0 while not loaded.
    pub fragments: u32,
    /// First free cluster of the group, as an offset; `None` when not loaded or full.
    pub first_free: Option<u32>,
    /// Free chunks per order; empty while not loaded.
    pub chunks: Vec<u32>,
}

/// The lock-free view of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) free: u32,
    pub(crate) fragments: u32,
    /// Largest order with a free chunk.
    pub(crate) order: Option<u32>,
    pub(crate) state: State,
}

/// Load state of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// Descriptor only; reading the bitmap takes I/O.
    Cold,
    /// Descriptor only; the bitmap is computed without I/O.
    Uninit,
    /// The bitmap is in memory.
    Loaded,
    /// The bitmap cannot be used; nothing is allocated here.
    Bad,
}

impl State {
    #[expect(clippy::as_conversions, reason = "the number of the variant")]
    fn code(self) -> u64 {
        self as u64
    }
    fn from_code(code: u64) -> Self {
        match code {
            0 => Self::Cold,
            1 => Self::Uninit,
            2 => Self::Loaded,
            _ => Self::Bad,
        }
    }
}

const FIELD: u64 = (1 << 24) - 1;

impl Shape {
    fn pack(self) -> u64 {
        u64::from(self.free)
            | u64::from(self.fragments) << 24
            | u64::from(self.order.map_or(0, |order| order + 1)) << 48
            | self.state.code() << 56
    }

    fn unpack(word: u64) -> Self {
        Self {
            free: low_u32(word & FIELD),
            fragments: low_u32(word >> 24 & FIELD),
            order: low_u32(word >> 48 & 0xff).checked_sub(1),
            state: State::from_code(word >> 56),
        }
    }

    /// Index into the averages: about log2 of the average free run, less one.
    pub(crate) fn average_order(self, orders: u32) -> Option<u32> {
        let average = self.free.checked_div(self.fragments)?;
        (average > 0).then(|| average_order(average, orders))
    }
}

/// Index order of groups with this average free run.
pub(crate) fn average_order(clusters: u32, orders: u32) -> u32 {
    clusters.max(1).ilog2().saturating_sub(1).min(orders - 1)
}

/// State under the group's lock.
pub(crate) struct Space {
    pub(crate) buddy: Option<Box<Buddy>>,
    /// Changes whenever an earlier copy of the bitmap becomes stale.
    pub(crate) generation: u32,
}

pub(crate) struct Group {
    shape: AtomicU64,
    reserved: AtomicU32,
    pub(crate) space: Mutex<Space>,
}

impl Group {
    pub(crate) fn new(shape: Shape) -> Self {
        Self {
            shape: AtomicU64::new(shape.pack()),
            reserved: AtomicU32::new(0),
            space: Mutex::new(
                Rank::GroupSpace,
                Space {
                    buddy: None,
                    generation: 0,
                },
            ),
        }
    }
    pub(crate) fn shape(&self) -> Shape {
        Shape::unpack(self.shape.load(Ordering::Relaxed))
    }
    /// Replaces the summary; the caller holds the lock of the group.
    pub(crate) fn store_shape(&self, shape: Shape) {
        self.shape.store(shape.pack(), Ordering::Relaxed);
    }
    pub(crate) fn reserve(&self, len: u32) {
        self.reserved.fetch_add(len, Ordering::Relaxed);
    }
    /// Release, so that an evictor that sees the count also sees the bits on disk.
    pub(crate) fn unreserve(&self, len: u32) {
        let before = self.reserved.fetch_sub(len, Ordering::Release);
        assert!(
            before >= len,
            "clusters marked in use or released that were not reserved"
        );
    }
    /// The caller holds the lock; returns how many there were.
    pub(crate) fn drop_reserved(&self) -> u32 {
        self.reserved.swap(0, Ordering::AcqRel)
    }
    pub(crate) fn reserved(&self) -> u32 {
        self.reserved.load(Ordering::Acquire)
    }
}
