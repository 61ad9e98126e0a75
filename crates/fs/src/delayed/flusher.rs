//! The thread that writes out data that have waited long enough.
//!
//! It sleeps while nothing waits, so an idle mount uses no processor time. It does not own the file
//! system: when that goes away, so does the thread.

use super::Reach;
use crate::Fs;
use std::sync::{Arc, Weak};
use std::time::Duration;
use uext4_sync::atomic::{AtomicBool, Ordering};
use uext4_sync::thread::{self, JoinHandle};
use uext4_sync::{Condvar, Mutex, Rank};

/// How often it looks while something waits: this part of the longest wait.
const LOOKS: u32 = 4;
const LOOK_MIN: Duration = Duration::from_millis(10);

#[derive(Default)]
struct Orders {
    ending: bool,
    woken: bool,
    relief: bool,
}

struct Shared {
    orders: Mutex<Orders>,
    changed: Condvar,
    /// The thread sleeps, or is about to, until something waits.
    asleep: AtomicBool,
    /// It runs.
    runs: AtomicBool,
    /// It was told that too much waits, and has not looked since.
    hurried: AtomicBool,
}

/// The thread, if it runs.
pub(crate) struct Flusher {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Flusher {
    /// No thread yet.
    pub(crate) fn new() -> Self {
        Self {
            shared: Arc::new(Shared {
                orders: Mutex::new(Rank::Queue, Orders::default()),
                changed: Condvar::new(),
                asleep: AtomicBool::new(false),
                runs: AtomicBool::new(false),
                hurried: AtomicBool::new(false),
            }),
            thread: Mutex::new(Rank::Queue, None),
        }
    }

    /// Starts the thread unless it runs.
    pub(crate) fn start(&self, fs: &Arc<Fs>) {
        let (shared, weak) = (self.shared.clone(), Arc::downgrade(fs));
        let mut thread = self.thread.lock();
        self.shared.runs.store(true, Ordering::SeqCst);
        thread.get_or_insert_with(|| thread::spawn(move || shared.run(&weak)));
    }

    /// Something waits: wakes the thread if it sleeps.
    pub(crate) fn wake(&self) {
        let asleep = &self.shared.asleep;
        if asleep.load(Ordering::SeqCst) && asleep.swap(false, Ordering::SeqCst) {
            self.order(|orders| orders.woken = true);
        }
    }

    /// Much waits: the thread is to write some out now. False when there is no thread.
    pub(crate) fn hurry(&self) -> bool {
        let runs = self.shared.runs.load(Ordering::Relaxed);
        let hurried = &self.shared.hurried;
        if runs && !hurried.load(Ordering::Relaxed) && !hurried.swap(true, Ordering::SeqCst) {
            self.order(|orders| orders.woken = true);
        }
        runs
    }

    /// Memory is short: the thread, if there is one, is to write out much of what waits.
    pub(crate) fn relieve(&self) {
        self.order(|orders| (orders.woken, orders.relief) = (true, true));
    }

    fn order(&self, give: impl FnOnce(&mut Orders)) {
        give(&mut self.shared.orders.lock());
        self.shared.changed.notify_all();
    }

    /// Ends the thread and waits for it; what it has begun it finishes.
    pub(crate) fn end(&self) {
        self.shared.runs.store(false, Ordering::SeqCst);
        self.order(|orders| orders.ending = true);
        let thread = self.thread.lock().take();
        // The last owner of the file system may be that thread.
        let other = thread.filter(|thread| thread.thread().id() != thread::current().id());
        // One that panicked has ended, too; whatever waits is written out by the unmount.
        let _ended = other.map(JoinHandle::join);
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn run(&self, fs: &Weak<Fs>) {
        loop {
            self.asleep.store(true, Ordering::SeqCst);
            // Looked up after the flag is set: who puts something in later sees the flag.
            let Some(nap) = fs.upgrade().map(|fs| nap(&fs)) else {
                return;
            };
            let Some(reach) = self.sleep(nap) else {
                return;
            };
            self.hurried.store(false, Ordering::SeqCst);
            if let Some(fs) = fs.upgrade() {
                fs.write_out_by_itself(reach);
            }
        }
    }

    /// Sleeps for that long, or until something waits; `None`: the thread must end.
    fn sleep(&self, nap: Option<Duration>) -> Option<Reach> {
        let mut orders = self.orders.lock();
        match nap {
            Some(time) if !orders.ending && !orders.woken => {
                self.asleep.store(false, Ordering::SeqCst);
                self.changed.wait_for(&mut orders, time);
            }
            _ => {
                while !orders.ending && !orders.woken {
                    self.changed.wait(&mut orders);
                }
            }
        }
        orders.woken = false;
        let reach = match std::mem::take(&mut orders.relief) {
            true => Reach::Relief,
            false => Reach::Usual,
        };
        (!orders.ending).then_some(reach)
    }
}

fn nap(fs: &Fs) -> Option<Duration> {
    let waits = !fs.delayed.is_empty();
    waits.then(|| (fs.delayed.expire() / LOOKS).max(LOOK_MIN))
}
