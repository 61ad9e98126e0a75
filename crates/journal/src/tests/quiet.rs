//! Tests of quiesce and resume.

use super::device::Recorder;
use super::objects::{BLOCK, Block, block_of, config, disk, log};
use crate::recovery::{HomeOrder, RecoveryMode, commit_to_clean, needs_recovery, recover};
use crate::{Config, Error, FastCommits, Image, Journal, Start, Threads};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use uext4_format::BlockNr;
use uext4_sync::Rng;

const LOG: u32 = 64;

fn set(journal: &Journal, block: &Arc<Block>, byte: u8) -> Result<(), Error> {
    let handle = journal.start(2)?;
    handle.write(block).bytes.fill(byte);
    Ok(())
}

fn is_clean(device: &Arc<Recorder>) -> bool {
    !needs_recovery(&log(device, LOG), BLOCK as u32).expect("reads")
}

#[test]
fn threads_wait_while_the_journal_is_quiet() {
    let device = Recorder::new(disk(200, LOG));
    let journal = Journal::open(Config {
        threads: Threads::Background,
        commit_interval: Duration::from_millis(1),
        ..config(&device, LOG)
    })
    .expect("opens");
    let blocks: Vec<_> = (0..4)
        .map(|i| Block::new(100 + i, vec![0; BLOCK]))
        .collect();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for block in &blocks {
            scope.spawn(|| {
                let mut byte = 0u8;
                while !done.load(Ordering::SeqCst) {
                    byte = byte.wrapping_add(1);
                    set(&journal, block, byte).expect("starts");
                }
            });
        }
        for _ in 0..20 {
            journal.quiesce().expect("comes to rest");
            let before = device.bytes();
            assert!(is_clean(&device));
            journal.commit_running().expect("a sync does not hang");
            for (i, block) in blocks.iter().enumerate() {
                let byte = block_of(&before, 100 + i as u64)[0];
                assert_eq!(block.live_byte(), byte, "what was logged is home");
            }
            assert_eq!(device.bytes(), before, "nothing changes at rest");
            journal.resume();
        }
        done.store(true, Ordering::SeqCst);
    });
    journal.close().expect("closes");
    assert!(is_clean(&device));
}

/// The caller gives its claim on the device back behind it.
#[test]
fn no_thread_writes_behind_a_close_that_failed() {
    let device = Recorder::new(disk(200, LOG));
    let journal = Journal::open(Config {
        threads: Threads::Background,
        ..config(&device, LOG)
    })
    .expect("opens");
    let block = Block::new(100, vec![0; BLOCK]);
    set(&journal, &block, 1).expect("starts");
    device.fail_after(device.len());
    assert!(journal.close().is_err());
    assert!(journal.is_over());
    device.fail_after(usize::MAX);
    let before = device.len();
    assert!(set(&journal, &block, 2).is_err());
    assert!(journal.commit_running().is_err());
    assert_eq!(device.len(), before);
}

#[test]
fn a_quiet_journal_takes_a_log_later() {
    let device = Recorder::new(disk(200, LOG));
    let with_log = config(&device, LOG);
    let (checksums, width) = (with_log.checksums, with_log.width);
    let journal = Journal::open(Config {
        log: None,
        start: Start::Quiet,
        ..with_log
    })
    .expect("opens");
    journal
        .attach(&log(&device, LOG), checksums, width, FastCommits::Never)
        .expect("a clean log");
    journal.resume();
    let block = Block::new(100, vec![0; BLOCK]);
    set(&journal, &block, 5).expect("starts");
    journal.commit_running().expect("commits");
    assert!(!is_clean(&device), "the log is used");
    assert_eq!(
        block_of(&device.bytes(), 100),
        [0; BLOCK],
        "and home is not"
    );
    journal.quiesce().expect("comes to rest");
    assert_eq!(block_of(&device.bytes(), 100), [5; BLOCK]);
    assert!(is_clean(&device));
}

#[test]
fn a_journal_opened_quiet_serves_waits_and_starts_later() {
    let device = Recorder::new(disk(200, LOG));
    let journal = Journal::open(Config {
        threads: Threads::Background,
        start: Start::Quiet,
        ..config(&device, LOG)
    })
    .expect("opens");
    journal.commit_running().expect("without a commit thread");
    journal.resume();
    let block = Block::new(100, vec![0; BLOCK]);
    set(&journal, &block, 9).expect("starts");
    journal.commit_running().expect("commits");
    assert!(!is_clean(&device));
    journal.close().expect("closes");
    assert_eq!(block_of(&device.bytes(), 100), [9; BLOCK]);
}

#[test]
fn closing_a_quiet_journal_ends_the_waiters() {
    let device = Recorder::new(disk(200, LOG));
    let journal = Journal::open(config(&device, LOG)).expect("opens");
    journal.quiesce().expect("comes to rest");
    std::thread::scope(|scope| {
        let block = Block::new(100, vec![0; BLOCK]);
        let journal = &journal;
        let waiting = scope.spawn(move || set(journal, &block, 1));
        journal.close().expect("closes");
        assert!(matches!(
            waiting.join().expect("no panic"),
            Err(Error::Closed)
        ));
    });
}

/// Blocks 100 and 101 are filled with numbers that grow, by the journal and by the other writer.
#[test]
fn it_goes_on_behind_what_another_writer_logged_meanwhile() {
    let device = Recorder::new(disk(200, LOG));
    let journal = Journal::open(config(&device, LOG)).expect("opens");
    let block = Block::new(100, vec![0; BLOCK]);
    let mut durable = Vec::new();
    for round in 1..=4u8 {
        set(&journal, &block, round).expect("starts");
        journal.commit_running().expect("commits");
        durable.push((device.len(), [round, round - 1]));
        journal.quiesce().expect("comes to rest");
        let images = vec![(BlockNr(101), Image::from(vec![round; BLOCK]))];
        let home = Arc::clone(&device) as _;
        let order = HomeOrder::default();
        commit_to_clean(&log(&device, LOG), &home, BLOCK as u32, images, &order, 7).expect("logs");
        durable.push((device.len(), [round, round]));
        journal.skip_foreign().expect("reads the log");
        journal.resume();
    }
    set(&journal, &block, 5).expect("starts");
    journal.commit_running().expect("commits");
    durable.push((device.len(), [5, 4]));
    let mut rng = Rng::new(1);
    for cut in 0..=device.len() {
        let crashed = Recorder::new(device.crash(cut, &mut rng));
        let home = Arc::clone(&crashed) as _;
        let mode = RecoveryMode::Replay;
        recover(&log(&crashed, LOG), &home, BLOCK as u32, mode).expect("a sound log");
        let promised = durable.iter().rev().find(|(events, _)| *events <= cut);
        for (nr, least) in promised.iter().flat_map(|(_, least)| (100..).zip(least)) {
            let found = block_of(&crashed.bytes(), nr).to_vec();
            let is_one = found.iter().all(|byte| *byte == found[0]);
            assert!(
                is_one && found[0] >= *least,
                "cut {cut}, block {nr}: {}",
                found[0]
            );
        }
    }
}
