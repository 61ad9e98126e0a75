//! A commit that needs log space waits for that space, not for the end of a checkpoint pass.

use super::device::Recorder;
use super::objects::{BLOCK, Block, config, disk, log};
use crate::{Config, Journal, Threads};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;
use uext4_device::{BlockDevice, Error};
use uext4_sync::{Condvar, Mutex, Rank, thread};

const LOG: u32 = 64;
/// Blocks that each transaction changes: with a descriptor and a commit block 6 of the log's 62.
const BLOCKS: u64 = 4;
const FIRST: u64 = 100;

/// A device on which one write blocks until it is released.
struct Sticky {
    below: Arc<Recorder>,
    at: u64,
    let_go: Mutex<bool>,
    woken: Condvar,
}

impl Sticky {
    fn let_go(&self) {
        *self.let_go.lock() = true;
        self.woken.notify_all();
    }
}

impl BlockDevice for Sticky {
    fn size_bytes(&self) -> u64 {
        self.below.size_bytes()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        self.below.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), Error> {
        if (offset..offset + buf.len() as u64).contains(&self.at) {
            let mut let_go = self.let_go.lock();
            while !*let_go {
                self.woken.wait(&mut let_go);
            }
        }
        self.below.write_at(offset, buf)
    }
    fn flush(&self) -> Result<(), Error> {
        self.below.flush()
    }
    fn is_read_only(&self) -> bool {
        false
    }
    fn describe(&self) -> String {
        "sticky".into()
    }
}

fn commit(journal: &Journal, nr: u64) {
    let handle = journal.start(BLOCKS as u32).expect("starts");
    for at in 0..BLOCKS {
        let block = Block::new(FIRST + nr * BLOCKS + at, vec![0; BLOCK]);
        handle.write(&block).bytes.fill(nr as u8 + 1);
    }
    drop(handle);
    journal.commit_running().expect("commits");
}

/// Ten transactions fill the log; a pass writes at least four of them home. The home write of the
/// third blocks, those of the first two do not, so two more transactions find space.
#[test]
fn a_commit_waits_for_a_step_of_a_pass_and_not_for_its_end() {
    let recorder = Recorder::new(disk(300, LOG));
    let sticky = Arc::new(Sticky {
        below: recorder.clone(),
        at: (FIRST + 2 * BLOCKS) * BLOCK as u64,
        let_go: Mutex::new(Rank::Device, false),
        woken: Condvar::new(),
    });
    let journal = Journal::open(Config {
        threads: Threads::Background,
        log: Some(log(&recorder, LOG)),
        home: sticky.clone(),
        ..config(&recorder, LOG)
    });
    let journal = journal.expect("opens");
    let (done, all) = channel();
    thread::scope(|scope| {
        scope.spawn(|| {
            (0..12).for_each(|nr| commit(&journal, nr));
            done.send(()).expect("the test waits");
        });
        let in_time = all.recv_timeout(Duration::from_secs(60));
        let is_stuck = !*sticky.let_go.lock();
        sticky.let_go();
        assert!(
            in_time.is_ok() && is_stuck,
            "a commit waited for the whole pass"
        );
    });
    journal.close().expect("closes");
    let bytes = recorder.bytes();
    for nr in 0..12 {
        let at = (FIRST + nr * BLOCKS) as usize * BLOCK;
        assert_eq!(bytes[at], nr as u8 + 1);
    }
}

/// A pass without waiters moves the tail once, whatever its number of steps.
#[test]
fn a_pass_without_waiters_flushes_twice() {
    let recorder = Recorder::new(disk(300, LOG));
    let journal = Journal::open(config(&recorder, LOG)).expect("opens");
    let flushes = |nr| {
        let before = recorder.flushes();
        commit(&journal, nr);
        recorder.flushes() - before
    };
    let of_commits: Vec<usize> = (0..8).map(flushes).collect();
    let with_pass: Vec<usize> = of_commits.into_iter().filter(|n| *n != 1).collect();
    assert_eq!(with_pass, [3], "one of a commit, two of the pass behind it");
    assert_eq!(journal.stats().checkpoints, 1);
}
