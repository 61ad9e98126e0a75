//! Placement of inodes.

use crate::disk::{Choice, Disk, volume};
use proptest::prelude::*;
use std::sync::Mutex;
use uext4_alloc::{
    Affinity, Bitmap, INODE_LINE, InodeBits, InodeKind, InodePolicy, InodeRuns, InodeSummary,
    Parent,
};
use uext4_format::GroupNr;

const PER_GROUP: u32 = 32;

fn policy(groups: u32, flex: u32, affinity: Affinity) -> (Disk, InodePolicy) {
    let volume = volume(groups, 256, 256, flex);
    let free = |_| InodeSummary {
        free_inodes: PER_GROUP,
        used_dirs: 0,
    };
    (
        Disk::new(volume.clone()),
        InodePolicy::new(volume, PER_GROUP, affinity, &free),
    )
}

fn parent(group: u32, top: Option<u32>) -> Parent {
    Parent {
        group: GroupNr(group),
        last_flex: None,
        top,
    }
}

#[test]
fn files_fill_the_parents_flexible_group_first() {
    for affinity in [Affinity::None, Affinity::PerThread] {
        let (disk, policy) = policy(16, 4, affinity);
        let engine = disk.engine(Choice::Linear, affinity);
        let take = || {
            let free = || disk.free();
            let mut all = policy.candidates(parent(5, None), InodeKind::Other, &*engine, &free);
            let group = all.next();
            if let Some(group) = group {
                policy.counts().taken(group, InodeKind::Other);
            }
            group
        };
        for _ in 0..4 * PER_GROUP {
            assert!((4..8).contains(&take().unwrap().0));
        }
        for _ in 0..12 * PER_GROUP {
            assert!(!(4..8).contains(&take().unwrap().0));
        }
        assert_eq!(take(), None);
        assert_eq!(policy.counts().free_inodes(), 0);
        policy.counts().given(GroupNr(11), InodeKind::Other);
        assert_eq!(take(), Some(GroupNr(11)));
    }
}

#[test]
fn the_last_stage_visits_every_group_with_free_inodes() {
    let (disk, policy) = policy(37, 16, Affinity::PerThread);
    let engine = disk.engine(Choice::Linear, Affinity::PerThread);
    for kind in [InodeKind::Other, InodeKind::Directory] {
        let mut seen = [false; 37];
        for group in policy.candidates(parent(20, Some(9)), kind, &*engine, &|| disk.free()) {
            seen[group.0 as usize] = true;
        }
        assert!(seen.iter().all(|seen| *seen));
    }
}

#[test]
fn top_level_directories_spread_and_others_stay() {
    let (disk, policy) = policy(64, 4, Affinity::None);
    let engine = disk.engine(Choice::Linear, Affinity::None);
    let mut dirs = [0; 16];
    for name in 0..32u32 {
        let top = parent(0, Some(name.wrapping_mul(0x9e37_79b9)));
        let free = || disk.free();
        let mut all = policy.candidates(top, InodeKind::Directory, &*engine, &free);
        let group = all.next().unwrap();
        policy.counts().taken(group, InodeKind::Directory);
        dirs[group.0 as usize / 4] += 1;
        // Equal conditions for the next name, except for the number of directories.
        policy.counts().given(group, InodeKind::Other);
    }
    assert_eq!(dirs, [2; 16]);
    assert_eq!(policy.counts().used_dirs(), 32);
    let free = || disk.free();
    let inner = policy.candidates(parent(41, None), InodeKind::Directory, &*engine, &free);
    assert_eq!(inner.take(1).next(), Some(GroupNr(40)));
}

#[test]
fn a_freed_inode_is_found_before_its_group_hears_of_it() {
    const GROUPS: u32 = 4;
    let volume = volume(GROUPS, 256, 256, 2);
    let none = |_| InodeSummary::default();
    let policy = InodePolicy::new(volume.clone(), 8192, Affinity::None, &none);
    let disk = Disk::new(volume);
    let engine = disk.engine(Choice::Linear, Affinity::None);
    let free = || disk.free();
    let candidates = || policy.candidates(parent(0, None), InodeKind::Other, &*engine, &free);
    assert_eq!(candidates().next(), None);
    policy.counts().given(GroupNr(3), InodeKind::Other);
    assert_eq!(
        policy.counts().summary(GroupNr(3)).free_inodes,
        0,
        "not told yet"
    );
    assert_eq!(candidates().next(), Some(GroupNr(3)));
}

#[test]
fn groups_hear_of_what_was_taken_now_and_then() {
    let (disk, flex) = (volume(2, 256, 256, 2), GroupNr(1));
    let full = |_| InodeSummary {
        free_inodes: 8192,
        used_dirs: 0,
    };
    let policy = InodePolicy::new(disk, 8192, Affinity::PerThread, &full);
    for nr in 0..1000u32 {
        policy.counts().taken(flex, InodeKind::Other);
        let known = policy.counts().summary(flex).free_inodes;
        assert!(known.abs_diff(8192 - nr - 1) <= 32, "{known} after {nr}");
        assert_eq!(policy.counts().free_inodes(), u64::from(2 * 8192 - nr - 1));
    }
    policy.counts().taken(flex, InodeKind::Directory);
    assert_eq!(
        policy.counts().summary(flex).used_dirs,
        1,
        "directories at once"
    );
}

