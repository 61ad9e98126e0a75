//! Rendering of a commit by its leader and by callers that wait for it.
//!
//! Each of a few woken waiters takes lists of objects until none is left. The leader waits for
//! those that have begun. A large commit is rendered by threads of its own instead
//! ([`crate::parallel`]).
//!
//! Invariants: one thread renders a list, and the commit goes on when all lists are rendered.
//! Locking: that of [`Progress`](crate::progress::Progress) to join and to end; none of the
//! journal's while objects render.

use crate::Error;
use crate::dirty_list::DirtyList;
use crate::engine::Engine;
use crate::sink::Rendered;
use std::panic::{AssertUnwindSafe, catch_unwind};
use uext4_format::Tid;
use uext4_sync::Arc;
use uext4_sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

/// Fewest objects per thread: rendering them takes longer than waking a thread.
const OBJECTS_PER_WAITER: usize = 32;

/// The objects of one commit; see the module.
pub(crate) struct Rendering {
    tid: Tid,
    lists: Arc<Vec<DirtyList>>,
    /// The next list to take.
    next: AtomicUsize,
    has_panicked: AtomicBool,
}

impl Rendering {
    fn new(tid: Tid, lists: &Arc<Vec<DirtyList>>) -> Self {
        Self {
            tid,
            lists: Arc::clone(lists),
            next: AtomicUsize::new(0),
            has_panicked: AtomicBool::new(false),
        }
    }

    /// Renders lists until none is left.
    pub(crate) fn run(&self, out: &Rendered) {
        let has_panicked = catch_unwind(AssertUnwindSafe(|| {
            while let Some(list) = self.lists.get(self.next.fetch_add(1, Relaxed)) {
                let objects = list.pieces().flatten();
                objects.for_each(|object| object.render(self.tid, out));
            }
        }))
        .is_err();
        if has_panicked {
            self.has_panicked.store(true, Relaxed);
        }
    }
}

impl Engine {
    /// Renders the objects of a small commit; false if they are too few to share them.
    pub(crate) fn render_together(
        &self,
        tid: Tid,
        lists: &Arc<Vec<DirtyList>>,
    ) -> Result<bool, Error> {
        let objects: usize = lists.iter().map(DirtyList::len).sum();
        let threads = (objects / OBJECTS_PER_WAITER)
            .min(self.cores)
            .min(lists.len());
        let work = Arc::new(Rendering::new(tid, lists));
        let (number, others) = {
            let mut progress = self.progress.lock();
            let number = progress.closed();
            let others = progress
                .waiters(number)
                .early()
                .min(threads.saturating_sub(1));
            if others > 0 {
                progress.offer_rendering(&work, others);
            }
            (number, others)
        };
        if others == 0 {
            return Ok(false);
        }
        (0..others).for_each(|_| self.ends.of(number).notify_one());
        work.run(&self.rendered);
        let mut progress = self.progress.lock();
        progress.close_rendering();
        while progress.helping() > 0 {
            self.helped.wait(&mut progress);
        }
        if work.has_panicked.load(Relaxed) {
            Err(Error::Panicked)
        } else {
            Ok(true)
        }
    }

    /// Takes part in a rendering, as a waiter of the commit.
    pub(crate) fn help(&self, work: Arc<Rendering>) {
        work.run(&self.rendered);
        drop(work);
        let mut progress = self.progress.lock();
        if progress.leave_rendering() == 0 {
            self.helped.notify_one();
        }
    }
}
