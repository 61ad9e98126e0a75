//! Fast commits: what they write, when they are refused, and which changes they cover.

use super::device::Recorder;
use super::objects::{BLOCK, Slot, disk, fast_config, log};
use crate::log_file::LogFile;
#[cfg(not(shuttle))]
use crate::progress::CommitKind;
use crate::recovery::{RecoveryMode, read_fast_commit_block, recover};
use crate::{Config, FullReason, Journal, Live, Object, Render, Sink, Threads};
use std::sync::Arc;
use uext4_format::fast_commit::{Record, Scan, Verdict};
use uext4_format::{BlockNr, InodeNr, Tid};
use uext4_sync::{Rank, thread};

const LOG: u32 = 1400;
/// Blocks of the area.
const AREA: usize = 255;
const SLOT_AT: u64 = 1500;

/// A number with a record of its own.
struct Number {
    live: Live<NumberState>,
}

struct NumberState {
    nr: usize,
    value: u64,
}

impl Render for NumberState {
    const RANK: Rank = Rank::InodeState;
    fn render(&mut self, out: &mut Sink<'_>) {
        out.patch(BlockNr(SLOT_AT), 8 * self.nr, &self.value.to_le_bytes());
    }
    fn record_key(&self) -> Option<u64> {
        Some(self.nr as u64)
    }
}

impl Object for Number {
    type State = NumberState;
    fn live(&self) -> &Live<NumberState> {
        &self.live
    }
}

impl Number {
    fn new(nr: usize) -> Arc<Number> {
        let live = Live::new(NumberState { nr, value: 0 });
        Arc::new(Number { live })
    }

    fn set(self: &Arc<Self>, journal: &Journal, value: u64) {
        let handle = journal.start(1).expect("starts");
        handle.promise_records();
        handle.write(self).value = value;
    }

    fn record(&self) -> Record {
        let state = self.live.read();
        let mut raw = vec![0; 128];
        raw[..8].copy_from_slice(&state.value.to_le_bytes());
        Record::Inode {
            inode: InodeNr(state.nr as u32),
            raw: raw.into(),
        }
    }

    /// Makes it durable, with records of those of `all` that changed.
    fn sync(&self, journal: &Journal, all: &[Arc<Number>]) {
        let change = self.live.stamp().expect("is dirty");
        let mut make = |_: Tid, mut keys: Vec<u64>| {
            keys.sort_unstable();
            Ok(keys.iter().map(|key| all[*key as usize].record()).collect())
        };
        journal
            .make_durable(change, &Vec::new, &mut make)
            .expect("durable");
    }
}

/// A journal after its first full commit, and numbers from 0 on.
fn open(threads: Threads) -> (Arc<Recorder>, Arc<Journal>, Vec<Arc<Number>>) {
    let device = Recorder::new(disk(1600, LOG));
    let journal = Journal::open(Config {
        threads,
        ..fast_config(&device, LOG)
    })
    .expect("opens");
    let numbers: Vec<_> = (0..8).map(Number::new).collect();
    numbers[7].set(&journal, 1);
    journal.commit_running().expect("commits");
    (device, journal, numbers)
}

/// Records of the area after a crash.
fn recovered(device: &Arc<Recorder>) -> Vec<Record> {
    let device = Recorder::new(device.bytes());
    let (log, home) = (log(&device, LOG), Arc::clone(&device) as _);
    let report = recover(&log, &home, BLOCK as u32, RecoveryMode::Replay).expect("replays");
    let area = report.fast_commit.expect("the log has an area");
    let mut scan = Scan::new(area.tid, 256);
    for index in 0.. {
        let block = read_fast_commit_block(&log, BLOCK as u32, &area, index).expect("reads");
        let Some(block) = block else { break };
        if scan.push(&block) == Verdict::Ends {
            break;
        }
    }
    scan.into_records()
}

fn full(journal: &Journal, reason: FullReason) -> u64 {
    let place = FullReason::ALL.iter().position(|other| *other == reason);
    journal.stats().fast.full[place.expect("is one of all")]
}