/// The thread that took the last inodes may be preempted: others skip the group in that time.
#[test]
fn a_group_that_was_found_full_hears_of_all_that_was_taken() {
    let disk = volume(2, 256, 256, 2);
    let some = |_| InodeSummary {
        free_inodes: 4096,
        used_dirs: 0,
    };
    let policy = InodePolicy::new(disk, 4096, Affinity::PerThread, &some);
    let counts = policy.counts();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| (0..20).for_each(|_| counts.taken(GroupNr(1), InodeKind::Other)));
        }
    });
    let known = |nr| counts.summary(GroupNr(nr)).free_inodes;
    assert!(known(1) > 4096 - 160, "not told yet");
    counts.report_full(GroupNr(0));
    assert!(known(1) > 4096 - 160, "another group");
    counts.report_full(GroupNr(1));
    assert_eq!((known(0), known(1)), (4096, 4096 - 160));
}

/// Takes an inode of group `nr` as the engine does.
fn take(runs: &InodeRuns, nr: u32, bits: &InodeBits, from: u32) -> Option<u32> {
    loop {
        let line = runs.line(GroupNr(nr), bits, from)?;
        if let Some(index) = bits.take(line, from) {
            return Some(index);
        }
    }
}

#[test]
fn threads_take_from_lines_of_their_own_until_there_is_no_other() {
    const LINES: u32 = 4;
    let bits = InodeBits::new(&Bitmap::new(LINES * INODE_LINE));
    let runs = InodeRuns::new(Affinity::PerThread);
    let taken = Mutex::new(Vec::new());
    let some = |count: u32| {
        let mine: Vec<_> = (0..count).map_while(|_| take(&runs, 0, &bits, 0)).collect();
        taken.lock().unwrap().push(mine);
    };
    let in_thread = |count| std::thread::scope(|scope| _ = scope.spawn(|| some(count)));
    (0..LINES).for_each(|_| in_thread(100));
    let lines = |mine: &Vec<u32>| mine.iter().map(|at| at / INODE_LINE).collect::<Vec<_>>();
    let mut owned: Vec<_> = taken.lock().unwrap().iter().map(lines).collect();
    owned.iter_mut().for_each(Vec::dedup);
    assert_eq!(owned, [[0], [1], [2], [3]]);
    in_thread(u32::MAX);
    assert_eq!(
        bits.count_clear(),
        0,
        "a thread without a run takes from those of others"
    );
    let mut all: Vec<_> = taken.into_inner().unwrap().concat();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..LINES * INODE_LINE), "each once");
}

#[test]
fn threads_at_once_take_each_inode_once() {
    const INODES: u32 = 5000;
    let mut used = Bitmap::new(INODES);
    used.set_range(700..900);
    let (bits, runs) = (InodeBits::new(&used), InodeRuns::new(Affinity::PerThread));
    let count = || std::iter::from_fn(|| take(&runs, 7, &bits, 10)).collect::<Vec<_>>();
    let mut all = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(count)).collect();
        let join = |thread: std::thread::ScopedJoinHandle<Vec<u32>>| thread.join().unwrap();
        threads.into_iter().flat_map(join).collect::<Vec<_>>()
    });
    all.sort_unstable();
    assert!(all.into_iter().eq((10..700).chain(900..INODES)));
    assert_eq!(bits.count_clear(), 10);
}

proptest! {
    #[test]
    fn inode_bits_are_a_plain_set(
        len in 1u32..1200,
        from in 0u32..600,
        steps in proptest::collection::vec((0u8..4, 0u32..1200), 1..300),
    ) {
        let (bits, runs) = (InodeBits::new(&Bitmap::new(len)), InodeRuns::new(Affinity::None));
        let mut plain = vec![false; len as usize];
        for (step, at) in steps {
            let known = plain.get(at as usize).copied();
            match step {
                0 => {
                    prop_assert_eq!(bits.set(at), known == Some(false));
                    plain.iter_mut().skip(at as usize).take(1).for_each(|bit| *bit = true);
                }
                1 => {
                    prop_assert_eq!(bits.clear(at), known == Some(true));
                    plain.iter_mut().skip(at as usize).take(1).for_each(|bit| *bit = false);
                }
                _ => match take(&runs, at % 3, &bits, from) {
                    None => prop_assert!(plain.iter().skip(from as usize).all(|bit| *bit)),
                    Some(index) => {
                        prop_assert!(index >= from && !plain[index as usize]);
                        plain[index as usize] = true;
                    }
                },
            }
            prop_assert_eq!(bits.get(at), known.is_none() || plain[at as usize]);
        }
        let clear = plain.iter().filter(|bit| !**bit).count();
        prop_assert_eq!(bits.count_clear() as usize, clear);
        let bitmap = bits.to_bitmap();
        prop_assert_eq!(bitmap.count_clear() as usize, clear);
        prop_assert!((0..len).all(|at| bitmap.get(at) == plain[at as usize]));
        prop_assert_eq!(&InodeBits::new(&bitmap).to_bitmap(), &bitmap);
    }
}

#[test]
fn a_line_that_was_full_is_taken_from_again_when_an_inode_of_it_is_freed() {
    let mut used = Bitmap::new(3 * INODE_LINE);
    used.set_range(0..INODE_LINE);
    let (bits, group) = (InodeBits::new(&used), GroupNr(0));
    let next = || InodeRuns::new(Affinity::PerThread).line(group, &bits, 0);
    assert_eq!(next(), Some(1));
    assert!(bits.clear(7));
    assert_eq!(next(), Some(0));
    assert_eq!(bits.take(0, 0), Some(7));
    assert_eq!(next(), Some(1));
}
