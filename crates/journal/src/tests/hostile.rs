//! Damaged and hostile logs end in an error or a shorter replay, never a panic or a stray write.

use super::device::Recorder;
use super::objects::{BLOCK, Block, LOG_AT, block_of, config, disk, fast_config, log};
use crate::recovery::{
    FastCommitArea, RecoveryMode, mark_clean, needs_recovery, read_fast_commit_block, recover,
};
use crate::{Checksums, Config, Error, Journal, Log, LogRun};
use std::sync::Arc;
use uext4_format::jbd2::{BlockType, Header, Layout, RevokeWriter, Superblock};
use uext4_format::{BlockNr, Tid};
use uext4_sync::Rng;

const LOG: u32 = 64;

fn replay(
    device: &Arc<Recorder>,
    mode: RecoveryMode,
) -> Result<crate::recovery::RecoveryReport, Error> {
    recover(
        &log(device, LOG),
        &(Arc::clone(device) as _),
        BLOCK as u32,
        mode,
    )
}

/// A disk whose log holds three transactions, each with the blocks 100..105.
fn crashed(checksums: Checksums) -> Vec<u8> {
    let device = Recorder::new(disk(200, LOG));
    let mut config = config(&device, LOG);
    config.checksums = checksums;
    let journal = Journal::open(config).expect("opens");
    for round in 1..=3 {
        for nr in 100..105 {
            let handle = journal.start(1).expect("starts");
            handle
                .write(&Block::new(nr, vec![0; BLOCK]))
                .bytes
                .fill(round);
        }
        journal.start(1).expect("starts").revoke(BlockNr(150));
        journal.commit_running().expect("commits");
    }
    device.bytes()
}

#[test]
fn random_damage_never_panics() {
    let mut rng = Rng::new(3);
    for checksums in [Checksums::V3, Checksums::None] {
        let disk = crashed(checksums);
        for _ in 0..3000 {
            let mut bad = disk.clone();
            for _ in 0..=rng.below(4) {
                let at = BLOCK + rng.below(30 * BLOCK as u64) as usize;
                let at = if rng.chance(1, 2) {
                    at / BLOCK * BLOCK + at % 60
                } else {
                    at
                };
                bad[at] = rng.next_u64() as u8;
            }
            let mode = [
                RecoveryMode::Inspect,
                RecoveryMode::Replay,
                RecoveryMode::Salvage,
            ][rng.below(3) as usize];
            let device = Recorder::new(bad.clone());
            let result = replay(&device, mode);
            if result.is_err() || mode == RecoveryMode::Inspect {
                assert_eq!(device.len(), 0, "writes only what it is sure of");
            }
        }
    }
}

#[test]
fn a_damaged_image_stops_replay_before_it_writes() {
    let mut disk = crashed(Checksums::V3);
    disk[(LOG_AT as usize + 4) * BLOCK + 500] ^= 1; // an image of the first transaction
    let device = Recorder::new(disk);
    assert!(matches!(
        replay(&device, RecoveryMode::Replay),
        Err(Error::Corrupt(_))
    ));
    assert_eq!(device.len(), 0);
    let report = replay(&device, RecoveryMode::Salvage).expect("salvages");
    assert_eq!((report.damaged, report.written_blocks), (1, 5));
    assert_eq!(block_of(&device.bytes(), 104), [3; BLOCK]);
}

#[test]
fn a_torn_commit_block_ends_the_log() {
    let mut disk = crashed(Checksums::V3);
    disk[(LOG_AT as usize + 3 * 8) * BLOCK + 50] ^= 1; // the third commit block
    let device = Recorder::new(disk);
    let report = replay(&device, RecoveryMode::Replay).expect("replays");
    assert_eq!((report.first, report.end), (Tid(1), Tid(3)));
    assert_eq!(block_of(&device.bytes(), 100), [2; BLOCK]);
}

#[test]
fn images_outside_the_file_system_are_refused() {
    let device = Recorder::new(disk(200, LOG));
    let journal = Journal::open(config(&device, LOG)).expect("opens");
    let handle = journal.start(1).expect("starts");
    handle.write(&Block::new(1 << 40, vec![0; BLOCK])).bytes[0] = 1;
    drop(handle);
    journal.commit_running().expect("commits to the log");
    assert!(matches!(
        replay(&device, RecoveryMode::Replay),
        Err(Error::Corrupt(_))
    ));
}

#[test]
fn a_log_of_headers_without_end_does_not_loop() {
    let mut bytes = disk(200, LOG);
    let at = LOG_AT as usize * BLOCK;
    let mut superblock = Superblock::parse(&bytes[at..]).expect("own superblock");
    superblock.start = 5;
    bytes[at..at + 1024].copy_from_slice(&superblock.encode());
    for nr in 1..LOG as usize {
        let block = &mut bytes[at + nr * BLOCK..][..BLOCK];
        let block_type = [BlockType::Revoke, BlockType::Descriptor][nr % 2];
        Header {
            block_type,
            sequence: Tid(1),
        }
        .write(block);
    }
    let report = replay(&Recorder::new(bytes), RecoveryMode::Replay).expect("finds nothing");
    assert_eq!((report.end, report.images), (Tid(1), 0));
}

