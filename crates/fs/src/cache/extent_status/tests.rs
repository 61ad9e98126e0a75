//! Model test: the tree against one entry per block; order, bounds and counts of the shrinker.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::time::Duration;
use uext4_format::BlockNr;
use uext4_format::extent::ExtentState;
use uext4_sync::atomic::AtomicU64;
use uext4_sync::{Clock, ManualClock, RealClock, WallTime};

const REACH: u32 = 60;

#[derive(Clone, Debug)]
enum Step {
    Hole {
        at: u32,
        len: u32,
    },
    Mapped {
        at: u32,
        len: u32,
        start: u64,
        state: ExtentState,
    },
    Forget {
        at: u32,
        len: u32,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let (at, len) = (0..REACH, 1..20u32);
    let state = prop_oneof![Just(ExtentState::Written), Just(ExtentState::Unwritten)];
    prop_oneof![
        2 => (at.clone(), len.clone()).prop_map(|(at, len)| Step::Hole { at, len }),
        // Few different starts, so that neighbours are often contiguous.
        5 => (at.clone(), len.clone(), 0..2u64, state).prop_map(|(at, len, place, state)| {
            Step::Mapped { at, len, start: 100 + 1000 * place + u64::from(at), state }
        }),
        1 => (at, len).prop_map(|(at, len)| Step::Forget { at, len }),
    ]
}

/// The mapping of one block.
type Known = Option<(u64, ExtentState)>;

fn apply(tree: &mut Tree, model: &mut BTreeMap<u32, Known>, step: &Step) {
    match *step {
        Step::Hole { at, len } => {
            tree.insert(at, Mapping::Hole { len_blocks: len });
            model.extend((at..at + len).map(|block| (block, None)));
        }
        Step::Mapped {
            at,
            len,
            start,
            state,
        } => {
            let mapping = Mapping::Mapped {
                start: BlockNr(start),
                len_blocks: len,
                state,
            };
            tree.insert(at, mapping);
            let known = |block| Some((start + u64::from(block - at), state));
            model.extend((at..at + len).map(|block| (block, known(block))));
        }
        Step::Forget { at, len } => {
            tree.remove(u64::from(at)..u64::from(at + len));
            model.retain(|block, _| !(at..at + len).contains(block));
        }
    }
}

/// Runs of blocks with a continuous mapping in the model: the expected number of tree entries.
fn runs(model: &BTreeMap<u32, Known>) -> usize {
    let continues = |(left, known): (&u32, &Known), (right, next): (&u32, &Known)| {
        let same = match (known, next) {
            (None, None) => true,
            (Some((a, state)), Some((b, other))) => a + 1 == *b && state == other,
            _ => false,
        };
        left + 1 == *right && same
    };
    let joints = model.iter().zip(model.iter().skip(1));
    model.len()
        - joints
            .filter(|(left, right)| continues(*left, *right))
            .count()
}

fn check(tree: &Tree, model: &BTreeMap<u32, Known>) {
    for block in 0..REACH + 20 {
        let found = tree.find(block);
        let known = found.map(|mapping| match mapping {
            Mapping::Hole { .. } => None,
            Mapping::Mapped { start, state, .. } => Some((start.0, state)),
        });
        assert_eq!(known, model.get(&block).copied(), "block {block}");
        let last = found.map_or(block, |mapping| block + mapping.len_blocks() - 1);
        assert!(
            found.is_none() || model.contains_key(&last),
            "too long at {block}"
        );
    }
    assert_eq!(tree.len(), runs(model), "neighbours are not joined");
}

proptest! {
    #![proptest_config(crate::test_rig::proptest_config(256))]
    #[test]
    fn the_tree_knows_what_it_was_told(steps in prop::collection::vec(step(), 1..60)) {
        let (mut tree, mut model) = (Tree::default(), BTreeMap::new());
        for step in &steps {
            apply(&mut tree, &mut model, step);
            check(&tree, &model);
        }
    }
}

#[test]
fn the_last_block_of_a_file_can_be_known() {
    let mut tree = Tree::default();
    let last = u32::MAX - 1;
    tree.insert(last, Mapping::Hole { len_blocks: 1 });
    tree.insert(last - 4, Mapping::Hole { len_blocks: 4 });
    assert_eq!(tree.find(last - 4), Some(Mapping::Hole { len_blocks: 5 }));
    tree.remove(u64::from(last)..uext4_format::extent::LOGICAL_BLOCKS);
    assert_eq!(tree.find(last), None);
    assert_eq!(tree.len(), 1);
}

fn block(at: u32) -> Mapping {
    Mapping::Mapped {
        start: BlockNr(1000 + 2 * u64::from(at)),
        len_blocks: 1,
        state: ExtentState::Written,
    }
}

#[test]
fn what_was_looked_up_gets_a_second_chance() {
    let mut tree = Tree::default();
    (0..10).for_each(|at| tree.insert(2 * at, block(at)));
    tree.find(6);
    let first = tree.scan(4);
    assert_eq!((first.scanned, first.dropped), (4, 3));
    assert!(!tree.was_scanned_to_end());
    assert!(tree.find(6).is_some(), "referenced");
    let rest = tree.scan(100);
    assert_eq!(
        (rest.scanned, rest.dropped),
        (6, 6),
        "goes on where it stopped"
    );
    assert!(tree.was_scanned_to_end());
    tree.scan(1);
    assert_eq!(tree.scan(1).dropped, 1, "not used since");
    assert_eq!(tree.len(), 0);
}

fn status(budget_entries: u64) -> Arc<ExtentStatus> {
    status_of(budget_entries, Order::Round)
}

fn status_of(budget_entries: u64, order: Order) -> Arc<ExtentStatus> {
    let clock = Arc::new(ManualClock::new(WallTime::default()));
    clock.advance(Duration::from_secs(1));
    Arc::new(ExtentStatus::new(
        budget_entries * shrinker::ENTRY_BYTES,
        order,
        clock,
    ))
}

fn file(nr: u32, all: &Arc<ExtentStatus>) -> Arc<FileStatus> {
    Arc::new(FileStatus::new(InodeNr(nr), all.clone()))
}

fn add(file: &Arc<FileStatus>, at: u32) {
    file.record(LogicalBlock(2 * at), block(at));
}

#[test]
fn many_files_stay_within_the_budget() {
    let all = status(1000);
    let files: Vec<_> = (0..500).map(|nr| file(nr, &all)).collect();
    for at in 0..40 {
        files.iter().for_each(|file| add(file, at));
    }
    let stats = all.stats();
    assert!(stats.entries <= 1000 + 64 * 64, "{stats:?}");
    assert!(
        stats.shrinker_dropped >= 20_000 - stats.entries,
        "{stats:?}"
    );
    let most = stats.shrinker_calls * 64;
    assert!(
        stats.shrinker_scanned <= most,
        "a call looks at too much: {stats:?}"
    );
    let entries: u64 = files.iter().map(|file| file.tree.read().len() as u64).sum();
    assert_eq!(stats.entries, entries);
}

/// A clock: each reading advances wall time by 1 ms, and CPU time by 1 µs.
#[derive(Default)]
struct Interrupted {
    wall: AtomicU64,
    thread: AtomicU64,
}

impl Clock for Interrupted {
    fn wall(&self) -> WallTime {
        WallTime::default()
    }
    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.wall.fetch_add(1, Ordering::Relaxed))
    }
    fn of_thread(&self) -> Duration {
        Duration::from_micros(self.thread.fetch_add(1, Ordering::Relaxed))
    }
}

