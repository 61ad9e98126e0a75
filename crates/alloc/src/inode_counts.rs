//! Free inode and directory counts, of the file system and per group.
//!
//! The counts of the file system are exact. The free inodes of a group are a placement hint that
//! may lag by a 64th of its inodes for each shard of threads, so that creators in one group do not
//! all write one cache line. Directories are counted at once.
//!
//! Locking: none.

use crate::Volume;
use std::ops::Range;
use uext4_format::GroupNr;
use uext4_num::{clamp_i32, high_u32, low_u32, nonnegative, usize_of};
use uext4_sync::atomic::{
    AtomicI32, AtomicI64, AtomicU64,
    Ordering::{AcqRel, Relaxed},
};
use uext4_sync::{CachePadded, Counter, Sharded};

/// Inodes that a shard may take or free before it updates the group.
const SLACK_MAX: u32 = 32;

/// Inode counts of a group descriptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InodeSummary {
    /// Free inodes of the group.
    pub free_inodes: u32,
    /// Inodes in use for directories.
    pub used_dirs: u32,
}

/// Directory or anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InodeKind {
    /// A directory; counted in `used_dirs`.
    Directory,
    /// An inode of another type.
    Other,
}

/// The counts of all groups, readable without locks.
pub struct InodeCounts {
    groups: Box<[CachePadded<GroupCounts>]>,
    /// Pending change of one group, per shard: the group in the upper half, the change of its free
    /// inodes in the lower.
    pending: Sharded<AtomicU64>,
    slack: i32,
    free_inodes: Counter,
    used_dirs: Counter,
    /// Free inodes of groups whose bitmap cannot be used.
    withdrawn: AtomicI64,
}

/// Approximate counts; negative while frees are pending.
struct GroupCounts {
    free_inodes: AtomicI32,
    used_dirs: AtomicI32,
}

impl InodeCounts {
    /// Counts from `summary`, which reads the descriptor of a group.
    pub(crate) fn new(
        volume: &Volume,
        inodes_per_group: u32,
        summary: &dyn Fn(GroupNr) -> InodeSummary,
    ) -> Self {
        let (mut free, mut dirs) = (0, 0);
        Self {
            groups: (0..volume.groups_max)
                .map(&mut |nr| {
                    let known = (nr < volume.groups).then(|| summary(GroupNr(nr)));
                    let one = known.unwrap_or_default();
                    free += i64::from(one.free_inodes);
                    dirs += i64::from(one.used_dirs);
                    CachePadded::new(GroupCounts {
                        free_inodes: AtomicI32::new(clamp_i32(one.free_inodes)),
                        used_dirs: AtomicI32::new(clamp_i32(one.used_dirs)),
                    })
                })
                .collect(),
            pending: Sharded::new(|_| AtomicU64::new(0)),
            slack: clamp_i32(SLACK_MAX.min(inodes_per_group / 64)),
            free_inodes: Counter::new(free),
            used_dirs: Counter::new(dirs),
            withdrawn: AtomicI64::new(0),
        }
    }

    /// Adds the inodes of new groups.
    pub(crate) fn grow(&self, groups: Range<u32>, summary: &dyn Fn(GroupNr) -> InodeSummary) {
        for nr in groups.map(GroupNr) {
            let one = summary(nr);
            let counts = &self.groups[usize_of(nr.0)];
            counts
                .free_inodes
                .fetch_add(clamp_i32(one.free_inodes), Relaxed);
            counts
                .used_dirs
                .fetch_add(clamp_i32(one.used_dirs), Relaxed);
            self.free_inodes.add(one.free_inodes.into());
            self.used_dirs.add(one.used_dirs.into());
        }
    }

    /// The approximate counts of one group.
    pub fn summary(&self, group: GroupNr) -> InodeSummary {
        let counts = &self.groups[usize_of(group.0)];
        InodeSummary {
            free_inodes: load_count(&counts.free_inodes),
            used_dirs: load_count(&counts.used_dirs),
        }
    }

