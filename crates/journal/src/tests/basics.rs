//! Tests of each step of the protocol, with an inline journal.

use super::device::Recorder;
use super::objects::{BLOCK, Block, LOG_AT, Slot, block_of, config, disk, log};
use crate::recovery::{RecoveryMode, needs_recovery, recover};
use crate::{CommitObserver, Config, Error, FailedWrite, Journal, Object};
use std::sync::Arc;
use uext4_format::{BlockNr, Tid};
use uext4_sync::{Mutex, Rank};

const LOG: u32 = 64;

fn open(device: &Arc<Recorder>) -> Arc<Journal> {
    Journal::open(config(device, LOG)).expect("opens")
}

fn recovered(device: &Arc<Recorder>) -> Vec<u8> {
    let again = Recorder::new(device.bytes());
    let home = Arc::clone(&again) as _;
    recover(&log(&again, LOG), &home, BLOCK as u32, RecoveryMode::Replay).expect("replays");
    again.bytes()
}

fn set(journal: &Journal, block: &Arc<Block>, byte: u8) {
    let handle = journal.start(2).expect("starts");
    handle.write(block).bytes.fill(byte);
}

#[test]
fn committed_is_replayed_and_uncommitted_is_not() {
    let device = Recorder::new(disk(200, LOG));
    let journal = open(&device);
    let (a, b) = (
        Block::new(100, vec![0; BLOCK]),
        Block::new(101, vec![0; BLOCK]),
    );
    set(&journal, &a, 1);
    set(&journal, &b, 1);
    journal.commit_running().expect("commits");
    set(&journal, &a, 2);
    assert_eq!(
        block_of(&device.bytes(), 100)[0],
        0,
        "home is written by checkpoints only"
    );
    let after = recovered(&device);
    assert_eq!((block_of(&after, 100)[0], block_of(&after, 101)[0]), (1, 1));
}

#[test]
fn a_transaction_has_a_quarter_of_the_log_or_what_memory_allows() {
    for (transaction_max_blocks, limit) in [(u32::MAX, LOG / 4), (LOG / 8, LOG / 8)] {
        let device = Recorder::new(disk(200, LOG));
        let journal = Journal::open(Config {
            transaction_max_blocks,
            ..config(&device, LOG)
        })
        .expect("opens");
        let stats = journal.stats();
        assert!(
            stats.transaction_limit_blocks.abs_diff(limit) <= 1,
            "{stats:?}"
        );
    }
}

/// Logs more revokes than the log can hold, in handles that log nothing else.
#[test]
fn revokes_use_up_a_transaction() {
    let device = Recorder::new(disk(200, LOG));
    let journal = open(&device);
    for handle in 0..100 {
        let started = journal.start(4).expect("starts");
        (0..200).for_each(|nr| started.revoke(BlockNr(1000 + handle * 200 + nr)));
    }
    journal.commit_running().expect("commits");
    let limit = journal.stats().transaction_limit_blocks;
    assert!(journal.stats().transactions > 100 * 200 / 125 / u64::from(limit));
}

/// Without a log and with failed writes: blocks in memory only are not reported as durable.
#[test]
fn what_is_late_is_read_from_memory_and_written_later() {
    let device = Recorder::new(disk(200, LOG));
    let config = Config {
        log: None,
        failed_write: FailedWrite::Continue,
        ..config(&device, LOG)
    };
    let journal = Journal::open(config).expect("opens");
    let blocks = [100, 101, 102].map(|nr| Block::new(nr, vec![0; BLOCK]));
    device.fail_after(device.len());
    for (byte, block) in (1..).zip(&blocks) {
        set(&journal, block, byte);
        let unwritten = journal.commit_running();
        assert!(
            matches!(unwritten, Err(Error::Unwritten { .. })),
            "{unwritten:?}"
        );
    }
    set(&journal, &blocks[0], 9);
    let first = journal.running();
    assert!(journal.wait_durable(first).is_err());
    assert_eq!(journal.read_block(BlockNr(100)).expect("reads")[0], 9);
    {
        let handle = journal.start(1).expect("starts");
        handle.forget(&blocks[1], BlockNr(101));
    }
    device.fail_after(usize::MAX);
    journal.commit_running().expect("the device takes it now");
    journal.wait_durable(first).expect("it is durable");
    let now = device.bytes();
    let on_device = [100, 101, 102].map(|nr| block_of(&now, nr)[0]);
    assert_eq!(on_device, [9, 0, 3], "what was freed is left alone");
    assert_eq!(journal.stats().waiting_blocks, 0);
    let events = device.len();
    journal.commit_running().expect("nothing to do");
    assert_eq!(device.len(), events);
    journal.close().expect("closes");
}