#[test]
fn the_two_clocks_time_the_same_calls() {
    const CALLS: u64 = 50;
    let clock = Arc::new(Interrupted::default());
    let all = Arc::new(ExtentStatus::new(u64::MAX, Order::Round, clock.clone()));
    let file = file(7, &all);
    (0..1000).for_each(|at| add(&file, at));
    (0..CALLS).for_each(|_| _ = all.shrink(10));
    let stats = all.stats();
    assert_eq!(
        (stats.shrinker_calls, all.timed_by_thread()),
        (CALLS, CALLS)
    );
    let (wall, thread) = (1_000_000, 1000);
    assert_eq!((stats.worst_call_ns, stats.p999_call_ns), (wall, wall));
    let of_thread = (stats.worst_call_thread_ns, stats.p999_call_thread_ns);
    assert_eq!(of_thread, (thread, thread));
    let sums = (stats.shrinker_ns, stats.shrinker_thread_ns);
    assert_eq!(sums, (CALLS * wall, CALLS * thread));
    // Two readings per call, whatever its length.
    assert_eq!(clock.thread.load(Ordering::Relaxed), 2 * CALLS);
}

#[test]
fn percentiles_of_real_calls_are_not_above_the_longest() {
    let all = Arc::new(ExtentStatus::new(
        100 * shrinker::ENTRY_BYTES,
        Order::Round,
        Arc::new(RealClock::new()),
    ));
    let files: Vec<_> = (0..50).map(|nr| file(nr, &all)).collect();
    for at in 0..500 {
        files.iter().for_each(|file| add(file, at));
    }
    let stats = all.stats();
    assert!(stats.shrinker_calls > 100, "{stats:?}");
    assert_eq!(stats.shrinker_calls, all.timed_by_thread());
    for (worst, p999, sum) in [
        (stats.worst_call_ns, stats.p999_call_ns, stats.shrinker_ns),
        (
            stats.worst_call_thread_ns,
            stats.p999_call_thread_ns,
            stats.shrinker_thread_ns,
        ),
    ] {
        assert!(0 < p999 && p999 <= worst && worst <= sum, "{stats:?}");
    }
    assert!(stats.shrinker_thread_ns <= stats.shrinker_ns, "{stats:?}");
}

