//! Access times, and `lazytime`.
//!
//! With `lazytime`, a change of timestamps alone changes the inode in memory and puts it on a list.
//! The times reach the disk with the next logged change of the inode, with `fsync` and `sync`, at
//! unmount, and when the list is full or a day old.
//!
//! References: `mount(8)`, "lazytime", "relatime".

use crate::state::engine::Fs;
use crate::state::inode::{DAY_SECONDS, Inode, InodeRef, InodeState};
use crate::types::credits;
use crate::types::error::Result;
use crate::types::settings::Switch;
use uext4_format::{InodeFlags, Timestamp};
use uext4_journal::{FullReason, Handle, Object};
use uext4_sync::Arc;

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
    /// In the inode only: its times are current.
    Here,
    /// In a cache above, which may have changed the file after the inode's times.
    Above,
}

impl Fs {
    /// Changes timestamps, and nothing else on disk: logged at once, or in memory with `lazytime`.
    pub(crate) fn change_times(
        &self,
        inode: &Arc<Inode>,
        now: Timestamp,
        change: impl FnOnce(&mut InodeState),
    ) -> Result<()> {
        let change = |state: &mut InodeState| {
            change(state);
            state.only_attributes();
        };
        if !self.base.settings.has(Switch::Lazytime) {
            let handle = self.start(credits::ATTRIBUTES)?;
            record_unless_directory(&handle, inode);
            change(&mut handle.write(inode));
            return Ok(());
        }
        change(&mut inode.live().write_unlogged());
        if self.lazy_times.record(inode, now) {
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
            record_unless_directory(&handle, inode);
            handle.write(inode).only_attributes();
        }
        Ok(())
    }

    /// Whether every read updates the access time (`strictatime`).
    pub(crate) fn notes_every_read(&self) -> bool {
        let has = |switch| self.base.settings.has(switch);
        !has(Switch::Relatime) && !has(Switch::NoAtime) && self.base.state.is_writable()
    }

    /// Sets the access time when the mount options ask for it. A read does not fail because its
    /// time cannot be written: the journal may have stopped since it began.
    pub(crate) fn touch_atime(&self, inode: &InodeRef, changes: ChangeTimes) -> Atime {
        let set = self.set_atime(inode, changes);
        self.base.record_result_later(set).unwrap_or(Atime::Kept)
    }

    fn set_atime(&self, inode: &InodeRef, changes: ChangeTimes) -> Result<Atime> {
        let has = |switch| self.base.settings.has(switch);
        let off = has(Switch::NoAtime) || (has(Switch::NoDirAtime) && inode.is_dir());
        let now = self.now();
        let due = |state: &InodeState| self.atime_is_due(state, changes, now);
        if off || !self.base.state.is_writable() || !due(&inode.read()) {
            return Ok(Atime::Kept);
        }
        // A read does not wait for a frozen file system: the access time stays.
        let Some(_pass) = self.base.changes.try_enter() else {
            return Ok(Atime::Kept);
        };
        let mut done = Atime::Kept;
        self.change_times(inode.arc(), now, |state| {
            // Another thread may have set it in between.
            if due(state) {
                state.disk.set_atime(now);
                done = Atime::Set;
            }
        })?;
        Ok(done)
    }

    fn atime_is_due(&self, state: &InodeState, changes: ChangeTimes, now: Timestamp) -> bool {
        let disk = &state.disk;
        let now = disk.stored(now);
        if disk.flags.contains(InodeFlags::NOATIME) || disk.atime == now {
            return false;
        }
        let day_old = now.seconds.saturating_sub(disk.atime.seconds) >= DAY_SECONDS;
        let changed = match changes {
            ChangeTimes::Here => disk.mtime.max(disk.ctime),
            ChangeTimes::Above => disk.mtime.max(disk.ctime).max(now),
        };
        !self.base.settings.has(Switch::Relatime) || disk.atime <= changed || day_old
    }
}

/// A directory has no record of its own times.
fn record_unless_directory(handle: &Handle<'_>, inode: &Inode) {
    if inode.is_dir() {
        handle.require_full(FullReason::Directory)
    } else {
        handle.promise_records()
    }
}
