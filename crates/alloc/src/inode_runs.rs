//! Per-thread inode runs: concurrent creators, also in one directory, take inodes from separate
//! cache lines.
//!
//! A run is the set of free inodes in one line of a group's bits ([`InodeBits`]). Each shard of
//! threads remembers its line in the groups that it used last, and leaves the line when it is full.
//! Other shards prefer other lines while those have free inodes.
//! A run is a preference, not a reservation: it is in no count, ends with the mount, and passes to
//! the next thread of the shard. If inodes run short, any thread takes from it.
//!
//! Locking: none; a race of two threads of one shard costs a run, never an inode.

use crate::{Affinity, InodeBits};
use uext4_format::GroupNr;
use uext4_num::{high_u32, low_u32, usize_of};
use uext4_sync::atomic::{AtomicU64, Ordering};
use uext4_sync::{Sharded, shard_index};

/// Groups whose lines a shard remembers.
const REMEMBERED: usize = 8;
/// A slot is 0, or a group in the upper half and a line plus one below.
type Slots = [AtomicU64; REMEMBERED];

/// The runs of all threads.
pub struct InodeRuns {
    affinity: Affinity,
    shards: Sharded<Slots>,
}

impl InodeRuns {
    /// Makes an empty table of runs.
    pub fn new(affinity: Affinity) -> Self {
        Self {
            affinity,
            shards: Sharded::new(|_| std::array::from_fn(|_| AtomicU64::new(0))),
        }
    }

    /// The line of the group's bits from which the calling thread takes the next inode at or past
    /// `from`; `None` if all of those are in use.
    pub fn line(&self, group: GroupNr, bits: &InodeBits, from: u32) -> Option<u32> {
        let shard = match self.affinity {
            Affinity::PerThread => shard_index(),
            Affinity::None => 0,
        };
        let slot = &self.shards.slot(shard)[usize_of(group.0) % REMEMBERED];
        let known = line_in(slot.load(Ordering::Relaxed), group);
        if let Some(line) = known.filter(|line| bits.has_clear(*line, from)) {
            return Some(line);
        }
        if let Some(line) = known {
            bits.disown(line, shard);
        }
        let line = bits.line_for(shard, from)?;
        let packed = u64::from(group.0) << 32 | u64::from(line + 1);
        slot.store(packed, Ordering::Relaxed);
        Some(line)
    }
}

fn line_in(slot: u64, group: GroupNr) -> Option<u32> {
    let line = low_u32(slot).checked_sub(1);
    line.filter(|_| high_u32(slot) == group.0)
}
