//! Group commit: which thread runs a commit, and how many callers share one.

use super::device::Recorder;
use super::objects::{BLOCK, Block, Slot, config, disk, log};
use crate::{Config, Journal, Threads};
use std::sync::Arc;
use std::thread::ThreadId;
use std::time::Duration;
use uext4_device::{BlockDevice, Error};
use uext4_sync::{Condvar, Mutex, Rank, thread};

const LOG: u32 = 128;
const CALLERS: u64 = 16;

#[derive(Default)]
struct State {
    is_open: bool,
    /// The threads that flushed, in order.
    flushed_by: Vec<ThreadId>,
}

/// A log device whose flushes block until they are let through.
pub(super) struct Dam {
    below: Arc<Recorder>,
    state: Mutex<State>,
    changed: Condvar,
}

impl BlockDevice for Dam {
    fn size_bytes(&self) -> u64 {
        self.below.size_bytes()
    }
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<(), Error> {
        self.below.read_at(offset, buf)
    }
    fn write_at(&self, offset: u64, buf: &[u8]) -> Result<(), Error> {
        self.below.write_at(offset, buf)
    }
    fn write_durable_at(&self, offset: u64, buf: &[u8]) -> Result<(), Error> {
        self.below.write_durable_at(offset, buf)
    }
    fn flush(&self) -> Result<(), Error> {
        let mut state = self.state.lock();
        state.flushed_by.push(std::thread::current().id());
        self.changed.notify_all();
        while !state.is_open {
            self.changed.wait(&mut state);
        }
        drop(state);
        self.below.flush()
    }
    fn is_read_only(&self) -> bool {
        false
    }
    fn describe(&self) -> String {
        "dam".into()
    }
}

fn change_and_wait(journal: &Journal, nr: u64) {
    let handle = journal.start(1).expect("starts");
    handle.write(&Block::new(200 + nr, vec![1; BLOCK]));
    let tid = handle.tid();
    drop(handle);
    journal.wait_durable(tid).expect("commits");
}

impl Dam {
    /// Lets no flush through from now on.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        (state.is_open, state.flushed_by) = (false, Vec::new());
    }

    /// Waits until a flush is stuck.
    pub(super) fn wait_for_flush(&self) {
        let mut state = self.state.lock();
        while state.flushed_by.is_empty() {
            self.changed.wait(&mut state);
        }
    }

    /// Lets all flushes through.
    pub(super) fn open(&self) {
        self.state.lock().is_open = true;
        self.changed.notify_all();
    }
}

/// A journal with threads, over a device whose flushes block until `dam` is open.
fn dammed(recorder: &Arc<Recorder>, is_open: bool) -> (Arc<Journal>, Arc<Dam>) {
    dammed_with(recorder, is_open, (config(recorder, LOG), LOG))
}

/// As [`dammed`], with a configuration and the blocks of its log.
pub(super) fn dammed_with(
    recorder: &Arc<Recorder>,
    is_open: bool,
    (config, log_blocks): (Config, u32),
) -> (Arc<Journal>, Arc<Dam>) {
    let state = State {
        is_open,
        ..State::default()
    };
    let dam = Arc::new(Dam {
        below: recorder.clone(),
        state: Mutex::new(Rank::Device, state),
        changed: Condvar::new(),
    });
    let mut log = log(recorder, log_blocks);
    log.device = dam.clone();
    let journal = Journal::open(Config {
        threads: Threads::Background,
        commit_interval: Duration::from_secs(3600),
        log: Some(log),
        home: dam.clone(),
        ..config
    });
    (journal.expect("opens"), dam)
}

/// While the commit of the first caller is stuck, others change something. One of them commits for
/// all; the commit thread does nothing.
#[test]
fn one_of_the_callers_that_come_during_a_commit_runs_the_next_for_all() {
    let recorder = Recorder::new(disk(400, LOG));
    let (journal, dam) = dammed(&recorder, false);
    let journal = &journal;
    thread::scope(|scope| {
        let caller = |nr| {
            scope.spawn(move || {
                change_and_wait(journal, nr);
                std::thread::current().id()
            })
        };
        let first = caller(0);
        dam.wait_for_flush();
        let others: Vec<_> = (1..=CALLERS).map(caller).collect();
        while journal.stats().handles < 1 + CALLERS {
            thread::yield_now();
        }
        assert_eq!(journal.stats().transactions, 1);
        dam.open();
        let first = first.join().expect("no panic");
        let others: Vec<_> = others
            .into_iter()
            .map(|it| it.join().expect("no panic"))
            .collect();
        let stats = journal.stats();
        assert_eq!((stats.transactions, stats.requested), (2, 2));
        let flushed_by = dam.state.lock().flushed_by.clone();
        assert_eq!((flushed_by.len(), flushed_by[0]), (2, first));
        assert!(others.contains(&flushed_by[1]), "one of them leads");
    });
    journal.close().expect("closes");
}

#[test]
fn a_small_commit_runs_on_its_caller_and_a_large_one_on_the_commit_thread() {
    let recorder = Recorder::new(disk(400, LOG));
    let (journal, dam) = dammed(&recorder, true);
    let this = std::thread::current().id();
    for (objects, by_caller) in [(10, true), (5_000, false)] {
        dam.state.lock().flushed_by.clear();
        let handle = journal.start(4).expect("starts");
        for at in 0..objects {
            handle.write(&Slot::new(200, 8 * (at % (BLOCK / 8))));
        }
        let tid = handle.tid();
        drop(handle);
        journal.wait_durable(tid).expect("commits");
        let flushed_by = dam.state.lock().flushed_by.clone();
        assert!(!flushed_by.is_empty());
        assert!(flushed_by.iter().all(|it| (*it == this) == by_caller));
    }
    journal.close().expect("closes");
}
