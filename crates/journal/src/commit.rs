//! One commit, step by step.
//!
//! Locking: `one_commit` is held throughout; everything else for moments only. The caller has no
//! open handle. Live objects are locked one at a time to render them.

use crate::engine::{Engine, Logged};
use crate::live::DirtyList;
use crate::merge::merge;
use crate::stats::Times;
use crate::{Error, Image};
use std::collections::BTreeSet;
use uext4_format::{BlockNr, Tid};

/// Objects that are worth a thread of their own to render.
const OBJECTS_PER_THREAD: usize = 1000;

/// A transaction that is closed, rendered and ready to be written.
pub(crate) struct Closed {
    pub(crate) tid: Tid,
    /// One image per block, ascending.
    pub(crate) images: Vec<(BlockNr, Image)>,
    /// Ascending; none of them is among the images.
    pub(crate) revokes: Vec<BlockNr>,
}

impl Engine {
    /// Commits the running transaction. The caller holds `one_commit`.
    pub(crate) fn commit_locked(&self) -> Result<(), Error> {
        self.gate.check()?;
        let tid = self.gate.running();
        {
            let mut progress = self.progress.lock();
            progress.serving = progress.requests;
            progress.committing = Some(tid);
        }
        let result = self.close_and_write(tid);
        if let Err(cause) = &result {
            self.abort(cause.clone());
        }
        let mut progress = self.progress.lock();
        if let Ok(true) = result {
            progress.committed = tid;
        }
        progress.committing = None;
        progress.served = progress.serving;
        self.changed.notify_all();
        drop(progress);
        result.and(self.gate.check())
    }

    /// True when there was something to commit.
    fn close_and_write(&self, tid: Tid) -> Result<bool, Error> {
        let (objects, revokes) = Times::time(&self.times.drain_ns, || self.close_gate(tid));
        if objects.is_empty() && revokes.is_empty() {
            return Ok(false);
        }
        let images = Times::time(&self.times.render_ns, || {
            self.render_all(tid, &objects)?;
            merge(self.rendered.take(), &|blocks| self.read_many(blocks))
        })?;
        let revokes = without_images(revokes, &images);
        self.write(Closed {
            tid,
            images,
            revokes,
        })?;
        drop(objects); // only now: their images can be read back
        Ok(true)
    }

    /// Drains the transaction, takes what it logged, opens the next one.
    fn close_gate(&self, tid: Tid) -> (DirtyList, Vec<BlockNr>) {
        self.gate.close();
        let (mut objects, mut revokes) = (Vec::new(), Vec::new());
        for shard in self.logged.iter() {
            let Logged {
                objects: more,
                revokes: more_revokes,
            } = std::mem::take(&mut *shard.lock());
            objects.extend(more);
            revokes.extend(more_revokes);
        }
        let nothing = objects.is_empty() && revokes.is_empty();
        self.gate.open(if nothing { tid } else { tid.next() });
        (objects, revokes)
    }

    fn render_all(&self, tid: Tid, objects: &DirtyList) -> Result<(), Error> {
        let render = |some: &DirtyList| {
            some.iter()
                .for_each(|object| object.render(tid, &self.rendered));
        };
        let _ = (render, OBJECTS_PER_THREAD);
        objects
            .iter()
            .for_each(|object| object.render(tid, &self.rendered));
        Ok(())
    }

    /// Makes the transaction durable and its images readable.
    fn write(&self, closed: Closed) -> Result<(), Error> {
        Times::time(&self.times.write_ns, || {
            self.home.write_many(&closed.images)
        })?;
        Times::time(&self.times.flush_ns, || self.home.flush())?;
        Times::time(&self.times.publish_ns, || {
            self.observer.committed(closed.tid)
        });
        Ok(())
    }
}

/// The revokes, ascending, less those cancelled by an image of the same transaction.
fn without_images(revokes: Vec<BlockNr>, images: &[(BlockNr, Image)]) -> Vec<BlockNr> {
    let revokes: BTreeSet<BlockNr> = revokes.into_iter().collect();
    let has_image = |nr: &BlockNr| images.binary_search_by_key(nr, |(block, _)| *block).is_ok();
    revokes.into_iter().filter(|nr| !has_image(nr)).collect()
}