#[test]
fn close_brings_everything_home_and_leaves_a_clean_log() {
    let device = Recorder::new(disk(200, LOG));
    let journal = open(&device);
    let a = Block::new(100, vec![0; BLOCK]);
    set(&journal, &a, 7);
    journal.close().expect("closes");
    assert_eq!(block_of(&device.bytes(), 100), [7; BLOCK]);
    assert!(!needs_recovery(&log(&device, LOG), BLOCK as u32).expect("reads"));
    assert!(matches!(journal.start(1), Err(Error::Closed)));
    let next = open(&device);
    assert_eq!(next.running(), Tid(2), "the sequence goes on");
    set(&next, &a, 8);
    next.commit_running().expect("commits");
    drop(next);
    assert!(matches!(
        Journal::open(config(&device, LOG)),
        Err(Error::NeedsRecovery)
    ));
    assert_eq!(block_of(&recovered(&device), 100), [8; BLOCK]);
}

#[test]
fn an_object_is_rendered_once_per_transaction_for_the_right_one() {
    let device = Recorder::new(disk(200, LOG));
    let journal = open(&device);
    let a = Block::new(100, vec![0; BLOCK]);
    (1..=50).for_each(|byte| set(&journal, &a, byte));
    assert_eq!(a.live().dirty_tid(), Some(journal.running()));
    journal.commit_running().expect("commits");
    assert!(!a.live().is_dirty());
    assert_eq!(a.live().read().renders, 1);
    assert_eq!(Arc::strong_count(&a), 1, "durable objects may be evicted");
    assert_eq!(
        &journal.read_block(BlockNr(100)).expect("reads")[..],
        [50; BLOCK]
    );
}

#[test]
fn patches_merge_with_the_newest_image() {
    let device = Recorder::new(disk(200, LOG));
    let journal = open(&device);
    let whole = Block::new(100, vec![9; BLOCK]);
    set(&journal, &whole, 9);
    journal.commit_running().expect("commits");
    let slots: Vec<_> = (0..4)
        .map(|i| Slot::new(100 + i % 2, 8 * i as usize))
        .collect();
    for (i, slot) in slots.iter().enumerate() {
        let handle = journal.start(1).expect("starts");
        handle.write(slot).value = 0x0101_0101_0101_0101 * (i as u64 + 1);
    }
    journal.commit_running().expect("commits");
    let image = journal.read_block(BlockNr(100)).expect("reads");
    assert_eq!((image[0], image[8], image[16], image[24]), (1, 9, 3, 9));
    let image = journal.read_block(BlockNr(101)).expect("reads");
    assert_eq!((image[0], image[8], image[16], image[24]), (0, 2, 0, 4));
}

#[test]
fn a_forgotten_block_is_revoked_and_stays_away_from_home() {
    let device = Recorder::new(disk(200, LOG));
    let journal = open(&device);
    let a = Block::new(100, vec![0; BLOCK]);
    set(&journal, &a, 1);
    journal.commit_running().expect("commits");
    let handle = journal.start(1).expect("starts");
    handle.write(&a).bytes.fill(2);
    handle.forget(&a, BlockNr(100));
    drop(handle);
    journal.commit_running().expect("commits");
    assert_eq!(journal.stats().revoked_blocks, 1);
    assert_eq!(
        block_of(&recovered(&device), 100)[0],
        0,
        "neither 1 nor 2 comes back"
    );
    journal.close().expect("closes");
    assert_eq!(block_of(&device.bytes(), 100)[0], 0);
}

