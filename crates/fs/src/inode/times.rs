//! Access times, and `lazytime`.
//!
//! With `lazytime`, a change of timestamps alone changes the inode in memory and puts it on a list.
//! The times reach the disk with the next logged change of the inode, with `fsync` and `sync`, at
//! unmount, and when the list is full or a day old.
//!
//! References: `mount(8)`, "lazytime", "relatime".

use super::{Inode, InodeRef, InodeState};
use crate::settings::Switch;
use crate::{Fs, Result, credits};
use std::collections::BTreeMap;
use std::sync::Arc;
use uext4_format::{InodeFlags, InodeNr, Timestamp};
use uext4_journal::Object;
use uext4_sync::{Mutex, Rank};

const DAY_SECONDS: i64 = 24 * 3600;
/// Longest list: each inode on it is pinned in memory.
const LISTED_MAX: usize = 4096;

/// Effect of an access on the access time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atime {
    /// It was set to the time of the access.
    Set,
    /// The mount options leave it unchanged.
    Kept,
}

/// Where the times of the last change are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeTimes {
    /// In the inode.
    Here,
    /// In a cache above, which may have changed the file after the inode's times.
    Above,
}

/// Inodes with unlogged times.
pub(crate) struct LazyTimes {
    list: Mutex<List>,
}

#[derive(Default)]
struct List {
    inodes: BTreeMap<InodeNr, Arc<Inode>>,
    /// Time of the first insertion, in seconds.
    since: i64,
}

impl Default for LazyTimes {
    fn default() -> Self {
        Self {
            list: Mutex::new(Rank::Queue, List::default()),
        }
    }
}

impl LazyTimes {
    /// Puts the inode on the list; true when the list is due to be emptied.
    fn note(&self, inode: &Arc<Inode>, now: Timestamp) -> bool {
        let mut list = self.list.lock();
        if list.inodes.is_empty() {
            list.since = now.seconds;
        }
        list.inodes
            .entry(inode.nr())
            .or_insert_with(|| inode.clone());
        list.inodes.len() >= LISTED_MAX || now.seconds.saturating_sub(list.since) >= DAY_SECONDS
    }

    fn take(&self, nr: InodeNr) -> Option<Arc<Inode>> {
        self.list.lock().inodes.remove(&nr)
    }

    fn take_all(&self) -> Vec<Arc<Inode>> {
        let inodes = std::mem::take(&mut self.list.lock().inodes);
        inodes.into_values().collect()
    }
}

impl Fs {
    /// Changes timestamps only: logged at once, or in memory with `lazytime`.
    pub(crate) fn change_times(
        &self,
        inode: &Arc<Inode>,
        now: Timestamp,
        change: impl FnOnce(&mut InodeState),
    ) -> Result<()> {
        if !self.settings.has(Switch::Lazytime) {
            let handle = self.start(credits::ATTRIBUTES)?;
            change(&mut handle.write(inode));
            return Ok(());
        }
        change(&mut inode.live().write_unlogged());
        if self.lazy_times.note(inode, now) {
            self.log_lazy_times()?;
        }
        Ok(())
    }

    /// Logs all unlogged times.
    pub(crate) fn log_lazy_times(&self) -> Result<()> {
        self.lazy_times
            .take_all()
            .iter()
            .try_for_each(|inode| self.log_times(inode))
    }

    /// Logs the unlogged times of one inode, if it has any.
    pub(crate) fn log_lazy_times_of(&self, inode: &Inode) -> Result<()> {
        match self.lazy_times.take(inode.nr()) {
            Some(inode) => self.log_times(&inode),
            None => Ok(()),
        }
    }

    fn log_times(&self, inode: &Arc<Inode>) -> Result<()> {
        if !inode.is_freed() {
            let handle = self.start(credits::ATTRIBUTES)?;
            drop(handle.write(inode));
        }
        Ok(())
    }

    /// Whether every read updates the access time (`strictatime`).
    pub(crate) fn notes_every_read(&self) -> bool {
        let has = |switch| self.settings.has(switch);
        !has(Switch::Relatime) && !has(Switch::NoAtime) && self.state.is_writable()
    }

    /// Sets the access time when the mount options ask for it.
    pub(crate) fn touch_atime(&self, inode: &InodeRef, changes: ChangeTimes) -> Result<Atime> {
        let has = |switch| self.settings.has(switch);
        let off = has(Switch::NoAtime) || (has(Switch::NoDirAtime) && inode.is_dir());
        let now = self.now();
        let due = |state: &InodeState| self.atime_is_due(state, changes, now);
        if off || !self.state.is_writable() || !due(&inode.read()) {
            return Ok(Atime::Kept);
        }
        // A read does not wait for a frozen file system: the access time stays.
        let Some(_pass) = self.changes.try_enter() else {
            return Ok(Atime::Kept);
        };
        let mut done = Atime::Kept;
        self.change_times(inode.arc(), now, |state| {
            // Another thread may have set it in between.
            if due(state) {
                state.disk.atime = now.as_stored(state.disk.times_have_extra());
                done = Atime::Set;
            }
        })?;
        Ok(done)
    }

    fn atime_is_due(&self, state: &InodeState, changes: ChangeTimes, now: Timestamp) -> bool {
        let disk = &state.disk;
        if disk.flags.contains(InodeFlags::NOATIME) || disk.atime == now {
            return false;
        }
        let day_old = now.seconds.saturating_sub(disk.atime.seconds) >= DAY_SECONDS;
        let changed = match changes {
            ChangeTimes::Here => disk.mtime.max(disk.ctime),
            ChangeTimes::Above => disk.mtime.max(disk.ctime).max(now),
        };
        !self.settings.has(Switch::Relatime) || disk.atime <= changed || day_old
    }
}
