//! Properties of free-space trees only: memory, hints that survive eviction, aggression.

use crate::disk::{CHOICES, Choice, Disk, volume};
use std::sync::atomic::Ordering;
use uext4_alloc::{Affinity, ClusterNr, Config, Engine, Goal, Request, Run, Stat, TreeEngine};
use uext4_format::{GroupNr, Tid};

const TREES: Choice = Choice::Trees {
    aggression: 0,
    memory: 0,
};

fn combed(groups: u32) -> Disk {
    let disk = Disk::new(volume(groups, 256, 256, 4));
    for at in (0..u64::from(groups) * 256).filter(|at| at % 4 != 0) {
        disk.set(Run::new(ClusterNr(at), 1));
    }
    disk
}

fn engine(disk: &Disk, aggression: u32, memory: u64) -> TreeEngine {
    let config = Config {
        volume: disk.volume.clone(),
        affinity: Affinity::None,
    };
    let engine = TreeEngine::new(config, &|nr| disk.summary(nr));
    engine
        .tunables()
        .cache_aggression
        .store(aggression, Ordering::Relaxed);
    engine
        .tunables()
        .freespace_memory_bytes
        .store(memory, Ordering::Relaxed);
    engine
}

#[test]
fn runs_that_merge_while_a_tree_is_away_are_found() {
    let disk = Disk::new(volume(8, 64, 64, 4));
    disk.set(Run::new(ClusterNr(0), 512));
    let engine = disk.engine(TREES, Affinity::None);
    engine.load(GroupNr(0), &disk).unwrap();
    assert!(engine.evict(GroupNr(0)));
    for (epoch, start, len) in [(1, 70, 4), (2, 74, 3)] {
        let run = Run::new(ClusterNr(start), len);
        engine.defer_free(Tid(epoch), run);
        disk.clear(run);
        assert_eq!(engine.give_back(Tid(epoch)), u64::from(len));
    }
    let request = Request::new(7).min_len(7);
    assert_eq!(
        engine.allocate(&request, &disk),
        Ok(Run::new(ClusterNr(70), 7))
    );
}

/// With every engine: a shorter run is nearer to the goal, and fits better.
#[test]
fn whole_stripes_begin_on_a_border() {
    for choice in CHOICES {
        let disk = Disk::new(volume(8, 256, 256, 4));
        disk.set(Run::new(ClusterNr(0), 8 * 256));
        disk.clear(Run::new(ClusterNr(1024 + 3), 33));
        disk.clear(Run::new(ClusterNr(1024 + 100), 60));
        let engine = disk.engine(choice, Affinity::None);
        engine.tunables().stripe.store(16, Ordering::Relaxed);
        let request = Request::new(32).goal(Goal::Near(ClusterNr(1024)));
        let run = engine.allocate(&request, &disk);
        assert_eq!(run, Ok(Run::new(ClusterNr(1024 + 112), 32)), "{choice:?}");
        let odd = Request::new(33)
            .min_len(33)
            .goal(Goal::Near(ClusterNr(1024)));
        let run = engine.allocate(&odd, &disk);
        assert_eq!(run, Ok(Run::new(ClusterNr(1024 + 3), 33)), "{choice:?}");
    }
}

#[test]
fn memory_stays_within_its_limit_and_hints_survive() {
    let disk = combed(64);
    disk.clear(Run::new(ClusterNr(40 * 256 + 1), 3)); // one run of five
    // The limit holds two trees: a tree of four combed groups has 256 runs.
    let engine = engine(&disk, 1, 600 * 32);
    for nr in 0..64 {
        engine.load(GroupNr(nr), &disk).unwrap();
        assert!(engine.memory_bytes() <= 600 * 32);
    }
    assert!(engine.stats().get(Stat::Evictions) >= 14);
    let loads = engine.stats().get(Stat::Loads);
    let request = Request::new(5).goal(Goal::Near(ClusterNr(0)));
    assert_eq!(
        engine.allocate(&request, &disk),
        Ok(Run::new(ClusterNr(40 * 256), 5))
    );
    assert_eq!(
        engine.stats().get(Stat::Loads),
        loads + 1,
        "straight to the one tree that fits"
    );
}

