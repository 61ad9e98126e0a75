//! Per-thread shards: state that each thread changes in a cache line of its own.

use crate::backend;
use crossbeam_utils::CachePadded;
use std::cell::Cell;

/// Number of shards; a power of two. More threads than this share shards round robin.
pub const SHARDS: usize = 64;

backend::thread_local! {
    static SHARD: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// The shard of the calling thread, `0..SHARDS`; threads get theirs round robin at first use.
pub fn shard_index() -> usize {
    SHARD.with(|shard| {
        if shard.get() == usize::MAX {
            shard.set(backend::thread_ordinal() % SHARDS);
        }
        shard.get()
    })
}

/// One padded `T` per shard.
pub struct Sharded<T> {
    slots: Box<[CachePadded<T>]>,
}

impl<T> Sharded<T> {
    /// Builds every slot with `make(shard)`.
    pub fn new(make: impl FnMut(usize) -> T) -> Self {
        Self {
            slots: (0..SHARDS).map(make).map(CachePadded::new).collect(),
        }
    }
    /// The slot of the calling thread.
    pub fn local(&self) -> &T {
        &self.slots[shard_index()]
    }
    /// The slot of shard `index` (modulo the number of shards).
    pub fn slot(&self, index: usize) -> &T {
        &self.slots[index % SHARDS]
    }
    /// All slots in shard order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().map(|slot| &**slot)
    }
}
