//! Fast commits become one transaction: after a crash at any write, the log has either the same
//! fast commits or that transaction.

use super::device::Recorder;
use super::objects::{BLOCK, Block, block_of, disk, fast_config, log};
use crate::recovery::{RecoveryMode, RecoveryReport, recover, supersede};
use crate::{Error, Image, Journal};
use std::ops::Range;
use std::sync::Arc;
use uext4_format::BlockNr;
use uext4_sync::Rng;

const LOG: u32 = 1400;
/// The last block of the log before the area of fast commits.
const LAST: u32 = 1144;
const CHANGED: Range<u64> = 1500..1506;
const CRASHES_PER_WRITE: usize = 6;

fn replay(device: &Arc<Recorder>) -> RecoveryReport {
    let home = Arc::clone(device) as _;
    let mode = RecoveryMode::Replay;
    recover(&log(device, LOG), &home, BLOCK as u32, mode).expect("a sound log")
}

/// A replayed disk whose log may hold fast commits; the changed blocks are filled with 1.
fn replayed() -> (Vec<u8>, RecoveryReport) {
    let device = Recorder::new(disk(1600, LOG));
    let journal = Journal::open(fast_config(&device, LOG)).expect("opens");
    for nr in CHANGED {
        let handle = journal.start(1).expect("starts");
        let block = Block::new(nr, vec![0; BLOCK]);
        handle.write(&block).bytes.fill(1);
    }
    journal.commit_running().expect("commits");
    let report = replay(&device);
    assert!(report.fast_commit.is_some());
    (device.bytes(), report)
}

fn images(blocks: Range<u64>) -> Vec<(BlockNr, Image)> {
    let image: Image = Image::from(vec![9; BLOCK]);
    blocks.map(|nr| (BlockNr(nr), image.clone())).collect()
}

fn run(device: &Arc<Recorder>, report: &RecoveryReport, blocks: Range<u64>) -> Result<(), Error> {
    let home = Arc::clone(device) as _;
    let images = images(blocks);
    supersede(&log(device, LOG), &home, BLOCK as u32, report, images, 7)
}

/// The byte that fills all changed blocks.
fn filling(bytes: &[u8]) -> u8 {
    let first = block_of(bytes, CHANGED.start)[0];
    for nr in CHANGED {
        assert!(block_of(bytes, nr).iter().all(|byte| *byte == first));
    }
    first
}

/// Crashes at every event; returns how often the old and the new state remained.
fn crashes(bytes: &[u8], report: &RecoveryReport) -> [u32; 2] {
    let device = Recorder::new(bytes.to_vec());
    run(&device, report, CHANGED).expect("enough space");
    let (mut rng, mut seen) = (Rng::new(1), [0; 2]);
    for cut in 0..=device.len() {
        for _ in 0..CRASHES_PER_WRITE {
            let crashed = Recorder::new(device.crash(cut, &mut rng));
            let found = replay(&crashed);
            let filling = filling(&crashed.bytes());
            seen[usize::from(filling == 9)] += 1;
            if filling == 1 {
                let area = found.fast_commit.expect("they are still there");
                assert_eq!(area.tid, report.end, "cut {cut}: of the same transaction");
            }
            assert!(filling == 9 || cut < device.len(), "cut {cut}");
        }
    }
    seen
}

#[test]
fn a_crash_leaves_the_fast_commits_or_the_transaction() {
    let (bytes, report) = replayed();
    // At the end of the log the transaction wraps around: its body, or its commit block only.
    for end_block in [report.end_block, LAST - 2, LAST - 6] {
        let report = RecoveryReport {
            end_block,
            ..report.clone()
        };
        let [old, new] = crashes(&bytes, &report);
        assert!(old > 0 && new > 0, "{old} old, {new} new");
    }
}

#[test]
fn a_log_that_is_too_small_is_not_changed() {
    let (bytes, report) = replayed();
    let device = Recorder::new(bytes);
    let answer = run(&device, &report, 100..100 + u64::from(LAST));
    assert!(matches!(answer, Err(Error::LogTooSmall { .. })));
    assert_eq!(device.len(), 0);
}
