//! One shard of the node table: what is kept of a node, and the memory of its maps.

use crate::errno::Errno;
use uext4::{InodeRef, Writers};
use uext4_sync::StripeMap;

/// log2 of the run of consecutive numbers that share a shard; consecutive new files have them.
pub(super) const STRIPE_BITS: u32 = 6;
/// A map with fewer entries than this keeps its memory.
const SHRINK_MIN: usize = 64;

/// A node that the kernel remembers.
#[derive(Clone, Copy, Default)]
pub(super) struct Known(pub(super) u64);

impl Known {
    /// The kernel may cache pages of the node; reads of those send no request.
    pub(super) const CACHED: u64 = 1;
    pub(super) const LOOKUP: u64 = 2;

    pub(super) fn lookups(self) -> u64 {
        self.0 / Self::LOOKUP
    }

    pub(super) fn is_cached(self) -> bool {
        self.0 & Self::CACHED != 0
    }
}

/// A node whose inode is held.
pub(super) struct Held {
    pub(super) inode: InodeRef,
    pub(super) opens: u32,
    pub(super) writers: u32,
    /// Writers without quota limits.
    pub(super) privileged: u32,
    /// Writers that opened the file while it was append-only.
    pub(super) appenders: u32,
    /// Other writers that may use the blocks reserved for the superuser.
    pub(super) named: u32,
    /// Unreported error of a lost writeback.
    pub(super) lost: Option<Errno>,
}

impl Held {
    /// The count of a class of writers, apart from that of all.
    pub(super) fn class(&mut self, writer: Writers) -> Option<&mut u32> {
        match writer {
            Writers::Users => None,
            Writers::Named => Some(&mut self.named),
            Writers::Privileged => Some(&mut self.privileged),
        }
    }

    pub(super) fn new(inode: &InodeRef) -> Self {
        Self {
            inode: inode.clone(),
            opens: 0,
            writers: 0,
            privileged: 0,
            appenders: 0,
            named: 0,
            lost: None,
        }
    }
}

#[derive(Default)]
pub(super) struct Shard {
    pub(super) known: StripeMap<u64, Known, STRIPE_BITS>,
    pub(super) held: StripeMap<u64, Held, STRIPE_BITS>,
}

/// Gives back most of the memory of a table that became nearly empty.
pub(super) fn shrink<V>(table: &mut StripeMap<u64, V, STRIPE_BITS>) {
    if table.len() >= SHRINK_MIN && table.len() < table.capacity() / 8 {
        table.shrink_to(table.len() * 2);
    }
}

/// Memory of a table, in bytes: entries with a byte of tag each, and an eighth of free room.
pub(super) fn table_bytes<V>(table: &StripeMap<u64, V, STRIPE_BITS>) -> usize {
    (table.capacity() * 8).div_ceil(7) * (size_of::<(u64, V)>() + 1)
}
