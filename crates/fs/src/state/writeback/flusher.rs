//! Writeback thread for expired delayed data.
//!
//! It sleeps while no file is dirty, so an idle mount uses no CPU time.

use std::time::Duration;
use uext4_sync::atomic::{AtomicBool, Ordering};
use uext4_sync::thread::{self, JoinHandle};
use uext4_sync::{Arc, Condvar, Mutex, Rank};

/// Extent of a background writeback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Expired data, and the oldest while more than half the limit is used.
    Usual,
    /// Also half of the remaining data, under memory pressure.
    Reclaim,
}

/// What the writeback thread does; see [`Flusher`].
pub(crate) trait Work: Send + 'static {
    /// Longest sleep before the next run, for ever if there is none; `None` ends the thread.
    fn nap(&self) -> Option<Option<Duration>>;
    fn run(&self, reach: Reach);
}

#[derive(Default)]
struct Orders {
    ending: bool,
    woken: bool,
    reclaim: bool,
}

struct Shared {
    orders: Mutex<Orders>,
    changed: Condvar,
    /// The thread sleeps, or is about to, until a file is dirty.
    asleep: AtomicBool,
    runs: AtomicBool,
    /// A wakeup for too much dirty data is pending.
    hurried: AtomicBool,
}

/// The writeback thread, if it runs.
pub(crate) struct Flusher {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Flusher {
    /// No thread runs until [`Self::start`].
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
    pub(crate) fn start(&self, work: impl Work) {
        let shared = self.shared.clone();
        let mut thread = self.thread.lock();
        self.shared.runs.store(true, Ordering::SeqCst);
        thread.get_or_insert_with(|| thread::spawn(move || shared.run(&work)));
    }

    /// A file became dirty: wakes the thread if it sleeps.
    pub(crate) fn wake(&self) {
        let asleep = &self.shared.asleep;
        if asleep.load(Ordering::SeqCst) && asleep.swap(false, Ordering::SeqCst) {
            self.order(|orders| orders.woken = true);
        }
    }

    /// Wakes the thread to write out some data now. False if there is no thread.
    pub(crate) fn wake_now(&self) -> bool {
        let runs = self.shared.runs.load(Ordering::Relaxed);
        let hurried = &self.shared.hurried;
        if runs && !hurried.load(Ordering::Relaxed) && !hurried.swap(true, Ordering::SeqCst) {
            self.order(|orders| orders.woken = true);
        }
        runs
    }

    /// Under memory pressure, orders the thread, if there is one, to write out much of the data.
    pub(crate) fn reclaim(&self) {
        self.order(|orders| (orders.woken, orders.reclaim) = (true, true));
    }

    fn order(&self, give: impl FnOnce(&mut Orders)) {
        give(&mut self.shared.orders.lock());
        self.shared.changed.notify_all();
    }

    /// Stops the thread and joins it; a started step completes.
    pub(crate) fn end(&self) {
        self.shared.runs.store(false, Ordering::SeqCst);
        self.order(|orders| orders.ending = true);
        let thread = self.thread.lock().take();
        // The thread itself may drop the last reference to the file system.
        let other = thread.filter(|thread| thread.thread().id() != thread::current().id());
        // A thread that panicked has ended as well; the unmount writes out the remaining data.
        let _ended = other.map(JoinHandle::join);
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    fn run(&self, work: &impl Work) {
        loop {
            self.asleep.store(true, Ordering::SeqCst);
            // Dirty files are counted after the flag is set, so a later insertion sees the flag.
            let Some(nap) = work.nap() else {
                return;
            };
            let Some(reach) = self.sleep(nap) else {
                return;
            };
            self.hurried.store(false, Ordering::SeqCst);
            work.run(reach);
        }
    }

    /// Sleeps for `nap`, or until woken; `None`: the thread must end.
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
        let reach = if std::mem::take(&mut orders.reclaim) {
            Reach::Reclaim
        } else {
            Reach::Usual
        };
        (!orders.ending).then_some(reach)
    }
}
