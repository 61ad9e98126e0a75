//! The thread that writes out data that have waited long enough.
//!
//! It sleeps while nothing waits, so an idle mount uses no processor time. It does not own the file
//! system: when that goes away, so does the thread.

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
}

struct Shared {
    orders: Mutex<Orders>,
    changed: Condvar,
    /// The thread sleeps, or is about to, until something waits.
    asleep: AtomicBool,
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
            }),
            thread: Mutex::new(Rank::Queue, None),
        }
    }

    /// Starts the thread unless it runs.
    pub(crate) fn start(&self, fs: &Arc<Fs>) {
        let (shared, weak) = (self.shared.clone(), Arc::downgrade(fs));
        let mut thread = self.thread.lock();
        thread.get_or_insert_with(|| thread::spawn(move || shared.run(&weak)));
    }

    /// Something waits: wakes the thread if it sleeps.
    pub(crate) fn wake(&self) {
        let asleep = &self.shared.asleep;
        if asleep.load(Ordering::SeqCst) && asleep.swap(false, Ordering::SeqCst) {
            self.shared.orders.lock().woken = true;
            self.shared.changed.notify_all();
        }
    }

    /// Ends the thread and waits for it; what it has begun it finishes.
    pub(crate) fn end(&self) {
        self.shared.orders.lock().ending = true;
        self.shared.changed.notify_all();
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
            if !self.sleep(nap) {
                return;
            }
            if let Some(fs) = fs.upgrade() {
                fs.write_out_old();
            }
        }
    }

    /// Sleeps for that long, or until something waits; false: the thread must end.
    fn sleep(&self, nap: Option<Duration>) -> bool {
        let mut orders = self.orders.lock();
        match nap {
            Some(time) if !orders.ending => {
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
        !orders.ending
    }
}

fn nap(fs: &Fs) -> Option<Duration> {
    let waits = !fs.delayed.is_empty();
    waits.then(|| (fs.delayed.expire() / LOOKS).max(LOOK_MIN))
}
