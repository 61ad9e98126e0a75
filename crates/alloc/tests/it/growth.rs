//! Growth of a volume in use, with every engine.

use crate::disk::{CHOICES, Disk, volume};
use std::collections::BTreeSet;
use uext4_alloc::{Affinity, ClusterNr, Engine, Request, Run, Volume};
use uext4_format::GroupNr;

const PER_GROUP: u32 = 256;

/// The bits of the small disk on a larger one.
fn longer(small: &Disk, groups: u32) -> Disk {
    let large = Disk::new(volume(groups, PER_GROUP, PER_GROUP / 2, 4));
    for at in 0..small.volume.clusters() {
        let (group, offset) = small.volume.locate(ClusterNr(at)).unwrap();
        let used = small.bitmaps[group.0 as usize].lock().unwrap();
        if used.is_set(offset..offset + 1) {
            large.set(Run::new(ClusterNr(at), 1));
        }
    }
    large
}

/// Takes all free clusters, and returns them.
fn take_all(engine: &dyn Engine, disk: &Disk) -> BTreeSet<u64> {
    let mut taken = BTreeSet::new();
    while let Ok(run) = engine.allocate(&Request::new(7), disk) {
        for at in run.start.0..run.end().0 {
            assert!(taken.insert(at), "{at} was handed out twice");
        }
        disk.set(run);
        engine.mark_in_use(run);
    }
    taken
}

fn free_of(disk: &Disk) -> BTreeSet<u64> {
    let is_free = |at: &u64| {
        let (group, offset) = disk.volume.locate(ClusterNr(*at)).unwrap();
        !disk.bitmaps[group.0 as usize]
            .lock()
            .unwrap()
            .is_set(offset..offset + 1)
    };
    (0..disk.volume.clusters()).filter(is_free).collect()
}

fn grow(engine: &dyn Engine, disk: &Disk, old: &[GroupNr], groups_max: u32) -> u64 {
    let volume = Volume {
        groups_max,
        ..disk.volume.clone()
    };
    engine.grow(volume, old, &|nr| disk.summary(nr))
}

#[test]
fn all_of_the_larger_volume_is_handed_out_once() {
    for choice in CHOICES {
        for affinity in [Affinity::None, Affinity::PerThread] {
            let mut small = Disk::new(volume(6, PER_GROUP, 100, 4));
            small.volume.groups_max = 40;
            let engine = small.engine(choice, affinity);
            for at in (0..900).step_by(4) {
                let run = Run::new(ClusterNr(at), 2);
                engine.take_exact(run, &small).unwrap();
                small.set(run);
                engine.mark_in_use(run);
            }
            // As the partial last cluster of a file system.
            engine
                .take_exact(Run::new(ClusterNr(1379), 1), &small)
                .unwrap();
            let middle = longer(&small, 7);
            assert_eq!(grow(&*engine, &middle, &[GroupNr(5)], 40), 1);
            assert_eq!(engine.free_clusters(), middle.free());
            assert_eq!(engine.volume().clusters(), middle.volume.clusters());
            let large = longer(&middle, 40);
            assert_eq!(grow(&*engine, &large, &[GroupNr(6)], 40), 0);
            assert_eq!(engine.free_clusters(), large.free());
            let wanted = free_of(&large);
            assert_eq!(take_all(&*engine, &large), wanted);
            assert_eq!(engine.free_clusters(), 0);
        }
    }
}

#[test]
fn what_was_freed_before_returns_after_a_growth() {
    for choice in CHOICES {
        let mut small = Disk::new(volume(4, PER_GROUP, PER_GROUP, 4));
        small.volume.groups_max = 8;
        small.set(Run::new(ClusterNr(0), 1024));
        let engine = small.engine(choice, Affinity::None);
        let run = Run::new(ClusterNr(300), 20);
        engine.defer_free(uext4_format::Tid(1), run);
        small.clear(run);
        let large = longer(&small, 8);
        grow(&*engine, &large, &[], 8);
        assert_eq!(engine.give_back(uext4_format::Tid(1)), 20);
        let wanted = free_of(&large);
        assert_eq!(take_all(&*engine, &large), wanted);
    }
}

#[test]
#[should_panic(expected = "up to what it has memory for")]
fn a_volume_without_memory_for_it_does_not_grow() {
    let small = Disk::new(volume(4, PER_GROUP, PER_GROUP, 4));
    let engine = small.engine(CHOICES[0], Affinity::None);
    grow(&*engine, &longer(&small, 8), &[], 8);
}
