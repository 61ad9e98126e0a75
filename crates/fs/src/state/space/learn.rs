//! Background prefetch of search summaries: the longest free run of every region of free-space
//! trees, the orders of every buddy group. A mount does not wait for it, and the unmount stops it.

use super::Space;
use super::loaders::LookLoader;
use crate::types::error::Error;
use crate::types::options::{Access, MountOptions, Threads};
use uext4_alloc::LoadError;
use uext4_sync::atomic::{AtomicBool, Ordering};
use uext4_sync::thread::{self, JoinHandle};
use uext4_sync::{Arc, Mutex, Rank};

/// Most threads. One core is left to the users of the file system.
const THREADS_MAX: usize = 8;

/// Threads that load bitmaps ahead.
pub(super) struct Learners {
    ending: AtomicBool,
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Whether `error` is set; read by each operation, written once in the life of most mounts.
    failed: AtomicBool,
    /// An error of a bitmap that is not recorded yet.
    error: Mutex<Option<Error>>,
}

impl Learners {
    pub(super) fn new() -> Self {
        Self {
            ending: false.into(),
            threads: Mutex::new(Rank::Queue, Vec::new()),
            failed: false.into(),
            error: Mutex::new(Rank::Queue, None),
        }
    }
}

impl Space {
    /// Starts or stops the prefetch, by the options.
    pub(crate) fn set_learning(self: &Arc<Self>, options: &MountOptions) {
        self.stop_learning();
        let reluctant = self.engine.tree_memory().is_some() && options.cache_aggression == 0;
        let wanted = options.prefetch_bitmaps && !reluctant;
        let may = options.threads == Threads::Background && options.access == Access::ReadWrite;
        if wanted && may && self.engine.unknown_regions() > 0 {
            self.start_learning();
        }
    }

    fn start_learning(self: &Arc<Self>) {
        self.learners.ending.store(false, Ordering::Relaxed);
        let cores = uext4_sync::cores();
        let threads = (0..(cores - 1).clamp(1, THREADS_MAX)).map(|_| {
            let space = self.clone();
            thread::spawn(move || {
                space.engine.learn(&LookLoader { space: &space }, &|| {
                    !space.learners.ending.load(Ordering::Relaxed)
                });
            })
        });
        self.learners.threads.lock().extend(threads);
    }

    /// Keeps an error for the next operation: the prefetch can neither log nor apply `errors=`.
    pub(super) fn survey_failed(&self, error: Error) -> LoadError {
        *self.learners.error.lock() = Some(error);
        self.learners.failed.store(true, Ordering::Release);
        LoadError
    }

    /// The error of a bitmap that the prefetch could not use, once.
    pub(crate) fn take_survey_error(&self) -> Option<Error> {
        if !self.learners.failed.load(Ordering::Acquire) {
            return None;
        }
        self.learners.failed.store(false, Ordering::Relaxed);
        self.learners.error.lock().take()
    }

    /// Stops the prefetch and joins its threads.
    pub(crate) fn stop_learning(&self) {
        self.learners.ending.store(true, Ordering::Relaxed);
        let threads = std::mem::take(&mut *self.learners.threads.lock());
        for thread in threads {
            // The summaries of a thread that panicked are valid nevertheless.
            let _ = thread.join();
        }
    }
}
