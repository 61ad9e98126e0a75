//! Inode numbers of a group and of all groups: none is allocated twice, and none is missed.

use crate::explore::{explore, number};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use uext4_alloc::{
    Affinity, Bitmap, BuddyEngine, Config, Engine, InodeBits, InodeKind, InodePolicy, InodeRuns,
    InodeSummary, Parent, ScanOrder, Summary, Volume,
};
use uext4_format::{BlockNr, GroupNr};
use uext4_sync::thread;

const GROUPS: u32 = 2;
const INODES: u32 = 600;
/// Left free in each group: at both ends, in two lines.
const LEFT: [u32; 4] = [3, 4, 590, 599];

struct Table {
    policy: InodePolicy,
    runs: InodeRuns,
    groups: Vec<InodeBits>,
    space: Box<dyn Engine>,
    /// Owners of each inode, and the number of inodes without an owner.
    held: Vec<AtomicI64>,
    free: AtomicI64,
}

fn volume() -> Volume {
    Volume {
        groups: GROUPS,
        groups_max: GROUPS,
        clusters_per_group: 64,
        clusters_in_last_group: 64,
        first_block: BlockNr(0),
        cluster_bits: 0,
        groups_per_flex: GROUPS,
    }
}

impl Table {
    fn new() -> Self {
        let mut used = Bitmap::new(INODES);
        (0..INODES)
            .filter(|at| !LEFT.contains(at))
            .for_each(|at| used.set_range(at..at + 1));
        let affinity = Affinity::PerThread;
        let (volume, space) = (volume(), |_| Summary {
            free_clusters: 64,
            uninit: false,
        });
        let config = Config {
            volume: volume.clone(),
            affinity,
        };
        Self {
            // More inodes than exist, so that group counts lag.
            policy: InodePolicy::new(volume, 64 * 3, affinity, &|_| InodeSummary {
                free_inodes: LEFT.len() as u32,
                used_dirs: 0,
            }),
            runs: InodeRuns::new(affinity),
            groups: (0..GROUPS).map(|_| InodeBits::new(&used)).collect(),
            space: Box::new(BuddyEngine::new(config, ScanOrder::Linear, &space)),
            held: (0..GROUPS * INODES).map(|_| AtomicI64::new(0)).collect(),
            free: AtomicI64::new(i64::from(GROUPS) * LEFT.len() as i64),
        }
    }

    fn slot(&self, group: u32, index: u32) -> &AtomicI64 {
        &self.held[(group * INODES + index) as usize]
    }

    fn take(&self) -> Option<(u32, u32)> {
        let parent = Parent {
            group: GroupNr(0),
            last_flex: None,
            top: None,
        };
        let kind = InodeKind::Other;
        for group in self.policy.candidates(parent, kind, &*self.space, &|| 128) {
            let bits = &self.groups[group.0 as usize];
            while let Some(line) = self.runs.line(group, bits, 0) {
                if let Some(index) = bits.take(line, 0) {
                    self.policy.counts().taken(group, kind);
                    assert_eq!(self.slot(group.0, index).fetch_add(1, SeqCst), 0, "twice");
                    self.free.fetch_sub(1, SeqCst);
                    return Some((group.0, index));
                }
            }
        }
        None
    }

    fn give(&self, (group, index): (u32, u32)) {
        self.slot(group, index).fetch_sub(1, SeqCst);
        self.free.fetch_add(1, SeqCst);
        assert!(self.groups[group as usize].clear(index), "was in use");
        self.policy.counts().given(GroupNr(group), InodeKind::Other);
    }
}

/// No thread holds more than its share, so each request succeeds, unless free inodes move behind
/// its scan: threads free only after all have taken.
fn creators() {
    let table = Arc::new(Table::new());
    let threads: Vec<_> = (0..3)
        .map(|_| {
            let table = table.clone();
            thread::spawn(move || {
                let mut mine = Vec::new();
                for _ in 0..2 {
                    mine.push(table.take().expect("more are free than are asked for"));
                }
                mine
            })
        })
        .collect();
    let held: Vec<_> = threads
        .into_iter()
        .flat_map(|thread| thread.join().expect("no thread panics"))
        .collect();
    let parts: Vec<Vec<_>> = held.chunks(2).map(<[_]>::to_vec).collect();
    let givers: Vec<_> = parts
        .into_iter()
        .map(|mine| {
            let table = table.clone();
            let keep = number().is_multiple_of(2);
            thread::spawn(move || {
                let gone = &mine[..mine.len() - usize::from(keep)];
                gone.iter().for_each(|inode| table.give(*inode));
                table.take();
            })
        })
        .collect();
    for giver in givers {
        giver.join().expect("no thread panics");
    }
    let left = table.free.load(SeqCst);
    assert_eq!(table.policy.counts().free_inodes() as i64, left);
    let clear: u32 = table.groups.iter().map(InodeBits::count_clear).sum();
    assert_eq!(i64::from(clear), left);
    assert_eq!(std::iter::from_fn(|| table.take()).count() as i64, left);
}

#[test]
fn no_inode_is_given_out_twice_and_none_is_missed() {
    explore(300, creators);
}