#[test]
fn files_that_go_are_counted_off() {
    let all = status(u64::MAX / 1000);
    for nr in 0..10_000 {
        let file = file(nr, &all);
        add(&file, 1);
    }
    let stats = all.stats();
    assert_eq!(stats.entries, 0);
    assert!(
        stats.files < 3000,
        "dead files pile up in the lists: {stats:?}"
    );
}

#[test]
fn a_file_emptied_by_the_shrinker_is_listed_again() {
    let all = status(1_000_000);
    let file = file(7, &all);
    add(&file, 1);
    assert_eq!(all.stats().files, 1);
    assert_eq!(all.shrink(10), 1);
    assert_eq!(all.stats().files, 0);
    add(&file, 2);
    assert_eq!(all.stats().files, 1);
    assert_eq!(all.stats().entries, 1);
}

#[test]
fn a_busy_file_is_passed_over() {
    let all = status(1_000_000);
    let (busy, idle) = (file(16, &all), file(32, &all));
    add(&busy, 1);
    add(&idle, 1);
    let reader = busy.tree.read();
    assert_eq!(all.shrink(100), 1, "only the idle one");
    drop(reader);
    assert_eq!(all.shrink(100), 1);
}

#[test]
fn threads_and_the_shrinker_do_not_lose_count() {
    let all = status(200);
    let files: Vec<_> = (0..8).map(|nr| file(nr, &all)).collect();
    std::thread::scope(|scope| {
        for thread in 0..4u32 {
            let files = &files;
            scope.spawn(move || {
                for i in 0..2000u32 {
                    let file = &files[(i.wrapping_mul(7) + thread) as usize % files.len()];
                    add(file, (i * 31 + thread) % 5000);
                    file.tree.read().find(i % 1000);
                }
            });
        }
    });
    let entries: u64 = files.iter().map(|file| file.tree.read().len() as u64).sum();
    assert_eq!(all.stats().entries, entries);
    assert!(entries < 8000, "the shrinker did nothing");
}

#[test]
fn a_quarter_goes_when_memory_is_short() {
    let all = status(1_000_000);
    let files: Vec<_> = (0..8).map(|nr| file(nr, &all)).collect();
    files
        .iter()
        .for_each(|file| (0..500).for_each(|at| add(file, at)));
    assert_eq!(all.shed(), 1000);
    let left = all.stats().entries;
    assert!((2900..=3000).contains(&left), "{left}");
}

#[test]
fn the_baseline_drops_all_of_the_file_that_was_not_used_for_longest() {
    let clock = Arc::new(ManualClock::new(WallTime::default()));
    clock.advance(Duration::from_secs(1));
    let all = Arc::new(ExtentStatus::new(u64::MAX, Order::ByUse, clock.clone()));
    let (early, late) = (file(16, &all), file(32, &all));
    for at in 0..6 {
        add(&early, at);
        add(&late, at);
    }
    clock.advance(Duration::from_secs(1));
    late.mark_used();
    early.tree.read().find(2).expect("it is there");
    let left = |file: &FileStatus| file.tree.read().len();
    assert_eq!(all.shrink(4), 4, "also what was looked up");
    assert_eq!([left(&early), left(&late)], [2, 6]);
    assert_eq!(all.shrink(4), 4);
    assert_eq!([left(&early), left(&late)], [0, 4]);
    assert_eq!(all.stats().files, 1);
    add(&early, 1);
    assert_eq!(all.stats().files, 2, "listed again");
}