#[test]
fn rounds_add_up_until_a_full_commit() {
    let (device, journal, numbers) = open(Threads::Inline);
    assert!(recovered(&device).is_empty());
    numbers[0].set(&journal, 5);
    numbers[1].set(&journal, 6);
    numbers[0].sync(&journal, &numbers);
    let mut records = vec![numbers[0].record(), numbers[1].record()];
    assert_eq!(recovered(&device), records);
    // The other one was in the same fast commit: only a flush is missing.
    let before = journal.stats().fast.commits;
    numbers[1].sync(&journal, &numbers);
    assert_eq!(journal.stats().fast.commits, before);
    numbers[1].set(&journal, 7);
    numbers[1].sync(&journal, &numbers);
    records.push(numbers[1].record());
    assert_eq!(recovered(&device), records);
    assert_eq!(journal.stats().transactions, 1);
    journal.commit_running().expect("commits");
    assert!(recovered(&device).is_empty(), "the log has them");
    assert_eq!(super::objects::block_of(&device.bytes(), SLOT_AT)[0], 0);
    numbers[2].set(&journal, 8);
    numbers[2].sync(&journal, &numbers);
    assert_eq!(recovered(&device), [numbers[2].record()]);
}

#[test]
fn an_operation_without_promise_needs_a_full_commit() {
    let (device, journal, numbers) = open(Threads::Inline);
    numbers[0].set(&journal, 5);
    drop(
        journal
            .start(1)
            .expect("starts")
            .write(&Slot::new(SLOT_AT, 99 * 8)),
    );
    numbers[0].sync(&journal, &numbers);
    assert!(recovered(&device).is_empty());
    assert_eq!(
        (
            full(&journal, FullReason::Other),
            journal.stats().transactions
        ),
        (1, 2)
    );
    // The next transaction is free of it.
    numbers[0].set(&journal, 6);
    numbers[0].sync(&journal, &numbers);
    assert_eq!(recovered(&device), [numbers[0].record()]);
}

#[test]
fn a_reason_outlasts_a_promise() {
    let (_device, journal, numbers) = open(Threads::Inline);
    let handle = journal.start(1).expect("starts");
    handle.require_full(FullReason::Orphan);
    handle.promise_records();
    handle.write(&numbers[0]).value = 3;
    drop(handle);
    numbers[0].sync(&journal, &numbers);
    assert_eq!(
        (
            full(&journal, FullReason::Orphan),
            full(&journal, FullReason::Other)
        ),
        (1, 0)
    );
}

#[test]
fn a_full_area_and_a_clean_log_need_a_full_commit() {
    let (device, journal, numbers) = open(Threads::Inline);
    for value in 0..2 * AREA as u64 {
        numbers[0].set(&journal, value);
        numbers[0].sync(&journal, &numbers);
        assert!(
            recovered(&device)
                .last()
                .is_none_or(|last| *last == numbers[0].record())
        );
    }
    assert!(full(&journal, FullReason::AreaFull) >= 2);
    journal.quiesce().expect("rests");
    journal.resume();
    numbers[0].set(&journal, 7);
    numbers[0].sync(&journal, &numbers);
    assert_eq!(full(&journal, FullReason::FirstCommit), 1);
}

#[test]
fn records_that_cannot_be_made_are_not_lost() {
    let (_device, journal, numbers) = open(Threads::Inline);
    numbers[0].set(&journal, 5);
    let change = numbers[0].live.stamp().expect("is dirty");
    let mut refuse = |_: Tid, _: Vec<u64>| Err(FullReason::TooMany);
    journal
        .make_durable(change, &Vec::new, &mut refuse)
        .expect("durable");
    assert_eq!(
        (
            full(&journal, FullReason::TooMany),
            journal.stats().transactions
        ),
        (1, 2)
    );
    assert!(numbers[0].live.stamp().is_none());
}

/// Values of the numbers after a crash.
fn values(device: &Arc<Recorder>) -> Vec<u64> {
    let crashed = device.bytes();
    let after = Recorder::new(crashed.clone());
    let (log, home) = (log(&after, LOG), Arc::clone(&after) as _);
    recover(&log, &home, BLOCK as u32, RecoveryMode::Replay).expect("replays");
    let bytes = after.bytes();
    let eight = |bytes: &[u8]| u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
    let slot = |nr: usize| eight(&bytes[SLOT_AT as usize * BLOCK + 8 * nr..]);
    let mut values: Vec<u64> = (0..8).map(slot).collect();
    for record in recovered(&Recorder::new(crashed)) {
        if let Record::Inode { inode, raw } = record {
            values[inode.0 as usize] = eight(&raw);
        }
    }
    values
}