#[test]
fn fast_commits_keep_the_log_until_the_caller_is_done() {
    const LONG: u32 = 1400;
    let mut bytes = disk(1600, LONG);
    let at = LOG_AT as usize * BLOCK;
    bytes[at + 1145 * BLOCK] = 0x77;
    let device = Recorder::new(bytes);
    let journal = Journal::open(fast_config(&device, LONG)).expect("opens");
    let handle = journal.start(1).expect("starts");
    handle.write(&Block::new(1500, vec![0; BLOCK])).bytes[0] = 1;
    drop(handle);
    journal.commit_running().expect("commits");
    let (log, home) = (log(&device, LONG), Arc::clone(&device) as _);
    let report = recover(&log, &home, BLOCK as u32, RecoveryMode::Replay).expect("replays");
    let area = report.fast_commit.expect("the feature is set");
    assert_eq!(
        area,
        FastCommitArea {
            tid: Tid(2),
            first: 1145,
            end: 1400
        }
    );
    let first = read_fast_commit_block(&log, BLOCK as u32, &area, 0).expect("reads");
    assert_eq!(first.expect("is in the area")[0], 0x77);
    assert!(
        read_fast_commit_block(&log, BLOCK as u32, &area, 255)
            .expect("no read")
            .is_none()
    );
    assert!(needs_recovery(&log, BLOCK as u32).expect("reads"));
    mark_clean(&log, BLOCK as u32, &report).expect("writes");
    assert!(!needs_recovery(&log, BLOCK as u32).expect("reads"));
}

/// A log in several runs, out of order on its device.
#[test]
fn fragmented_external_logs_work() {
    let home = Recorder::new(vec![0; 200 * BLOCK]);
    let device = Recorder::new(vec![0; 300 * BLOCK]);
    let superblock = Superblock::new(BLOCK as u32, LOG, 3, *b"external journal");
    let run = |log_start, device_block, len| LogRun {
        log_start,
        device_block,
        len,
    };
    let log = Log {
        device: Arc::clone(&device) as _,
        runs: vec![run(0, 250, 10), run(10, 90, 1), run(11, 100, 53)],
        len_blocks: LOG,
        superblock: 2,
    };
    uext4_device::BlockDevice::write_at(&*device, 252 * BLOCK as u64, &superblock.encode())
        .expect("memory");
    let open = || {
        let mut config = Config::new(Arc::clone(&home) as _, BLOCK as u32);
        config.log = Some(log.clone());
        Journal::open(config)
    };
    let journal = open().expect("opens");
    let block = Block::new(7, vec![0; BLOCK]);
    for round in 1..=100 {
        let handle = journal.start(1).expect("starts");
        handle.write(&block).bytes.fill(round);
        drop(handle);
        journal.commit_running().expect("commits");
    }
    drop(journal);
    assert_ne!(block_of(&home.bytes(), 7)[0], 100);
    let report = recover(
        &log,
        &(Arc::clone(&home) as _),
        BLOCK as u32,
        RecoveryMode::Replay,
    );
    assert_eq!(report.expect("replays").end, Tid(101));
    assert_eq!(block_of(&home.bytes(), 7), [100; BLOCK]);
    open().expect("is clean").close().expect("closes");
}

#[test]
fn a_log_with_holes_is_an_error() {
    let device = Recorder::new(disk(200, LOG));
    let mut holes = log(&device, LOG);
    holes.runs = vec![LogRun {
        log_start: 0,
        device_block: LOG_AT,
        len: 1,
    }];
    let mut config = config(&device, LOG);
    config.log = Some(holes);
    let journal = Journal::open(config).expect("the superblock is there");
    let handle = journal.start(1).expect("starts");
    handle.write(&Block::new(100, vec![0; BLOCK])).bytes[0] = 1;
    drop(handle);
    assert!(matches!(journal.commit_running(), Err(Error::Corrupt(_))));
}

/// A revoke of transaction n covers images up to n, and none after.
#[test]
fn revokes_follow_the_order_of_transactions() {
    let device = Recorder::new(disk(200, LOG));
    let journal = Journal::open(config(&device, LOG)).expect("opens");
    let write = |byte| {
        let handle = journal.start(1).expect("starts");
        handle
            .write(&Block::new(100, vec![0; BLOCK]))
            .bytes
            .fill(byte);
    };
    write(1);
    journal.commit_running().expect("commits");
    journal.start(1).expect("starts").revoke(BlockNr(100));
    journal.commit_running().expect("commits");
    let after = Recorder::new(device.bytes());
    assert_eq!(
        replay(&after, RecoveryMode::Replay)
            .expect("replays")
            .revoked,
        1
    );
    assert_eq!(block_of(&after.bytes(), 100), [0; BLOCK]);
    write(3);
    journal.commit_running().expect("commits");
    let report = replay(&device, RecoveryMode::Replay).expect("replays");
    assert_eq!((report.images, report.revoked), (2, 1));
    assert_eq!(block_of(&device.bytes(), 100), [3; BLOCK]);
    let layout = Layout::new(BLOCK, uext4_format::jbd2::ChecksumKind::V3, true, &[0; 16]);
    assert!(RevokeWriter::capacity(&layout) > 100);
}