#[test]
fn relogging_cancels_the_revoke() {
    let device = Recorder::new(disk(200, LOG));
    let journal = open(&device);
    let a = Block::new(100, vec![0; BLOCK]);
    set(&journal, &a, 1);
    let handle = journal.start(1).expect("starts");
    handle.forget(&a, BlockNr(100));
    let b = Block::new(100, vec![0; BLOCK]);
    handle.write(&b).bytes.fill(3);
    drop(handle);
    journal.commit_running().expect("commits");
    assert_eq!(journal.stats().revoked_blocks, 0);
    assert_eq!(block_of(&recovered(&device), 100)[0], 3);
}

#[test]
fn images_that_start_with_the_magic_survive() {
    let device = Recorder::new(disk(200, LOG));
    let journal = open(&device);
    let a = Block::new(100, vec![0; BLOCK]);
    let handle = journal.start(1).expect("starts");
    handle.write(&a).bytes[..4].copy_from_slice(&[0xC0, 0x3B, 0x39, 0x98]);
    drop(handle);
    journal.commit_running().expect("commits");
    let stored = block_of(&device.bytes(), LOG_AT + 2)[..4].to_vec();
    assert_eq!(
        stored, [0; 4],
        "the image in the log does not look like a header"
    );
    assert_eq!(
        block_of(&recovered(&device), 100)[..4],
        [0xC0, 0x3B, 0x39, 0x98]
    );
}

#[test]
fn full_transactions_commit_and_the_log_wraps() {
    let device = Recorder::new(disk(400, LOG));
    let journal = open(&device);
    let blocks: Vec<_> = (100..150)
        .map(|nr| Block::new(nr, vec![0; BLOCK]))
        .collect();
    for round in 1..=9 {
        blocks.iter().for_each(|block| set(&journal, block, round));
    }
    let stats = journal.stats();
    assert!(
        stats.transactions > 20 && stats.checkpointed_blocks > 100,
        "{stats:?}"
    );
    journal.commit_running().expect("commits");
    let after = recovered(&device);
    (100..150).for_each(|nr| assert_eq!(block_of(&after, nr)[0], 9));
    let limit = journal.stats().transaction_limit_blocks;
    assert!(matches!(
        journal.start(limit + 1),
        Err(Error::TooManyCredits { .. })
    ));
}

/// A commit is two writes and a flush; where its body wraps around at the end of the log, three.
#[test]
fn a_commit_writes_its_body_at_once_and_its_commit_block_durably() {
    const BLOCKS: usize = 5;
    let device = Recorder::new(disk(64, 32));
    let journal = open(&device);
    let blocks = [41, 43, 45].map(|nr| Block::new(nr, vec![0; BLOCK]));
    let mut bodies = Vec::new();
    for byte in 1..=12 {
        let from = device.len();
        blocks.iter().for_each(|block| set(&journal, block, byte));
        journal.commit_running().expect("commits");
        let all = device.kinds(from);
        let at = all.iter().position(|kind| kind.0 == "durable");
        let at = at.expect("a commit block");
        assert_eq!(all[at - 1..=at], [("flush", 0), ("durable", BLOCK)]);
        bodies.push(all[..at - 1].to_vec());
    }
    let (whole, others): (Vec<_>, Vec<_>) = bodies[1..]
        .iter()
        .partition(|body| ***body == [("write", BLOCKS * BLOCK)]);
    assert!(whole.len() >= 8, "{others:?}");
    for body in others {
        let parts: Vec<_> = body.iter().filter(|kind| kind.0 == "write").collect();
        let bytes: usize = parts.iter().map(|kind| kind.1).sum();
        assert_eq!((parts.len(), bytes), (2, BLOCKS * BLOCK), "wraps around");
    }
    assert_eq!(bodies[0].len(), 2, "the superblock marks the log as in use");
}

#[test]
fn a_transaction_larger_than_its_credits_still_commits() {
    let device = Recorder::new(disk(400, LOG));
    let journal = open(&device);
    let handle = journal.start(1).expect("starts");
    for nr in 200..240 {
        handle.write(&Block::new(nr, vec![5; BLOCK])).bytes[0] = 6;
    }
    drop(handle);
    journal.commit_running().expect("commits");
    assert_eq!(block_of(&recovered(&device), 239)[..2], [6, 5]);
}

