//! Known patterns of sharing against counts made by hand, and runs that repeat.

use super::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use super::simulation::{self, AccessCounts, HotLine, Machine};
use super::thread;
use crate::{CachePadded, Condvar, Counter, Mutex, OnceLock, Rank, RwLock};
use std::sync::Arc;
use std::time::Duration;

const HIT: u64 = 1_000;
const RMW: u64 = 5_000;
const NEAR: u64 = 50_000;
const FAR: u64 = 150_000;

/// Two cores per socket.
fn machine() -> Machine {
    Machine {
        name: "of the tests".to_owned(),
        cores_per_socket: 2,
        line_bytes: 64,
        hit_ps: HIT,
        rmw_ps: RMW,
        near_ps: NEAR,
        far_ps: FAR,
        spin_ps: 2_000_000,
        block_ps: 1_000_000,
        wake_ps: 1_000_000,
        wake_latency_ps: 5_000_000,
        switch_ps: 1_000_000,
        slice_ps: 3_000_000_000,
    }
}

/// Runs `body(index)` on `count` threads, on the cores from 1 on; core 0 waits. Answers what they
/// counted, after the threads have begun at the same time.
fn on_threads(count: usize, body: impl Fn(usize) + Send + Sync + 'static) -> AccessCounts {
    simulation::run(&machine(), count + 1, move || {
        let body = Arc::new(body);
        let begin = simulation::now().expect("it is simulated") + Duration::from_millis(1);
        let threads: Vec<_> = (0..count)
            .map(|index| {
                let body = body.clone();
                thread::spawn(move || {
                    let now = simulation::now().expect("it is simulated");
                    thread::sleep(begin - now);
                    body(index);
                })
            })
            .collect();
        threads
            .into_iter()
            .for_each(|one| one.join().expect("it does not panic"));
        simulation::report(10)
    })
}

/// A line of its own for a value.
#[repr(align(64))]
struct Apart<T>(T);

#[test]
fn ping_pong_moves_the_line_at_each_turn() {
    const TURNS: u64 = 100;
    // Cores 1 and 2 are of two sockets.
    let ball = Apart(AtomicU64::new(0));
    let report = on_threads(2, move |player| {
        for turn in 0..TURNS {
            while ball.0.load(SeqCst) != 2 * turn + player as u64 {
                thread::sleep(Duration::from_micros(50));
            }
            ball.0.store(2 * turn + player as u64 + 1, SeqCst);
        }
    });
    let line = &report.hottest[0];
    // Each look at the other's move takes the line, and so does each own move, except the first
    // of the two that find the line unshared.
    assert_eq!(line.near, 0);
    assert!(
        line.far >= 4 * TURNS - 2 && line.far <= 4 * TURNS + 2,
        "{line:?}"
    );
    assert_eq!(line.moved_ps, line.far * FAR);
}

#[test]
fn updates_of_one_line_queue() {
    const ROUNDS: u64 = 50;
    let shared = Apart(AtomicU64::new(0));
    // Threads of one socket: the cores 2 and 3; core 1 does nothing.
    let report = on_threads(3, move |index| {
        if index > 0 {
            (0..ROUNDS).for_each(|_| _ = shared.0.fetch_add(1, SeqCst));
        }
    });
    let line = &report.hottest[0];
    // The first update touches the line first, every later one takes it from the other core.
    assert_eq!(
        (line.accesses, line.near, line.far),
        (2 * ROUNDS, 2 * ROUNDS - 1, 0)
    );
    assert_eq!(line.moved_ps, (2 * ROUNDS - 1) * NEAR);
    // Each waits while the other's transfer lasts, as soon as both are at it.
    let each = NEAR + RMW;
    let expected = (2 * ROUNDS - 2) * each;
    assert!(line.queued_ps.abs_diff(expected) <= 2 * each, "{line:?}");
}

#[test]
fn false_sharing_costs_as_much_as_sharing_and_padding_nothing() {
    const ROUNDS: u64 = 50;
    let beside = Apart([AtomicU64::new(0), AtomicU64::new(0)]);
    let report = on_threads(2, move |index| {
        (0..ROUNDS).for_each(|_| _ = beside.0[index].fetch_add(1, SeqCst));
    });
    assert_eq!(report.far, 2 * ROUNDS - 1);
    let apart = [0, 0].map(|zero| CachePadded::new(AtomicU64::new(zero)));
    let report = on_threads(2, move |index| {
        (0..ROUNDS).for_each(|_| _ = apart[index].fetch_add(1, SeqCst));
    });
    assert_eq!((report.near, report.far), (0, 0));
}

