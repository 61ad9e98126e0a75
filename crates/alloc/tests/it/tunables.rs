//! Every search limit has its effect: each test sends the same requests to an engine with the
//! default and to one with another value.

use crate::disk::{Choice, Disk, volume};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use uext4_alloc::{Affinity, ClusterNr, Engine, Goal, Request, Run, Stat, Tunables};
use uext4_format::GroupNr;

const TREES: Choice = Choice::Trees {
    aggression: 3,
    memory: 0,
};

/// A volume that is full except for these runs.
fn disk(groups: u32, per_group: u32, free: &[(u64, u32)]) -> Disk {
    let disk = Disk::new(volume(groups, per_group, per_group, 1));
    disk.set(Run::new(ClusterNr(0), groups * per_group));
    for (start, len) in free {
        disk.clear(Run::new(ClusterNr(*start), *len));
    }
    disk
}

fn loaded(disk: &Disk, choice: Choice) -> Box<dyn Engine> {
    let engine = disk.engine(choice, Affinity::None);
    for nr in 0..disk.volume.groups {
        engine.load(GroupNr(nr), disk).unwrap();
    }
    engine
}

/// The runs allocated with the default and with `value`, near cluster `goal`.
fn both(
    disk: &Disk,
    choice: Choice,
    (len, goal): (u32, u64),
    tunable: impl Fn(&Tunables) -> &AtomicU32,
    value: u32,
) -> [Run; 2] {
    let request = Request::new(len).goal(Goal::Near(ClusterNr(goal)));
    let by_default = loaded(disk, choice);
    let changed = loaded(disk, choice);
    tunable(changed.tunables()).store(value, Relaxed);
    [by_default, changed].map(|engine| engine.allocate(&request, disk).unwrap())
}

fn run(start: u64, len: u32) -> Run {
    Run::new(ClusterNr(start), len)
}

#[test]
fn max_to_scan_ends_a_search() {
    let mut free: Vec<_> = (0..300).map(|at| (at * 8, 2)).collect();
    free.push((4000, 60));
    let disk = disk(1, 4096, &free);
    let runs = both(
        &disk,
        Choice::Linear,
        (60, 0),
        |limits| &limits.max_to_scan,
        1000,
    );
    assert_eq!(runs, [run(0, 2), run(4000, 60)]);
}

#[test]
fn max_to_scan_ends_a_search_in_a_tree() {
    let mut free: Vec<_> = (0..4).map(|at| (at * 64 + 1, 32)).collect();
    free.push((513, 60));
    let disk = disk(1, 1024, &free);
    let runs = [200, 2].map(|value| {
        let engine = loaded(&disk, TREES);
        engine.tunables().stripe.store(16, Relaxed);
        engine.tunables().max_to_scan.store(value, Relaxed);
        engine.allocate(&Request::new(32), &disk).unwrap()
    });
    assert_eq!(
        runs,
        [run(528, 32), run(1, 32)],
        "on a border; not looked for so far"
    );
}

#[test]
fn min_to_scan_runs_are_compared() {
    let disk = disk(1, 1024, &[(0, 100), (200, 90), (400, 80), (600, 70)]);
    let runs = both(
        &disk,
        Choice::Linear,
        (65, 0),
        |limits| &limits.min_to_scan,
        1,
    );
    assert_eq!(
        runs,
        [run(600, 65), run(0, 65)],
        "the best fit; the first one"
    );
}

#[test]
fn min_to_scan_runs_behind_the_goal_are_tried_in_a_tree() {
    let free = [(0, 20), (110, 2), (120, 2), (130, 2), (200, 50)];
    let disk = disk(1, 1024, &free);
    let runs = both(&disk, TREES, (20, 100), |limits| &limits.min_to_scan, 1);
    assert_eq!(
        runs,
        [run(200, 20), run(0, 20)],
        "soon after the goal; the best fit"
    );
}

#[test]
fn order2_req_says_what_is_served_in_aligned_chunks() {
    let disk = disk(1, 1024, &[(1, 4), (64, 64)]);
    let runs = both(
        &disk,
        Choice::Linear,
        (4, 0),
        |limits| &limits.order2_req,
        3,
    );
    assert_eq!(
        runs,
        [run(64, 4), run(1, 4)],
        "a chunk; the run that fits exactly"
    );
}

