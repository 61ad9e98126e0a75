//! Per-thread shards: state that each thread changes in a cache line of its own.
//!
//! Invariants: the number of shards is a power of two and the same for the whole process. More
//! threads than shards share them round robin.

use crate::backend;
use crossbeam_utils::CachePadded;
use std::cell::Cell;

/// A machine with few cores may have many threads.
const SHARDS_MIN: usize = 64;
/// The most shards: bounds the memory, and the lines that a sum reads.
pub const SHARDS_MAX: usize = 1024;

backend::thread_local! {
    static SHARD: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Number of shards: a power of two, one per core, at least 64 and at most [`SHARDS_MAX`].
pub fn shards() -> usize {
    let cores = backend::lasting_cores();
    cores.next_power_of_two().clamp(SHARDS_MIN, SHARDS_MAX)
}

/// The shard of the calling thread, below [`shards`]; threads get theirs round robin at first use.
#[inline]
pub fn shard_index() -> usize {
    SHARD.with(|shard| match shard.get() {
        usize::MAX => first_index(shard),
        index => index,
    })
}

#[cold]
fn first_index(shard: &Cell<usize>) -> usize {
    shard.set(backend::thread_ordinal() % shards());
    shard.get()
}

/// One padded `T` per shard.
pub struct Sharded<T> {
    slots: Box<[CachePadded<T>]>,
}

impl<T> Sharded<T> {
    /// Builds every slot with `make(shard)`.
    pub fn new(make: impl FnMut(usize) -> T) -> Self {
        Self {
            slots: (0..shards()).map(make).map(CachePadded::new).collect(),
        }
    }
    /// The number of slots, a power of two.
    pub fn count(&self) -> usize {
        self.slots.len()
    }
    /// The slot of the calling thread.
    pub fn local(&self) -> &T {
        self.slot(shard_index())
    }
    /// The slot of shard `index` (modulo the number of shards, a power of two).
    pub fn slot(&self, index: usize) -> &T {
        // Usually the index is a shard, and the access waits for no arithmetic.
        self.slots
            .get(index)
            .unwrap_or_else(|| &self.slots[index & (self.slots.len() - 1)])
    }
    /// All slots in shard order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().map(|slot| &**slot)
    }
}