#[test]
fn each_reader_takes_a_line_once_after_each_write() {
    const WRITES: u64 = 4;
    let read = Apart(AtomicU64::new(0));
    let report = on_threads(6, move |index| {
        for _ in 0..WRITES {
            if index == 0 {
                read.0.fetch_add(1, SeqCst);
            }
            thread::sleep(Duration::from_micros(100));
            (0..20).for_each(|_| _ = read.0.load(SeqCst));
            thread::sleep(Duration::from_micros(100));
        }
    });
    let line = &report.hottest[0];
    // The five readers, of which none is on the writer's socket (core 1 is beside core 0); the
    // first of a socket takes it from the writer. Then the writer takes the line back.
    let (reads, writes) = (5 * WRITES, WRITES - 1);
    assert_eq!(line.near + line.far, reads + writes);
    assert_eq!(line.accesses, WRITES + 6 * 20 * WRITES);
}

/// The canary: a counter that all share is the hottest line, named by its place.
#[test]
fn a_shared_counter_is_named() {
    let own: Vec<_> = (0..16)
        .map(|_| CachePadded::new(AtomicU64::new(0)))
        .collect();
    let shared = CachePadded::new(AtomicU64::new(0));
    let at = line!() + 4;
    let report = on_threads(16, move |index| {
        for _ in 0..20 {
            own[index].fetch_add(1, SeqCst);
            shared.fetch_add(1, SeqCst);
        }
    });
    let hottest = &report.hottest[0];
    assert!(
        hottest.place.ends_with(&format!("tests.rs:{at}")),
        "{hottest:?}"
    );
    assert!(hottest.kind.ends_with("AtomicU64"), "{hottest:?}");
    assert_eq!(report.near + report.far, 16 * 20 - 1);
}

/// A mixture of all that waits; returns the end and the counts.
fn mixture(cores: usize) -> (u64, Duration, AccessCounts) {
    simulation::run(&machine(), cores, || {
        // Padded, because other tests of this process allocate beside them.
        let total = (Mutex::new(Rank::Queue, 0u64), Condvar::new());
        let total = Arc::new(CachePadded::new(total));
        let table = RwLock::new(Rank::MetaBlock, [0u64; 8]);
        let table = Arc::new(CachePadded::new(table));
        let is_over = Arc::new(CachePadded::new(AtomicBool::new(false)));
        let workers: Vec<_> = (0..12u64)
            .map(|nr| {
                let (total, table) = (total.clone(), table.clone());
                thread::spawn(move || {
                    for round in 0..40 {
                        simulation::work(300_000 + nr * 1_000);
                        let sum: u64 = table.read().iter().sum();
                        if (round + nr).is_multiple_of(5) {
                            table.write()[0] += 1;
                        }
                        *total.0.lock() += 1 + sum % 2;
                        total.1.notify_all();
                    }
                })
            })
            .collect();
        let waiter = {
            let (total, is_over) = (total.clone(), is_over.clone());
            thread::spawn(move || {
                let mut seen = total.0.lock();
                while *seen < 12 * 40 {
                    total.1.wait_for(&mut seen, Duration::from_micros(30));
                }
                is_over.store(true, SeqCst);
            })
        };
        workers
            .into_iter()
            .for_each(|one| one.join().expect("it does not panic"));
        waiter.join().expect("it does not panic");
        assert!(is_over.load(SeqCst));
        assert_eq!(table.read()[0], 12 * 40 / 5);
        let sum = *total.0.lock();
        (
            sum,
            simulation::now().expect("it is simulated"),
            simulation::report(5),
        )
    })
}

