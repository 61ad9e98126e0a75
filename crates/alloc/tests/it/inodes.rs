//! Placement of inodes.

use crate::disk::{Choice, Disk, volume};
use uext4_alloc::{Affinity, InodeKind, InodePolicy, InodeSummary, Parent};
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
        last_group: None,
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
                policy.taken(group, InodeKind::Other);
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
        assert_eq!(policy.free_inodes(), 0);
        policy.given(GroupNr(11), InodeKind::Other);
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
        policy.taken(group, InodeKind::Directory);
        dirs[group.0 as usize / 4] += 1;
        // Equal chances again for the next name, but for the number of directories.
        policy.given(group, InodeKind::Other);
    }
    assert_eq!(dirs, [2; 16]);
    assert_eq!(policy.used_dirs(), 32);
    let free = || disk.free();
    let inner = policy.candidates(parent(41, None), InodeKind::Directory, &*engine, &free);
    assert_eq!(inner.take(1).next(), Some(GroupNr(40)));
}
