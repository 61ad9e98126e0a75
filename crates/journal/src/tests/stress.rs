//! Stress test with background commits: operations are atomic, durable ones survive.

use super::device::Recorder;
use super::objects::{BLOCK, Block, Slot, block_of, config, disk, log};
use crate::recovery::{RecoveryMode, recover};
use crate::{Journal, Object, Threads};
use std::sync::Arc;
use std::time::Duration;
use uext4_format::BlockNr;
use uext4_sync::{Mutex, Rank, Rng, thread};

const LOG: u32 = 128;
const PAIRS: u64 = 64;
const THREADS: u64 = 6;

/// Pairs of counters that change together and are in different blocks.
fn pairs() -> Vec<(Arc<Slot>, Arc<Slot>)> {
    let place = |i: u64| (140 + i / 16, (i % 16 * 64) as usize);
    let pair = |i| {
        let (left, right) = (place(i), place(i + PAIRS));
        (Slot::new(left.0, left.1), Slot::new(right.0, right.1))
    };
    (0..PAIRS).map(pair).collect()
}

fn counter(bytes: &[u8], slot: &Slot) -> u64 {
    let state = slot.live().read();
    let at = &block_of(bytes, state.nr.0)[state.at..][..8];
    u64::from_le_bytes(at.try_into().expect("eight bytes"))
}

/// Reported durability, per thread: event, pair, value.
type Promises = Mutex<Vec<(usize, usize, u64)>>;

fn work(
    journal: &Journal,
    device: &Recorder,
    pairs: &[(Arc<Slot>, Arc<Slot>)],
    promises: &Promises,
    mut rng: Rng,
) {
    let own_nr = 200 + rng.below(50);
    let own = Block::new(own_nr, vec![0; BLOCK]);
    for n in 0..400 {
        let i = rng.below(PAIRS) as usize;
        let handle = journal.start(4).expect("starts");
        let (tid, value) = {
            let mut left = handle.write(&pairs[i].0);
            left.value += 1;
            let value = left.value;
            if rng.chance(1, 50) {
                thread::yield_now();
            }
            handle.write_nested(&pairs[i].1).value = value;
            (handle.tid(), value)
        };
        if n % 7 == 0 {
            handle.write(&own).bytes.fill(n as u8);
        } else if n % 50 == 1 {
            handle.forget(&own, BlockNr(own_nr));
        }
        drop(handle);
        if rng.chance(1, 12) {
            journal.wait_durable(tid).expect("commits");
            promises.lock().push((device.len(), i, value));
        }
    }
}

fn run(seed: u64, threads: Threads) {
    let device = Recorder::new(disk(300, LOG));
    let mut config = config(&device, LOG);
    config.threads = threads;
    config.commit_interval = Duration::from_millis(1);
    let journal = Journal::open(config).expect("opens");
    let (pairs, promises) = (pairs(), Mutex::new(Rank::Queue, Vec::new()));
    let mut rng = Rng::new(seed);
    thread::scope(|scope| {
        for _ in 0..THREADS {
            let (rng, device) = (rng.fork(), &*device);
            let (journal, pairs, promises) = (&journal, &pairs, &promises);
            scope.spawn(move || work(journal, device, pairs, promises, rng));
        }
    });
    let promises = promises.into_inner();
    assert!(promises.len() > 50, "commits were waited for");
    for _ in 0..60 {
        let cut = rng.below(device.len() as u64 + 1) as usize;
        let after = Recorder::new(device.crash(cut, &mut rng));
        let home = Arc::clone(&after) as _;
        recover(&log(&after, LOG), &home, BLOCK as u32, RecoveryMode::Replay).expect("replays");
        let after = after.bytes();
        for (i, (left, right)) in pairs.iter().enumerate() {
            let (left, right) = (counter(&after, left), counter(&after, right));
            assert_eq!(left, right, "seed {seed}, cut {cut}, pair {i}");
            let promised = promises
                .iter()
                .filter(|(at, pair, _)| *at <= cut && *pair == i);
            let promised = promised.map(|(_, _, value)| *value).max().unwrap_or(0);
            assert!(
                left >= promised,
                "seed {seed}, cut {cut}, pair {i}: {left} < {promised}"
            );
        }
    }
    journal.close().expect("closes");
    let home = device.bytes();
    for (left, right) in &pairs {
        assert_eq!(counter(&home, left), left.live().read().value);
        assert_eq!(counter(&home, right), right.live().read().value);
    }
}

#[test]
fn background_threads() {
    (0..4).for_each(|seed| run(seed, Threads::Background));
}

#[test]
fn inline_commits_from_many_threads() {
    (10..13).for_each(|seed| run(seed, Threads::Inline));
}

/// Unused credits of other handles are returned even if nothing was logged.
#[test]
fn unused_credits_do_not_block_an_empty_transaction() {
    for threads in [Threads::Background, Threads::Inline] {
        let device = Recorder::new(disk(300, LOG));
        let mut config = config(&device, LOG);
        config.threads = threads;
        config.commit_interval = Duration::from_secs(1000);
        let journal = Journal::open(config).expect("opens");
        let limit = journal.stats().transaction_limit_blocks;
        for _ in 0..10 {
            thread::scope(|scope| {
                let all = || drop(journal.start(limit).expect("starts"));
                scope.spawn(all);
                scope.spawn(all);
            });
        }
        assert_eq!(journal.stats().handles, 20);
        journal.close().expect("closes");
    }
}

#[test]
fn large_transactions_render_in_parallel() {
    let device = Recorder::new(disk(9000, 4000));
    let mut config = config(&device, 4000);
    config.threads = Threads::Background;
    config.commit_interval = Duration::from_secs(100);
    let journal = Journal::open(config).expect("opens");
    let slots: Vec<_> = (0..8000)
        .map(|i| Slot::new(5000 + i / 100, (i % 100 * 8) as usize))
        .collect();
    for (i, slot) in slots.iter().enumerate() {
        journal.start(0).expect("starts").write(slot).value = i as u64;
    }
    journal.commit_running().expect("commits");
    assert_eq!(journal.stats().image_blocks, 80);
    for i in [0, 99, 100, 4321, 7999] {
        let image = journal.read_block(BlockNr(5000 + i / 100)).expect("reads");
        let at = (i % 100 * 8) as usize;
        assert_eq!(image[at..at + 8], i.to_le_bytes());
    }
    journal.close().expect("closes");
}