/// A counter that was made for a machine with few cores is the counter-example.
#[test]
fn as_many_threads_as_cores_have_shards_of_their_own() {
    let shards = |cores| simulation::run(&machine(), cores, crate::shards);
    assert_eq!([2, 64, 201, 5000].map(shards), [64, 64, 256, 1024]);
    let moved = |counter: OnceLock<Counter>| {
        let report = on_threads(200, move |_| {
            let counter = counter.get_or_init(|| Counter::new(0));
            (0..100).for_each(|_| counter.add(1));
        });
        let is_count = |line: &&HotLine| line.kind.contains("AtomicI64");
        report.hottest.iter().filter(is_count).count()
    };
    assert_eq!(moved(OnceLock::new()), 0);
    assert!(moved(Counter::new(0).into()) > 0);
}

#[test]
fn runs_repeat() {
    for cores in [1, 3, 16] {
        assert_eq!(mixture(cores), mixture(cores), "{cores} cores");
    }
}

#[test]
fn threads_share_cores_in_time_slices() {
    let work = |cores: usize| {
        simulation::run(&machine(), cores, || {
            let begin = simulation::now().expect("it is simulated");
            let threads = (0..4).map(|_| {
                thread::spawn(|| {
                    (0..100).for_each(|_| simulation::work(100_000_000));
                })
            });
            let threads: Vec<_> = threads.collect();
            threads
                .into_iter()
                .for_each(|one| one.join().expect("it does not panic"));
            (simulation::now().expect("it is simulated") - begin).as_micros()
        })
    };
    // Four threads of 10 ms each; a switch of a core costs 1 µs in 3 ms.
    let (one, two, four) = (work(1), work(2), work(5));
    assert!((40_000..40_200).contains(&one), "{one}");
    assert!((20_000..20_200).contains(&two), "{two}");
    assert!((10_000..10_100).contains(&four), "{four}");
}

#[test]
fn work_takes_longer_while_another_core_is_busy() {
    const ACCESSES: u64 = 100;
    const ALONE: u64 = 1_000_000;
    let took = |threads| {
        let times = Arc::new(Mutex::new(Rank::Queue, Vec::new()));
        let found = times.clone();
        on_threads(threads, move |_| {
            let own = Apart(AtomicU64::new(0));
            simulation::set_work_per_access(ALONE, 2 * ALONE);
            let begin = simulation::now().expect("it is simulated");
            (0..ACCESSES).for_each(|_| _ = own.0.load(SeqCst));
            let end = simulation::now().expect("it is simulated");
            simulation::set_work_per_access(0, 0);
            found.lock().push((end - begin).as_nanos() as u64);
        });
        let times = times.lock();
        times.iter().copied().max().expect("a thread")
    };
    let of = |work: u64| ACCESSES * (work + HIT) / 1000;
    assert_eq!(took(1), of(ALONE));
    assert!(took(2) > of(ALONE) * 3 / 2);
}

#[test]
fn a_lock_costs_its_line_and_a_wait_a_wake_up() {
    let lock = Arc::new(Mutex::new(Rank::Queue, [0u64; 16]));
    let report = on_threads(2, move |index| {
        let mut held = lock.lock();
        held[0] += 1;
        // Longer than a waiter spins.
        simulation::work(if index == 0 { 100_000_000 } else { 0 });
    });
    assert!(report.far > 0);
    let end = simulation::run(&machine(), 3, || {
        let lock = Arc::new(Mutex::new(Rank::Queue, ()));
        let held = lock.lock();
        let other = lock.clone();
        let waiter = thread::spawn(move || {
            drop(other.lock());
            simulation::now().expect("it is simulated")
        });
        simulation::work(100_000_000);
        drop(held);
        let released = simulation::now().expect("it is simulated");
        waiter.join().expect("it does not panic") - released
    });
    // The latency of the wake-up, then the transfer of the lock's line, twice at most.
    let least = Duration::from_nanos(5_000);
    assert!(
        end >= least && end < least + Duration::from_nanos(500),
        "{end:?}"
    );
}

#[test]
fn code_outside_of_a_simulation_runs_as_ever() {
    let lock = Arc::new(Mutex::new(Rank::Queue, 0));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let lock = lock.clone();
            thread::spawn(move || (0..1000).for_each(|_| *lock.lock() += 1))
        })
        .collect();
    threads
        .into_iter()
        .for_each(|one| one.join().expect("it does not panic"));
    assert_eq!(*lock.lock(), 4000);
    assert!(!simulation::is_running() && simulation::now().is_none());
}
