//! Which group a new inode goes to.
//!
//! Directories are spread (Orlov): those in the root, or in a directory flagged as a top, go to
//! the emptiest flexible group; others stay near their parent until that is too full. Files stay
//! in their parent's flexible group. Threads start at different groups inside a flexible group,
//! so that creators in one directory rarely meet at one lock.
//!
//! The answer is a lazy list of groups to try: finding the bit and setting it is one step under
//! the group's lock, in the fs crate; a group that turns out full is simply passed.
//!
//! Counts: those of the file system are exact. Those of a group, which only steer, may be old by
//! a 64th of its inodes for each shard of threads, so that creators in one group do not all write
//! one cache line; directories are counted at once.
//!
//! Invariant: the last stage of a list visits every group that has a free inode, whatever its count
//! says.
//! Not here: bits, the recently deleted rule, descriptors. References: kernel documentation
//! `filesystems/ext4/allocators`.

use crate::{Affinity, Engine, Volume};
use uext4_format::GroupNr;
use uext4_sync::atomic::{
    AtomicI32, AtomicU64,
    Ordering::{AcqRel, Relaxed},
};
use uext4_sync::{CachePadded, Counter, Sharded, shard_index};

/// Flexible groups looked at for a top-level directory; bounds the walk on huge volumes.
const TOP_SCAN_MAX: u32 = 1024;
/// Inodes that a shard may have taken or given before its group hears of it.
const SLACK_MAX: u32 = 32;

/// What a descriptor says about the inodes of its group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InodeSummary {
    /// Free inodes.
    pub free_inodes: u32,
    /// Inodes in use for directories.
    pub used_dirs: u32,
}

/// Directory or anything else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InodeKind {
    /// A directory; counted in `used_dirs`.
    Directory,
    /// Everything else.
    Other,
}

/// The directory that the new inode is created in.
#[derive(Clone, Copy, Debug)]
pub struct Parent {
    /// Group of its inode.
    pub group: GroupNr,
    /// Group of the inode created in it last.
    pub last_group: Option<GroupNr>,
    /// `Some(hash of the new name)` for a new directory in the root or in one that is flagged as
    /// top of hierarchies.
    pub top: Option<u32>,
}

/// Inode counts per group, readable without locks, and the choice over them.
pub struct InodePolicy {
    volume: Volume,
    inodes_per_group: u32,
    affinity: Affinity,
    groups: Box<[CachePadded<GroupCounts>]>,
    /// What a shard did to one group and has not told it: the group in the upper half, the change
    /// of its free inodes below.
    untold: Sharded<AtomicU64>,
    slack: i32,
    free_inodes: Counter,
    used_dirs: Counter,
}

/// About how many; less than none while frees are untold.
struct GroupCounts {
    free_inodes: AtomicI32,
    used_dirs: AtomicI32,
}

impl InodePolicy {
    /// Starts from the descriptors.
    pub fn new(
        volume: Volume,
        inodes_per_group: u32,
        affinity: Affinity,
        summary: &dyn Fn(GroupNr) -> InodeSummary,
    ) -> Self {
        let (mut free, mut dirs) = (0, 0);
        let mut make = |nr| {
            let one = summary(GroupNr(nr));
            free += i64::from(one.free_inodes);
            dirs += i64::from(one.used_dirs);
            CachePadded::new(GroupCounts {
                free_inodes: AtomicI32::new(one.free_inodes as i32),
                used_dirs: AtomicI32::new(one.used_dirs as i32),
            })
        };
        let groups = (0..volume.groups).map(&mut make).collect();
        let (free_inodes, used_dirs) = (Counter::new(free), Counter::new(dirs));
        Self {
            volume,
            inodes_per_group,
            affinity,
            groups,
            untold: Sharded::new(|_| AtomicU64::new(0)),
            slack: SLACK_MAX.min(inodes_per_group / 64) as i32,
            free_inodes,
            used_dirs,
        }
    }

    /// The counts of one group, about.
    pub fn summary(&self, group: GroupNr) -> InodeSummary {
        let counts = &self.groups[group.0 as usize];
        let count = |of: &AtomicI32| of.load(Relaxed).max(0) as u32;
        InodeSummary {
            free_inodes: count(&counts.free_inodes),
            used_dirs: count(&counts.used_dirs),
        }
    }

    /// Free inodes of the file system.
    pub fn free_inodes(&self) -> u64 {
        u64::try_from(self.free_inodes.sum()).unwrap_or(0)
    }