#[test]
fn aggression_decides_how_much_is_read() {
    let reads = [0, 1, 2, 3].map(|aggression| {
        let disk = combed(4 * 600);
        let engine = engine(&disk, aggression, 0);
        for _ in 0..8 {
            let request = Request::new(2).goal(Goal::Near(ClusterNr(0)));
            assert_eq!(engine.allocate(&request, &disk).unwrap().len, 1);
        }
        disk.loads.load(Ordering::Relaxed)
    });
    assert_eq!(
        reads[0],
        2 * 4,
        "the goal's region, for its longest run and its tree"
    );
    // No request satisfies a criterion: 1 and 2 look at the same requests.
    assert_eq!(reads[1], reads[2]);
    assert!(reads[0] < reads[1] && reads[2] < reads[3], "{reads:?}");
}

/// Half of the requests look although a known region satisfies the lenient criterion.
#[test]
fn aggression_of_two_looks_for_the_strict_criterion_too() {
    let reads = [1, 2].map(|aggression| {
        let disk = combed(4 * 600);
        // In the first group of a flexible group, which the strict criterion avoids.
        (0..16).for_each(|at| disk.clear(Run::new(ClusterNr(4 * at + 1), 3)));
        let engine = engine(&disk, aggression, 0);
        let reads = (0..4).map(|_| {
            let before = engine.stats().get(Stat::Surveys);
            let request = Request::new(2).goal(Goal::Near(ClusterNr(0)));
            assert_eq!(engine.allocate(&request, &disk).unwrap().len, 2);
            engine.stats().get(Stat::Surveys) - before
        });
        reads.collect::<Vec<_>>()
    });
    assert_eq!(reads[0], [1, 0, 0, 0], "the goal's region only");
    assert_eq!(reads[1], [1 + 64, 0, 0, 0], "its first look is in vain");
}

/// 600 regions with runs of one cluster and, far from the first, one run of 90.
fn one_long_run() -> (Disk, ClusterNr) {
    let (disk, start) = (combed(4 * 600), 1999 * 256);
    for at in (0..90).filter(|at| at % 4 != 0) {
        disk.clear(Run::new(ClusterNr(start + at), 1));
    }
    (disk, ClusterNr(start))
}

/// No read is wasted: the only group that can hold the request is read first.
#[test]
fn free_counts_say_where_to_look_first() {
    let (disk, start) = one_long_run();
    let engine = engine(&disk, 1, 0);
    let request = Request::new(80).goal(Goal::Near(ClusterNr(0)));
    assert_eq!(engine.allocate(&request, &disk), Ok(Run::new(start, 80)));
    assert_eq!(disk.loads.load(Ordering::Relaxed), 2 * 4);
}

/// A search that avoids reading still finds the one region with an outstanding free count.
#[test]
fn a_reluctant_search_looks_where_much_more_is_promised() {
    let (disk, start) = one_long_run();
    let engine = engine(&disk, 0, 0);
    let request = Request::new(60).goal(Goal::Near(ClusterNr(0)));
    assert_eq!(engine.allocate(&request, &disk), Ok(Run::new(start, 60)));
    // The goal's region promises 64, so it is read as well.
    assert_eq!(disk.loads.load(Ordering::Relaxed), 3 * 4);
}

/// On a volume without long runs, requests soon stop searching for one.
#[test]
fn looking_in_vain_becomes_rare() {
    let disk = combed(4 * 6000);
    let engine = engine(&disk, 1, 0);
    for _ in 0..400 {
        let request = Request::new(2).goal(Goal::Near(ClusterNr(0)));
        assert_eq!(engine.allocate(&request, &disk).unwrap().len, 1);
    }
    let surveys = engine.stats().get(Stat::Surveys);
    assert!((64..=10 * 64).contains(&surveys), "{surveys}");
}

/// A region surveyed in advance leads straight to its tree, and costs no memory.
#[test]
fn learning_finds_every_longest_run_without_a_tree() {
    let disk = combed(4 * 40);
    disk.clear(Run::new(ClusterNr(77 * 256 + 1), 3));
    let engine = engine(&disk, 0, 0);
    engine.learn(&disk, &|| true);
    assert_eq!((engine.unknown_regions(), engine.memory_bytes()), (0, 0));
    assert_eq!(engine.stats().get(Stat::Surveys), 40);
    let request = Request::new(5).goal(Goal::Near(ClusterNr(0)));
    let run = Run::new(ClusterNr(77 * 256), 5);
    assert_eq!(engine.allocate(&request, &disk), Ok(run));
    assert_eq!(engine.stats().get(Stat::Loads), 1);
}
