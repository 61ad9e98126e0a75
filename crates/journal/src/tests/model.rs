//! Model-checked schedules of the gate, the stamps and late rendering. Run with `RUSTFLAGS="--cfg
//! shuttle" cargo test -p uext4-journal model`.

use super::device::Recorder;
use super::objects::{BLOCK, Slot, block_of, config, disk, log};
use crate::recovery::{RecoveryMode, recover};
use crate::{Journal, Object, Threads};
use std::sync::Arc;
use uext4_sync::thread;

const LOG: u32 = 24;

/// Two counters of one pair, in different blocks.
type Pair = (Arc<Slot>, Arc<Slot>);

fn counter(bytes: &[u8], slot: &Slot) -> u64 {
    let nr = slot.live().read().nr.0;
    u64::from_le_bytes(block_of(bytes, nr)[..8].try_into().expect("eight bytes"))
}

fn bump(journal: &Journal, pair: &Pair) {
    let handle = journal.start(2).expect("starts");
    let mut left = handle.write(&pair.0);
    left.value += 1;
    let value = left.value;
    drop(left);
    // Another thread may write between the two, so keep the larger value.
    let mut right = handle.write(&pair.1);
    right.value = right.value.max(value);
}

fn assert_atomic(device: &Recorder, pair: &Pair) -> u64 {
    let after = Recorder::new(device.bytes());
    let home = Arc::clone(&after) as _;
    recover(&log(&after, LOG), &home, BLOCK as u32, RecoveryMode::Replay).expect("replays");
    let after = after.bytes();
    let (left, right) = (counter(&after, &pair.0), counter(&after, &pair.1));
    assert_eq!(left, right);
    left
}

fn race(threads: Threads) {
    let device = Recorder::new(disk(60, LOG));
    let mut config = config(&device, LOG);
    config.threads = threads;
    let journal = Journal::open(config).expect("opens");
    let pair = (Slot::new(50, 0), Slot::new(51, 0));
    let spawn = |commits: bool| {
        let (journal, device, pair) = (journal.clone(), device.clone(), pair.clone());
        thread::spawn(move || {
            bump(&journal, &pair);
            if commits {
                let tid = journal.running();
                journal.wait_durable(tid).expect("commits");
                assert!(assert_atomic(&device, &pair) >= 1);
            }
            bump(&journal, &pair);
        })
    };
    let running = [spawn(true), spawn(false), spawn(true)];
    running
        .into_iter()
        .for_each(|t| t.join().expect("no thread panics"));
    journal.commit_running().expect("commits");
    assert_eq!(assert_atomic(&device, &pair), 6);
    journal.close().expect("closes");
}

#[test]
fn operations_are_atomic_under_racing_commits() {
    shuttle::check_random(|| race(Threads::Inline), 2000);
}

#[test]
fn background_threads_lose_no_wake_up() {
    shuttle::check_random(|| race(Threads::Background), 1000);
}

/// Callers of a group commit: each leads a commit or waits for one, and its change is durable when
/// it returns. `beside` runs in a thread of its own.
fn group(threads: Threads, beside: fn(&Journal)) {
    let device = Recorder::new(disk(60, LOG));
    let mut config = config(&device, LOG);
    config.threads = threads;
    let journal = Journal::open(config).expect("opens");
    let caller = |nr: u64| {
        let (journal, device) = (journal.clone(), device.clone());
        thread::spawn(move || {
            let pair = (Slot::new(50 + nr, 0), Slot::new(54 + nr, 0));
            for value in 1..=2 {
                let handle = journal.start(2).expect("starts");
                handle.write(&pair.0).value = value;
                handle.write(&pair.1).value = value;
                let tid = handle.tid();
                drop(handle);
                journal.wait_durable(tid).expect("commits");
                assert_eq!(assert_atomic(&device, &pair), value);
            }
        })
    };
    let mut running: Vec<_> = (0..4).map(caller).collect();
    let other = journal.clone();
    running.push(thread::spawn(move || beside(&other)));
    running
        .into_iter()
        .for_each(|t| t.join().expect("no thread panics"));
    assert!(journal.stats().transactions <= 8);
    journal.close().expect("closes");
}

#[test]
fn callers_that_share_commits_lose_no_wake_up() {
    let nothing = |_: &Journal| ();
    shuttle::check_random(move || group(Threads::Inline, nothing), 300);
    shuttle::check_pct(move || group(Threads::Inline, nothing), 300, 3);
}

#[test]
fn callers_share_commits_beside_the_commit_thread_and_a_freeze() {
    fn ask(journal: &Journal) {
        for _ in 0..2 {
            journal.start(1).expect("starts").mark_sync();
            journal.commit_running().expect("commits");
        }
    }
    fn freeze(journal: &Journal) {
        for _ in 0..2 {
            journal.quiesce().expect("quiesces");
            journal.resume();
        }
    }
    for beside in [ask, freeze] {
        shuttle::check_random(move || group(Threads::Background, beside), 150);
        shuttle::check_pct(move || group(Threads::Background, beside), 150, 3);
    }
}

/// A thread that waits for a commit is woken when the journal closes.
#[test]
fn a_close_leaves_no_thread_waiting() {
    shuttle::check_random(
        || {
            let device = Recorder::new(disk(60, LOG));
            let mut config = config(&device, LOG);
            config.threads = Threads::Background;
            let journal = Journal::open(config).expect("opens");
            let slot = Slot::new(50, 0);
            let syncing = {
                let (journal, slot) = (journal.clone(), slot.clone());
                thread::spawn(move || {
                    let Ok(handle) = journal.start(1) else { return };
                    let tid = handle.tid();
                    handle.write(&slot).value += 1;
                    drop(handle);
                    let _durable_or_closed = journal.wait_durable(tid);
                })
            };
            journal.close().expect("closes");
            syncing.join().expect("no thread panics");
        },
        1000,
    );
}

/// Few preemptions at bad points: finds schedules that a random walk over 64 shards misses.
#[test]
fn a_stalled_starter_does_not_slip_into_a_closed_transaction() {
    shuttle::check_pct(|| race(Threads::Inline), 3000, 3);
}

#[test]
fn changes_are_durable_by_fast_and_full_commits() {
    shuttle::check_random(|| super::fast::race(Threads::Inline, 2), 500);
    shuttle::check_random(|| super::fast::race(Threads::Background, 2), 250);
}

#[test]
fn changes_are_durable_with_few_preemptions() {
    shuttle::check_pct(|| super::fast::race(Threads::Inline, 2), 500, 3);
}