    /// Free inodes of a group on average, at least one.
    fn average_free(&self) -> u32 {
        let average = self.free_inodes() / u64::from(self.volume.groups);
        u32::try_from(average).unwrap_or(u32::MAX).max(1)
    }

    /// Directories of the file system.
    pub fn used_dirs(&self) -> u64 {
        u64::try_from(self.used_dirs.sum()).unwrap_or(0)
    }

    /// An inode of the group was taken.
    pub fn taken(&self, group: GroupNr, kind: InodeKind) {
        self.count(group, -1, kind);
    }

    /// An inode of the group became free.
    pub fn given(&self, group: GroupNr, kind: InodeKind) {
        self.count(group, 1, kind);
    }

    fn count(&self, group: GroupNr, free: i32, kind: InodeKind) {
        self.free_inodes.add(free.into());
        if kind == InodeKind::Directory {
            self.used_dirs.add((-free).into());
            self.groups[group.0 as usize]
                .used_dirs
                .fetch_sub(free, Relaxed);
            self.tell(group, free);
        } else {
            self.note(group, free);
        }
    }

    fn tell(&self, group: GroupNr, free: i32) {
        self.groups[group.0 as usize]
            .free_inodes
            .fetch_add(free, Relaxed);
    }

    /// Adds to what the shard has not told, and tells what is of another group or too much.
    fn note(&self, group: GroupNr, free: i32) {
        let slot = self.untold.local();
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
                        self.tell(of, old);
                    }
                    if enough {
                        self.tell(group, sum);
                    }
                    return;
                }
            }
        }
    }

    /// Tells all groups what they have not heard.
    fn tell_all(&self) {
        for slot in self.untold.iter() {
            let (group, free) = unpack(slot.swap(0, AcqRel));
            if free != 0 {
                self.tell(group, free);
            }
        }
    }

    /// Groups to try for a new inode, best first; `free_clusters` answers the file system's.
    pub fn candidates<'a>(
        &'a self,
        parent: Parent,
        kind: InodeKind,
        space: &'a dyn Engine,
        free_clusters: &'a dyn Fn() -> u64,
    ) -> Candidates<'a> {
        let stage = match kind {
            InodeKind::Directory => Stage::Spread,
            InodeKind::Other => Stage::Parent,
        };
        let window = Window {
            first: 0,
            count: 0,
            offset: 0,
            least: 1,
            at: 0,
        };
        Candidates {
            policy: self,
            parent,
            space,
            free_clusters,
            stage,
            window,
        }
    }

    fn flex(&self, index: u32) -> Window {
        let first = index * self.volume.groups_per_flex.max(1);
        let count = self
            .volume
            .groups_per_flex
            .max(1)
            .min(self.volume.groups - first);
        let offset = match self.affinity {
            Affinity::PerThread => shard_index() as u32 % count,
            Affinity::None => 0,
        };
        Window {
            first,
            count,
            offset,
            least: 1,
            at: 0,
        }
    }

    fn flex_of(&self, group: GroupNr) -> u32 {
        // A hint from a directory may be stale after a shrink.
        group.0.min(self.volume.groups - 1) / self.volume.groups_per_flex.max(1)
    }

    fn everywhere(&self, from: GroupNr, least: u32) -> Window {
        let count = self.volume.groups;
        Window {
            first: 0,
            count,
            offset: from.0 % count,
            least,
            at: 0,
        }
    }

    fn totals(&self, flex: u32, space: &dyn Engine) -> Totals {
        let window = self.flex(flex);
        let mut totals = Totals::default();
        for nr in window.first..window.first + window.count {
            let inodes = self.summary(GroupNr(nr));
            totals.inodes += u64::from(inodes.free_inodes);
            totals.dirs += u64::from(inodes.used_dirs);
            totals.clusters += u64::from(space.group_free(GroupNr(nr)));
        }
        totals
    }

    /// The flexible group for a directory, when one stands out.
    fn spread(&self, parent: Parent, space: &dyn Engine, free_clusters: u64) -> Option<u32> {
        let flexes = self.volume.flex_groups();
        let per_flex = |total: u64| total / u64::from(flexes);
        let average = Totals {
            inodes: per_flex(self.free_inodes()),
            dirs: per_flex(self.used_dirs()),
            clusters: per_flex(free_clusters),
        };
        let walk = |start: u32| (0..flexes).map(move |at| (start % flexes + at) % flexes);
        if let Some(hash) = parent.top {
            let good = walk(hash).take(TOP_SCAN_MAX as usize).filter_map(|flex| {
                let totals = self.totals(flex, space);
                let full = totals.inodes == 0
                    || totals.inodes < average.inodes
                    || totals.clusters < average.clusters;
                (!full).then_some((totals.dirs, flex))
            });
            if let Some((_, flex)) = good.min_by_key(|(dirs, _)| *dirs) {
                return Some(flex);
            }
        }
        let size = u64::from(self.volume.groups_per_flex.max(1));
        let inodes = u64::from(self.inodes_per_group) * size;
        let clusters = u64::from(self.volume.clusters_per_group) * size;
        let dirs_max = average.dirs + inodes / 16;
        let inodes_min = average.inodes.saturating_sub(inodes / 4).max(1);
        let clusters_min = average.clusters.saturating_sub(clusters / 4);
        walk(self.flex_of(parent.last_group.unwrap_or(parent.group))).find(|&flex| {
            let totals = self.totals(flex, space);
            totals.dirs < dirs_max && totals.inodes >= inodes_min && totals.clusters >= clusters_min
        })
    }
}

