use crate::{Affinity, Bitmap, BuddyEngine, Config, Engine, LoadError, Loader, Request};
use crate::{ScanOrder, Stat, Summary, Volume};
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
    fn look(&self, _: &[GroupNr], _: &mut dyn FnMut(GroupNr, Result<&Bitmap, LoadError>)) {}
}

fn engine(groups: u32) -> BuddyEngine {
    let volume = Volume {
        groups,
        clusters_per_group: 1024,
        clusters_in_last_group: 1024,
        first_block: BlockNr(0),
        cluster_bits: 0,
        groups_per_flex: 1,
    };
    let config = Config {
        volume,
        affinity: Affinity::None,
    };
    let summary = |_| Summary {
        free_clusters: 1024,
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
    let engine = engine(2).with_blocking_locks();
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