/// Threads that change a number of their own and make it durable, beside full commits and changes
/// without records. A change is in the image of a crash once it is durable, by any thread.
pub(super) fn race(threads: Threads, rounds: u64) {
    let (device, journal, numbers) = open(threads);
    let changing = |nr: usize| {
        let (device, journal, numbers) = (device.clone(), journal.clone(), numbers.clone());
        thread::spawn(move || {
            for value in 1..=rounds {
                numbers[nr].set(&journal, value);
                if let Some(change) = numbers[nr].live.stamp() {
                    let mut make = |_: Tid, keys: Vec<u64>| {
                        let record = |key: &u64| numbers[*key as usize].record();
                        Ok(keys.iter().map(record).collect())
                    };
                    journal
                        .make_durable(change, &Vec::new, &mut make)
                        .expect("durable");
                } else {
                    journal.commit_running().expect("durable");
                }
                assert_eq!(values(&device)[nr], value);
            }
        })
    };
    let committing = {
        let (journal, numbers) = (journal.clone(), numbers.clone());
        thread::spawn(move || {
            for value in 1..=rounds {
                journal.start(1).expect("starts").write(&numbers[5]).value = value;
                journal.commit_running().expect("commits");
            }
        })
    };
    let running = [changing(0), changing(1), committing];
    running
        .into_iter()
        .for_each(|thread| thread.join().expect("no panic"));
    assert_eq!(values(&device)[..2], [rounds; 2]);
    journal.close().expect("closes");
}

/// While a fast commit is stuck, a caller comes that would do with another one, and one that needs
/// a full one.
#[cfg(not(shuttle))]
#[test]
fn the_commit_after_a_request_for_a_full_one_is_full() {
    let recorder = Recorder::new(disk(1600, LOG));
    let config = (fast_config(&recorder, LOG), LOG);
    let (journal, dam) = super::group::dammed_with(&recorder, true, config);
    let (journal, numbers) = (&journal, &(0..8).map(Number::new).collect::<Vec<_>>());
    numbers[7].set(journal, 1);
    journal.commit_running().expect("commits");
    let before = journal.stats();
    dam.close();
    std::thread::scope(|scope| {
        let sync = |nr: usize| {
            numbers[nr].set(journal, 1);
            numbers[nr].sync(journal, numbers);
        };
        scope.spawn(move || sync(0));
        dam.wait_for_flush();
        let wait_until = |waits: fn(&Journal) -> bool| {
            while !waits(journal) {
                thread::yield_now();
            }
        };
        scope.spawn(move || sync(1));
        wait_until(|journal| journal.next_commit().is_some());
        scope.spawn(|| journal.commit_running().expect("commits"));
        wait_until(|journal| journal.next_commit() == Some(CommitKind::Full));
        dam.open();
    });
    let after = journal.stats();
    assert_eq!(after.transactions, before.transactions + 1);
    assert_eq!(after.fast.commits, before.fast.commits + 1);
    journal.close().expect("closes");
}

#[cfg(not(shuttle))]
#[test]
fn threads_share_fast_commits() {
    race(Threads::Background, 60);
    race(Threads::Inline, 60);
}

/// e2fsck 1.47 loses what is behind the end of a log that wraps around.
#[test]
fn a_log_with_fast_commits_does_not_wrap() {
    let (device, journal, numbers) = open(Threads::Inline);
    let (len, mut restarts, mut before) = (journal.stats().log_len_blocks, 0, 0);
    for value in 0..2 * u64::from(len) {
        numbers[0].set(&journal, value);
        journal.commit_running().expect("commits");
        let superblock = LogFile::new(&log(&device, LOG), BLOCK as u32).read_superblock();
        let superblock = superblock.expect("a superblock");
        let used = len - journal.stats().log_free_blocks;
        let head = superblock.start + used;
        assert!(
            head <= superblock.end(),
            "{} and {used} blocks",
            superblock.start
        );
        restarts += u32::from(head < before);
        before = head;
    }
    assert!(restarts > 2, "{restarts}");
    numbers[1].set(&journal, 9);
    numbers[1].sync(&journal, &numbers);
    assert_eq!(recovered(&device), [numbers[1].record()]);
}