    /// Free inodes of the file system.
    pub fn free_inodes(&self) -> u64 {
        nonnegative(self.free_inodes.sum())
    }

    /// Directories of the file system.
    pub fn used_dirs(&self) -> u64 {
        nonnegative(self.used_dirs.sum())
    }

    /// Counts an inode of the group as taken.
    pub fn taken(&self, group: GroupNr, kind: InodeKind) {
        self.count(group, -1, kind);
    }

    /// Counts an inode of the group as freed.
    pub fn given(&self, group: GroupNr, kind: InodeKind) {
        self.count(group, 1, kind);
    }

    /// Takes the free inodes of a group away, because its bitmap cannot be used.
    pub fn withdraw(&self, group: GroupNr) {
        self.apply_pending(|nr| nr == group);
        let free = self.groups[usize_of(group.0)].free_inodes.swap(0, Relaxed);
        self.free_inodes.add(-i64::from(free));
        // Negative where a change of another thread was pending: the sum stays exact.
        self.withdrawn.fetch_add(free.into(), Relaxed);
    }

    /// Free inodes by the descriptors: those of groups whose bitmap cannot be used count too.
    pub fn free_on_disk(&self) -> u64 {
        let withdrawn = self.withdrawn.load(Relaxed);
        nonnegative(self.free_inodes.sum().saturating_add(withdrawn))
    }

    fn count(&self, group: GroupNr, free: i32, kind: InodeKind) {
        self.free_inodes.add(free.into());
        if kind == InodeKind::Directory {
            self.used_dirs.add((-free).into());
            self.groups[usize_of(group.0)]
                .used_dirs
                .fetch_sub(free, Relaxed);
            self.add_free(group, free);
        } else {
            self.add_pending(group, free);
        }
    }

    fn add_free(&self, group: GroupNr, free: i32) {
        self.groups[usize_of(group.0)]
            .free_inodes
            .fetch_add(free, Relaxed);
    }

    /// Adds to the shard's pending change; applies one of another group, or one above the limit.
    fn add_pending(&self, group: GroupNr, free: i32) {
        let slot = self.pending.local();
        let mut before = slot.load(Relaxed);
        loop {
            let (of, sum) = unpack(before);
            let sum = if of == group { sum + free } else { free };
            let enough = sum.abs() > self.slack;
            let after = if enough { 0 } else { pack(group, sum) };
            match slot.compare_exchange(before, after, AcqRel, Relaxed) {
                Err(now) => before = now,
                Ok(_) => {
                    let (of, old) = unpack(before);
                    if of != group && old != 0 {
                        self.add_free(of, old);
                    }
                    if enough {
                        self.add_free(group, sum);
                    }
                    return;
                }
            }
        }
    }

    /// Applies the pending changes of the selected groups.
    pub(crate) fn apply_pending(&self, is_selected: impl Fn(GroupNr) -> bool) {
        for slot in self.pending.iter() {
            let (group, free) = unpack(slot.load(Relaxed));
            if free == 0 || !is_selected(group) {
                continue;
            }
            let (group, free) = unpack(slot.swap(0, AcqRel));
            if free != 0 {
                self.add_free(group, free);
            }
        }
    }

    /// Reports that a group with a positive count was full. Applies its pending changes, or other
    /// threads would keep trying the group until its takers allocate again.
    pub fn report_full(&self, group: GroupNr) {
        self.apply_pending(|of| of == group);
    }
}

fn load_count(of: &AtomicI32) -> u32 {
    of.load(Relaxed).max(0).cast_unsigned()
}

fn pack(group: GroupNr, free: i32) -> u64 {
    u64::from(group.0) << 32 | u64::from(free.cast_unsigned())
}

fn unpack(pending: u64) -> (GroupNr, i32) {
    (GroupNr(high_u32(pending)), low_u32(pending).cast_signed())
}