#[test]
fn a_failed_write_stops_the_journal_for_all() {
    let device = Recorder::new(disk(200, LOG));
    let told = Arc::new(Told::default());
    let mut config = config(&device, LOG);
    config.observer = Arc::clone(&told) as _;
    let journal = Journal::open(config).expect("opens");
    let a = Block::new(100, vec![0; BLOCK]);
    set(&journal, &a, 1);
    journal.commit_running().expect("commits");
    set(&journal, &a, 2);
    device.fail_after(device.len());
    let events = device.len();
    assert!(matches!(journal.commit_running(), Err(Error::Device(_))));
    assert!(matches!(journal.start(1), Err(Error::Aborted { .. })));
    assert!(matches!(journal.close(), Err(Error::Aborted { .. })));
    assert_eq!(device.len(), events, "nothing more is written");
    assert_eq!(*told.0.lock(), ["committed 1", "aborted"]);
}

#[test]
fn without_a_log_commits_go_home() {
    let device = Recorder::new(disk(200, LOG));
    let journal = Journal::open(Config::new(Arc::clone(&device) as _, BLOCK as u32)).expect("open");
    let a = Block::new(100, vec![0; BLOCK]);
    set(&journal, &a, 4);
    let slot = Slot::new(101, 16);
    journal.start(1).expect("starts").write(&slot).value = !0;
    journal.commit_running().expect("commits");
    assert_eq!(block_of(&device.bytes(), 100), [4; BLOCK]);
    assert_eq!(block_of(&device.bytes(), 101)[15..17], [0, 255]);
    journal.close().expect("closes");
}

#[test]
fn a_restarted_handle_lets_the_transaction_end() {
    let device = Recorder::new(disk(200, LOG));
    let journal = open(&device);
    let mut handle = journal.start(15).expect("starts");
    let first = handle.tid();
    for nr in 0..40 {
        handle.write(&Block::new(100 + nr, vec![1; BLOCK])).bytes[0] = 2;
        handle.restart(15).expect("restarts");
    }
    assert!(handle.tid().is_after(first));
}

#[derive(Default)]
struct Told(ToldList);

struct ToldList(Mutex<Vec<String>>);

impl Default for ToldList {
    fn default() -> Self {
        ToldList(Mutex::new(Rank::Queue, Vec::new()))
    }
}

impl std::ops::Deref for ToldList {
    type Target = Mutex<Vec<String>>;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl CommitObserver for Told {
    fn committed(&self, tid: Tid) {
        self.0.lock().push(format!("committed {tid}"));
    }
    fn aborted(&self, _cause: &Error) {
        self.0.lock().push("aborted".into());
    }
}

#[test]
fn neighbours_in_one_block_are_charged_once_per_transaction() {
    let device = Recorder::new(disk(200, LOG));
    let journal = open(&device);
    let slots = [(100, 0), (100, 8), (101, 0), (101, 8), (100, 16)];
    let slots: Vec<_> = slots.iter().map(|(nr, at)| Slot::new(*nr, *at)).collect();
    for _ in 0..2 {
        let handle = journal.start(8).expect("starts");
        let left = |slot: &Arc<Slot>| {
            handle.write(slot).value += 1;
            handle.credits_left()
        };
        let left: Vec<u32> = slots.iter().map(left).collect();
        assert_eq!(left, [7, 7, 6, 6, 6]);
        drop(handle);
        journal.commit_running().expect("commits");
    }
    let mut part = [0; 8];
    for (block, at) in [(100, 16), (101, 8)] {
        journal
            .read_part(BlockNr(block), at, &mut part)
            .expect("reads");
        assert_eq!(u64::from_le_bytes(part), 2);
    }
    journal.close().expect("closes");
    journal
        .read_part(BlockNr(101), 0, &mut part)
        .expect("reads");
    assert_eq!(u64::from_le_bytes(part), 2);
}