#[test]
fn max_linear_groups_come_before_the_index() {
    let disk = disk(8, 1024, &[(1024, 512), (5 * 1024, 8)]);
    let runs = both(
        &disk,
        Choice::Optimized,
        (8, 0),
        |limits| &limits.max_linear_groups,
        2,
    );
    assert_eq!(
        runs,
        [run(5 * 1024, 8), run(1024, 8)],
        "by order; in a row from the goal"
    );
}

#[test]
fn best_avail_max_trim_order_says_how_far_a_request_is_shortened() {
    let mut free: Vec<_> = (0..250).map(|at| (at * 4, 1)).collect();
    free.push((1024 + 3, 40));
    let disk = disk(2, 1024, &free);
    let runs = both(
        &disk,
        Choice::Optimized,
        (64, 0),
        |limits| &limits.best_avail_max_trim_order,
        0,
    );
    assert_eq!(
        runs,
        [run(1024 + 3, 40), run(0, 1)],
        "more than half of it elsewhere; what is near"
    );
}

/// Ranges of groups that a search through a whole volume prefetches.
fn asked_ahead(prefetch: u32, limit: u32) -> Vec<std::ops::Range<u32>> {
    let disk = Disk::new(volume(10, 256, 256, 4));
    for at in (0..2560).filter(|at| at % 4 != 0) {
        disk.set(run(at, 1));
    }
    let engine = disk.engine(Choice::Linear, Affinity::None);
    let tunables = engine.tunables();
    tunables.prefetch.store(prefetch, Relaxed);
    tunables.prefetch_limit.store(limit, Relaxed);
    tunables.max_to_scan.store(u32::MAX, Relaxed);
    let found = engine.allocate(&Request::new(60).goal(Goal::Near(ClusterNr(0))), &disk);
    assert_eq!(found.map(|run| run.len), Ok(1));
    disk.asked_ahead.into_inner().unwrap()
}

#[test]
fn bitmaps_are_asked_for_ahead_by_flexible_group() {
    assert_eq!(asked_ahead(32, 128), [0..4, 4..8, 8..10]);
    assert_eq!(asked_ahead(3, 128), [0..3, 3..4, 4..7, 7..8, 8..10]);
    assert_eq!(asked_ahead(32, 6), [0..4, 4..6]);
    assert_eq!(asked_ahead(0, 128), []);
}

/// A run far from the goal is found without loading the groups between.
#[test]
fn what_was_learned_leads_to_the_group_that_suits() {
    for choice in [Choice::Linear, Choice::Optimized] {
        let mut free: Vec<_> = (0..64 * 256)
            .step_by(2)
            .filter(|at| at / 256 != 50)
            .map(|at| (at, 1))
            .collect();
        free.push((50 * 256 + 1, 200));
        let mut disk = disk(64, 256, &free);
        disk.unreadable = Some(GroupNr(3));
        let request = Request::new(100).goal(Goal::Near(ClusterNr(0)));
        let cold = disk.engine(choice, Affinity::None);
        assert!(
            cold.allocate(&request, &disk).unwrap().len < 100,
            "{choice:?}"
        );
        let engine = disk.engine(choice, Affinity::None);
        assert_eq!(engine.unknown_regions(), 64);
        engine.learn(&disk, &|| true);
        assert_eq!(engine.unknown_regions(), 0, "one cannot be read");
        let found = engine.allocate(&request, &disk).unwrap();
        assert_eq!((found.start.0 / 256, found.len), (50, 100), "{choice:?}");
        assert!(engine.stats().get(Stat::Loads) <= 2, "{choice:?}");
        assert_eq!(engine.stats().get(Stat::Surveys), 63);
    }
}

/// Clusters that wait for a commit look free in the bitmap.
#[test]
fn what_is_pending_is_not_learned_as_free() {
    let disk = disk(2, 256, &[(256, 10)]);
    let engine = disk.engine(Choice::Optimized, Affinity::None);
    let freed = run(266, 40);
    engine.defer_free(uext4_format::Tid(1), freed);
    disk.clear(freed);
    engine.learn(&disk, &|| true);
    assert_eq!(engine.unknown_regions(), 0);
    let averages: Vec<_> = engine
        .groups_by_order()
        .iter()
        .map(|order| order.1)
        .collect();
    assert_eq!(averages[2], 1, "a run of 10: {averages:?}");
}
