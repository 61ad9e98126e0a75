use crate::{Affinity, Bitmap, BuddyBaseLines, BuddyEngine, ClusterNr, Config, Engine, Goal};
use crate::{LoadError, Loader, Placement, Request, ScanOrder, Stat, Summary, Volume};
use std::time::Duration;
use uext4_format::{BlockNr, GroupNr};
use uext4_testkit::wait;

/// Time to watch that a search waits.
const A_WHILE: Duration = Duration::from_millis(20);

struct Empty;

impl Loader for Empty {
    fn load(&self, _: GroupNr, _: &mut Bitmap) -> Result<(), LoadError> {
        Ok(())
    }
    fn scan(&self, _: &[GroupNr], _: &mut dyn FnMut(GroupNr, Result<&Bitmap, LoadError>)) {}
}

fn engine(groups: u32) -> BuddyEngine {
    engine_of(groups, Affinity::None, &|_| 1024)
}

/// An engine of groups with this many free clusters.
fn engine_of(groups: u32, affinity: Affinity, free: &dyn Fn(GroupNr) -> u32) -> BuddyEngine {
    let volume = Volume {
        groups,
        groups_max: groups,
        clusters_per_group: 1024,
        clusters_in_last_group: 1024,
        first_block: BlockNr(0),
        cluster_bits: 0,
        groups_per_flex: 1,
    };
    let config = Config { volume, affinity };
    let summary = |nr| Summary {
        free_clusters: free(nr),
        uninit: false,
    };
    BuddyEngine::new(config, ScanOrder::Linear, &summary)
}

#[test]
fn busy_groups_are_passed_over() {
    let engine = engine(2);
    engine.load(GroupNr(0), &Empty).unwrap();
    let busy = engine.groups.group(GroupNr(0)).space.lock();
    let run = std::thread::scope(|scope| {
        let search = scope.spawn(|| engine.allocate(&Request::new(3), &Empty));
        search.join().unwrap().unwrap()
    });
    drop(busy);
    assert_eq!(run.start.0, 1024);
    assert!(engine.stats().get(Stat::BusySkips) > 0);
}

#[test]
fn the_base_line_waits_where_others_pass_over() {
    let engine = engine(2).with_base_lines(BuddyBaseLines {
        waits: true,
        ..BuddyBaseLines::default()
    });
    engine.load(GroupNr(0), &Empty).unwrap();
    let busy = engine.groups.group(GroupNr(0)).space.lock();
    let run = std::thread::scope(|scope| {
        let search = scope.spawn(|| engine.allocate(&Request::new(3), &Empty));
        assert!(!wait::is_true_within(A_WHILE, || search.is_finished()));
        drop(busy);
        search.join().unwrap().unwrap()
    });
    assert_eq!(run.start.0, 0);
    assert_eq!(engine.stats().get(Stat::BusySkips), 0);
}

#[test]
fn the_last_criterion_waits_for_busy_groups() {
    let engine = engine(1);
    engine.load(GroupNr(0), &Empty).unwrap();
    let busy = engine.groups.group(GroupNr(0)).space.lock();
    std::thread::scope(|scope| {
        let search = scope.spawn(|| engine.allocate(&Request::new(3), &Empty));
        assert!(!wait::is_true_within(A_WHILE, || search.is_finished()));
        drop(busy);
        assert!(search.join().unwrap().is_ok());
    });
}

/// The group where a stream of another thread begins, after this thread took its goal in group 5.
fn group_of_another_stream(base_lines: BuddyBaseLines) -> u32 {
    let engine = engine_of(64, Affinity::PerThread, &|_| 1024).with_base_lines(base_lines);
    let stream = |goal| Request::new(8).goal(goal).placement(Placement::Stream);
    let mine = stream(Goal::At(ClusterNr(5 * 1024 + 3)));
    assert_eq!(
        engine.allocate(&mine, &Empty).unwrap().start.0,
        5 * 1024 + 3
    );
    let other = std::thread::scope(|scope| {
        let search = scope.spawn(|| engine.allocate(&stream(Goal::Anywhere), &Empty));
        search.join().unwrap().unwrap()
    });
    u32::try_from(other.start.0 / 1024).unwrap()
}

#[test]
fn with_one_locked_goal_streams_follow_each_other() {
    let locked_goal = BuddyBaseLines {
        locked_goal: true,
        ..BuddyBaseLines::default()
    };
    assert_eq!(group_of_another_stream(locked_goal), 5);
    assert_ne!(group_of_another_stream(BuddyBaseLines::default()), 5);
}

/// Every second cluster is in use, but in the last group none is.
struct Fragmented;

const LAST: GroupNr = GroupNr(31);

impl Loader for Fragmented {
    fn load(&self, nr: GroupNr, used: &mut Bitmap) -> Result<(), LoadError> {
        if nr != LAST {
            (0..1024)
                .step_by(2)
                .for_each(|at| used.set_range(at..at + 1));
        }
        Ok(())
    }
    fn scan(&self, groups: &[GroupNr], each: &mut dyn FnMut(GroupNr, Result<&Bitmap, LoadError>)) {
        for nr in groups {
            let mut used = Bitmap::new(1024);
            self.load(*nr, &mut used).unwrap();
            each(*nr, Ok(&used));
        }
    }
}

/// Bitmaps that a search for a long run loads, after the groups were surveyed.
fn loads_of_a_search(base_lines: BuddyBaseLines) -> u64 {
    let free = |nr| if nr == LAST { 1024 } else { 512 };
    let engine = engine_of(LAST.0 + 1, Affinity::None, &free).with_base_lines(base_lines);
    engine.learn(&Fragmented, &|| true);
    let run = engine.allocate(&Request::new(500), &Fragmented).unwrap();
    assert_eq!(run.start.0, u64::from(LAST.0) * 1024);
    engine.stats().get(Stat::Loads)
}

#[test]
fn without_summaries_a_search_loads_all_groups_on_its_way() {
    let loads_all = BuddyBaseLines {
        loads_all: true,
        ..BuddyBaseLines::default()
    };
    assert_eq!(loads_of_a_search(loads_all), u64::from(LAST.0) + 1);
    assert!(loads_of_a_search(BuddyBaseLines::default()) <= 2);
}
