//! Snapshots of a mounted file system, for checks and copies beside its writers.
//!
//! With a log a snapshot is what a crash between two commits would leave: the log has whole
//! transactions, and a reader replays it in memory. So no change has to be waited for, and only
//! writes to the device wait, for those that have begun. Without a log changes are stopped until
//! their metadata are home.
//!
//! Locking: `Fs::lifecycle` throughout, so that freezes, remounts and snapshots take turns.

use crate::ops::filesystem::Filesystem;
use crate::state::engine::Fs;
use crate::state::lifecycle::Lifecycle;
use crate::types::error::{Error, Result};
use std::time::{Duration, Instant};
use uext4_device::{BlockDevice, SnapshotLimits, SnapshotStart, Taken};
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
        let unwritten = self.sync().err();
        let life = self.fs.lifecycle.lock();
        self.fs.base.state.check_open()?;
        let is_logged = life.log().is_some() || self.fs.writable().is_err();
        let mut taken = if is_logged || life.is_frozen {
            self.fs.snapshot_between_commits(&life, limits)?
        } else {
            self.fs.snapshot_at_rest(&life, limits)?
        };
        let device = taken.snapshots.remove(0);
        Ok(Snapshot {
            device,
            journal: taken.snapshots.pop(),
            pause: taken.pause,
            unwritten,
        })
    }
}

impl Fs {
    fn snapshot_between_commits(&self, life: &Lifecycle, limits: SnapshotLimits) -> Result<Taken> {
        let mut start = SnapshotStart::new(limits);
        loop {
            let journal = &self.base.journal;
            let taken = journal.between_commits(|| start.attempt(&life.media.snapshots))?;
            if let Some(taken) = taken {
                return Ok(taken);
            }
            start.pause();
        }
    }

    /// Writes all metadata home, and takes the snapshot before the next change.
    fn snapshot_at_rest(&self, life: &Lifecycle, limits: SnapshotLimits) -> Result<Taken> {
        let start = Instant::now();
        self.base.changes.close();
        let written = self.write_out_all().and_then(|()| self.commit_counts());
        let taken = written.and_then(|()| self.snapshot_between_commits(life, limits));
        self.base.changes.open();
        Ok(Taken {
            pause: start.elapsed(),
            ..taken?
        })
    }

    fn commit_counts(&self) -> Result<()> {
        self.log_lazy_times()?;
        let handle = self.start(1)?;
        self.log_counts(&handle);
        drop(handle);
        Ok(self.base.journal.commit_running()?)
    }
}