fn pack(group: GroupNr, free: i32) -> u64 {
    u64::from(group.0) << 32 | u64::from(free as u32)
}

fn unpack(untold: u64) -> (GroupNr, i32) {
    (GroupNr((untold >> 32) as u32), untold as u32 as i32)
}

#[derive(Default)]
struct Totals {
    inodes: u64,
    dirs: u64,
    clusters: u64,
}

/// Groups in a row, begun at an offset and wrapped.
#[derive(Clone, Copy)]
struct Window {
    first: u32,
    count: u32,
    offset: u32,
    /// Fewest free inodes that make a group worth a try.
    least: u32,
    at: u32,
}

/// Where the next window comes from.
#[derive(Clone, Copy)]
enum Stage {
    Parent,
    LastGroup,
    Spread,
    AboveAverage,
    Any,
    Told,
    All,
    Done,
}

/// Groups to try, lazily. A group may come again in a later stage.
pub struct Candidates<'a> {
    policy: &'a InodePolicy,
    parent: Parent,
    space: &'a dyn Engine,
    free_clusters: &'a dyn Fn() -> u64,
    stage: Stage,
    window: Window,
}

impl Candidates<'_> {
    /// Opens the window of the current stage; false when there are no more.
    fn open_next(&mut self) -> bool {
        let policy = self.policy;
        let (window, next) = match self.stage {
            Stage::Parent => (
                Some(policy.flex(policy.flex_of(self.parent.group))),
                Stage::LastGroup,
            ),
            Stage::LastGroup => {
                let last = self
                    .parent
                    .last_group
                    .map(|group| policy.flex(policy.flex_of(group)));
                (last, Stage::Spread)
            }
            Stage::Spread => {
                let flex = policy.spread(self.parent, self.space, (self.free_clusters)());
                (flex.map(|flex| policy.flex(flex)), Stage::AboveAverage)
            }
            Stage::AboveAverage => (
                Some(policy.everywhere(self.parent.group, policy.average_free())),
                Stage::Any,
            ),
            Stage::Any => (Some(policy.everywhere(self.parent.group, 1)), Stage::Told),
            Stage::Told => {
                policy.tell_all();
                (Some(policy.everywhere(self.parent.group, 1)), Stage::All)
            }
            Stage::All => {
                let some = policy.free_inodes() > 0;
                let all = some.then(|| policy.everywhere(self.parent.group, 0));
                (all, Stage::Done)
            }
            Stage::Done => return false,
        };
        self.stage = next;
        self.window = window.unwrap_or(Window {
            count: 0,
            at: 0,
            ..self.window
        });
        true
    }
}

impl Iterator for Candidates<'_> {
    type Item = GroupNr;

    fn next(&mut self) -> Option<GroupNr> {
        loop {
            while self.window.at < self.window.count {
                let Window {
                    first,
                    count,
                    offset,
                    least,
                    at,
                } = self.window;
                self.window.at += 1;
                let group = GroupNr(
                    first + ((u64::from(offset) + u64::from(at)) % u64::from(count)) as u32,
                );
                if self.policy.summary(group).free_inodes >= least {
                    return Some(group);
                }
            }
            if !self.open_next() {
                return None;
            }
        }
    }
}
