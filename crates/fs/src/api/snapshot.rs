//! Snapshots of a mounted file system, for checks and copies beside its writers.
//!
//! With a log a snapshot is what a crash between two commits would leave: the log has whole
//! transactions, and a reader replays it in memory. So no change has to be waited for, and only
//! writes to the device wait, for those that have begun. Without a log changes are stopped until
//! their metadata are home.
//!
//! Locking: `Fs::lifecycle` for each try, so that freezes, remounts and snapshots take turns.

use crate::ops::filesystem::Filesystem;
use crate::state::engine::Fs;
use crate::state::lifecycle::Lifecycle;
use crate::types::error::{Error, Result};
use std::time::{Duration, Instant};
use uext4_device::{BlockDevice, Changes, SnapshotEnd, SnapshotLimits, SnapshotStart, Taken};
use uext4_sync::Arc;

/// The devices of a file system at one moment. It ends when it is dropped, and with the mount.
pub struct Snapshot {
    /// The device of the file system. If the log has transactions, a mount replays it in memory.
    pub device: Arc<uext4_device::Snapshot>,
    /// The device of an external journal.
    pub journal: Option<Arc<uext4_device::Snapshot>>,
    /// The longest time that a write had to wait.
    pub pause: Duration,
    /// The error that kept some changes from the device before.
    pub unwritten: Option<Error>,
}

impl Snapshot {
    /// The device of an external journal, for [`crate::MountOptions::journal_device`].
    pub fn journal_device(&self) -> Option<Arc<dyn BlockDevice>> {
        let journal = self.journal.clone();
        journal.map(|journal| -> Arc<dyn BlockDevice> { journal })
    }
}

impl Filesystem {
    /// Takes a snapshot. It has what was written before the call; data in a cache above are not in
    /// it. Writers go on, and what they overwrite is kept as `limits` allow; if they do not, the
    /// snapshot ends, and its reads fail.
    ///
    /// # Errors
    /// [`Error::Unmounted`], [`Error::Shutdown`]; [`uext4_device::Error::SnapshotEnded`] if there
    /// is no moment for it. That changes cannot be written before is no error: see
    /// [`Snapshot::unwritten`].
    pub fn snapshot(&self, limits: SnapshotLimits) -> Result<Snapshot> {
        let mut unwritten = self.sync().err();
        let mut start = SnapshotStart::new(limits);
        let mut taken = loop {
            let attempted = self.fs.attempt_snapshot(&mut start, &mut unwritten)?;
            if let Some(taken) = attempted {
                break taken;
            }
            start.pause();
        };
        let device = taken.snapshots.remove(0);
        Ok(Snapshot {
            device,
            journal: taken.snapshots.pop(),
            pause: taken.pause,
            unwritten,
        })
    }

    /// Notes from now on which parts of the device of the file system are written. Two snapshots
    /// that are taken later differ by them alone. `None` of a mount that does not write: other
    /// programs may then write the device.
    ///
    /// # Errors
    /// [`Error::Unmounted`], [`Error::Shutdown`].
    pub fn track_changes(&self) -> Result<Option<Changes>> {
        let life = self.fs.lifecycle.lock();
        self.fs.base.state.check_open()?;
        if self.fs.writable().is_err() {
            return Ok(None);
        }
        let closed = uext4_device::Error::SnapshotEnded(SnapshotEnd::Closed);
        let layer = life.media.snapshots.first().ok_or(closed)?;
        Ok(Some(layer.track()?))
    }
}

impl Fs {
    /// Tries to take a snapshot. Between two tries freezes, remounts and the unmount have a turn.
    fn attempt_snapshot(
        &self,
        start: &mut SnapshotStart,
        unwritten: &mut Option<Error>,
    ) -> Result<Option<Taken>> {
        let life = self.lifecycle.lock();
        self.base.state.check_open()?;
        if life.log().is_some() || life.is_frozen || self.writable().is_err() {
            return self.attempt_between_commits(&life, start);
        }
        self.attempt_at_rest(&life, start, unwritten)
    }

    fn attempt_between_commits(
        &self,
        life: &Lifecycle,
        start: &mut SnapshotStart,
    ) -> Result<Option<Taken>> {
        let journal = &self.base.journal;
        Ok(journal.between_commits(|| start.attempt(&life.media.snapshots))?)
    }

    /// Writes all metadata home and marks them clean before the next change, which waits.
    fn attempt_at_rest(
        &self,
        life: &Lifecycle,
        start: &mut SnapshotStart,
        unwritten: &mut Option<Error>,
    ) -> Result<Option<Taken>> {
        let begin = Instant::now();
        self.base.changes.close();
        let written = self.write_out_all().and_then(|()| self.commit_counts());
        // What is not all there is not clean.
        let marked = written.is_ok().then(|| self.mark_clean());
        let taken = self.attempt_between_commits(life, start);
        let resumed = match marked {
            // A device that fails once does not stop the writers of the mount.
            Some(_) => self
                .mark_in_use()
                .or_else(|_| self.mark_in_use())
                .inspect_err(|cause| self.fail(cause)),
            None => Ok(()),
        };
        self.base.changes.open();
        if let Some(error) = written.and(marked.unwrap_or(Ok(()))).err() {
            unwritten.get_or_insert(error);
        }
        resumed?;
        let pause = begin.elapsed();
        Ok(taken?.map(|taken| Taken { pause, ..taken }))
    }

    fn commit_counts(&self) -> Result<()> {
        self.log_lazy_times()?;
        let handle = self.start(1)?;
        self.log_counts(&handle);
        drop(handle);
        Ok(self.base.journal.commit_running()?)
    }
}
