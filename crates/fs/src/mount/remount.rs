//! Remount: changes the options of a mount, and whether it is writable.
//!
//! As `mount -o remount` on ext4: the words change the options in force, and fixed options are
//! refused by name. A change to read-only writes everything home, and leaves the device clean as an
//! unmount does. A change to read-write begins as a mount does: a journal replayed in memory is
//! replayed on the device, and orphans are freed.
//!
//! Locking: `Fs::lifecycle` throughout. The freeze barrier `Fs::changes` is closed while the access
//! changes, so that changes wait and then see the new access.

use super::assemble;
use crate::ops::filesystem::Filesystem;
use crate::parts::orphan_recovery;
use crate::state::engine::Fs;
use crate::state::lifecycle::Lifecycle;
use crate::state::superblock::failed_write;
use crate::types::error::{Error, RemountError, Result};
use crate::types::options::{Access, MountOptions};
use std::ops::Range;
use uext4_device::SnapshotEnd;
use uext4_format::Feature;
use uext4_sync::Arc;
use uext4_sync::atomic::Ordering::Relaxed;
use uext4_volume::{allowed_access, log, mmp};

impl Filesystem {
    /// Changes the mount options as `mount -o remount,LIST` does: `ro`, `rw`, and those that ext4
    /// can change. Options that are not in the list stay. Changes wait while the access changes;
    /// open files stay open.
    ///
    /// A change to read-only does not check for files open for writing: their next write returns
    /// [`Error::ReadOnly`].
    ///
    /// # Errors
    /// [`Error::Option`] for an unknown word, [`Error::Remount`] with the reason for a refusal;
    /// then nothing has changed. [`Error::Unmounted`] after the unmount, [`Error::Shutdown`] after
    /// a shutdown. Errors of the device and of damage as in [`Self::mount`]; after the first write
    /// they fail the mount, see [`Self::failure`].
    pub fn remount(&self, list: &str) -> Result<()> {
        let fs = &self.fs;
        let mut life = fs.lifecycle.lock();
        fs.base.state.check_open()?;
        if life.is_frozen {
            return Err(RemountError::Frozen.into());
        }
        let wanted = life.options.clone().parse(list)?;
        check_fixed(&life.options, &wanted)?;
        wanted.check_together()?;
        fs.change_access(&mut life, wanted.access)?;
        fs.apply(&life, &wanted);
        fs.start_flusher(wanted.threads);
        life.options = wanted;
        Ok(())
    }

    /// The options in force, after remounts.
    pub fn options(&self) -> MountOptions {
        self.fs.lifecycle.lock().options.clone()
    }
}

/// Refuses changes of options that are fixed at mount.
fn check_fixed(now: &MountOptions, wanted: &MountOptions) -> Result<()> {
    let path = |options: &MountOptions| options.journal_path.clone();
    let fixed = [
        ("data=", now.data == wanted.data),
        ("sb=", now.superblock_kib == wanted.superblock_kib),
        ("journal_path=", path(now) == path(wanted)),
        ("quota limits", now.quota_limits == wanted.quota_limits),
        ("noload", now.replay == wanted.replay),
        (
            "operation_bytes=",
            now.operation_bytes == wanted.operation_bytes,
        ),
        (
            "operation_seconds=",
            now.operation_time == wanted.operation_time,
        ),
        (
            "growth_limit=",
            now.growth_limit_bytes == wanted.growth_limit_bytes,
        ),
        ("allocator=", now.allocator == wanted.allocator),
        (
            "nombcache",
            now.share_xattr_blocks == wanted.share_xattr_blocks,
        ),
        (
            "journal_checksum",
            now.journal_checksum == wanted.journal_checksum,
        ),
    ];
    match fixed.iter().find(|(_, same)| !same) {
        Some((name, _)) => Err(RemountError::Fixed(name).into()),
        None => Ok(()),
    }
}

impl Fs {
    /// Applies the options that may change while mounted.
    fn apply(&self, life: &Lifecycle, options: &MountOptions) {
        self.base.settings.set(options);
        self.dirs.set_max_size(options.max_dir_size_kib);
        self.space.set_options(&life.options, options);
        self.space.set_learning(options);
        if options.delalloc_memory_bytes != life.options.delalloc_memory_bytes {
            self.delayed.set_limit(options.delalloc_memory_bytes);
        }
        if options.metadata_cache_bytes != life.options.metadata_cache_bytes {
            let bytes = assemble::metadata_cache_bytes(options);
            self.metadata_cache.store(bytes, Relaxed);
        }
        if options.extent_cache_bytes != life.options.extent_cache_bytes {
            let budget = self.extent_status.budget_bytes();
            budget.store(options.extent_cache_bytes, Relaxed);
        }
        self.base
            .journal
            .set_commit_interval(options.commit_interval);
        self.base.journal.set_max_batch(options.max_batch);
        let failed_write = failed_write(options.on_error, &self.base.superblock.read().disk);
        self.base.journal.set_failed_write(failed_write);
        life.media.set_barrier(options.barrier);
    }

    fn change_access(&self, life: &mut Lifecycle, access: Access) -> Result<()> {
        let writable = self.writable().is_ok();
        match access {
            Access::ReadOnly if writable => self.with_changes_stopped(|| self.end_writing(life)),
            Access::ReadWrite if !writable => {
                self.may_write(life)?;
                self.with_changes_stopped(|| self.begin_writing(life))
            }
            _ => Ok(()),
        }
    }

    fn with_changes_stopped(&self, work: impl FnOnce() -> Result<()>) -> Result<()> {
        self.base.changes.close();
        let done = work();
        self.base.changes.open();
        done
    }

    fn end_writing(&self, life: &mut Lifecycle) -> Result<()> {
        self.base.record_result(self.reap())?;
        if !self.orphans.is_empty() {
            return Err(RemountError::Busy.into());
        }
        self.write_out_all()?;
        self.rest().inspect_err(|cause| self.fail(cause))?;
        self.base.state.set_writable(false);
        // The claim on the device is one to read from now on.
        life.media
            .snapshots
            .iter()
            .for_each(|layer| layer.end_tracking());
        life.left = life.media.superblock_below()?;
        let Some(mmp) = life.mmp.take() else {
            return Ok(());
        };
        // Other hosts may write the device from then on, and no layer here sees that.
        let layers = life.media.snapshots.iter();
        layers.for_each(|layer| layer.end_all(SnapshotEnd::Unclaimed));
        Ok(mmp.release()?)
    }

    /// Checks the preconditions before any change.
    fn may_write(&self, life: &Lifecycle) -> Result<()> {
        let refused = |why: RemountError| Err(why.into());
        if self.base.state.failure().is_some() {
            return refused(RemountError::Failed);
        }
        let disk = self.base.superblock.read().disk.clone();
        let access = allowed_access(&disk, Access::ReadWrite)?;
        if access == Access::ReadOnly || self.quota.is_unusable() {
            return refused(RemountError::ReadOnlyFeature);
        }
        let was_dirty = self
            .base
            .superblock
            .read()
            .disk
            .features()
            .has(Feature::RECOVER);
        if !life.options.replay && was_dirty {
            return refused(RemountError::NotReplayed);
        }
        if life.keeps_fast_commits {
            return refused(RemountError::FastCommits);
        }
        life.media.begin_writing().map_err(|error| match error {
            uext4_device::Error::ReadOnly => RemountError::ReadOnlyDevice.into(),
            other => Error::Device(other),
        })
    }

    fn begin_writing(&self, life: &mut Lifecycle) -> Result<()> {
        let unchanged = |life: &Lifecycle| {
            if life.media.superblock_below()? == life.left {
                Ok(())
            } else {
                Err(Error::from(RemountError::ChangedBelow))
            }
        };
        unchanged(life)?;
        life.mmp = mmp::claim(life.media.claim(), Access::ReadWrite)?;
        // Another host may have written the device until the claim.
        let begun = unchanged(life).and_then(|()| self.take_into_use(life));
        if begun.is_err() {
            life.mmp = None;
        }
        begun
    }

    fn take_into_use(&self, life: &mut Lifecycle) -> Result<()> {
        let block_size = self.block_bytes();
        life.media
            .flush_overlay(&log_bytes(life, block_size), block_size)?;
        self.attach_log(life)?;
        self.base.state.set_writable(true);
        self.base.journal.resume();
        let recovered = assemble::begin(self).and_then(|()| {
            if life.must_recover {
                orphan_recovery::recover(self)
            } else {
                Ok(())
            }
        });
        life.must_recover = false;
        recovered.inspect_err(|cause| self.fail(cause))
    }

    /// Attaches the log to a journal without one. A log that must not be replayed is emptied.
    fn attach_log(&self, life: &mut Lifecycle) -> Result<()> {
        if !self.base.features.has(Feature::HAS_JOURNAL) {
            return Ok(());
        }
        let found = match &life.log {
            Some(log) => log.clone(),
            None => {
                let superblock = self.base.superblock.read().disk.clone();
                let external = life.options.journal_device.as_ref();
                log::find(
                    &self.base.device,
                    &superblock,
                    &self.base.geometry,
                    external,
                )?
            }
        };
        log::wipe(&found, &self.base.device, self.base.geometry.block_size())?;
        let (checksums, width, fast_commits) =
            assemble::log_format(self.base.features, &life.options);
        self.base
            .journal
            .attach(&found, checksums, width, fast_commits)?;
        life.log = Some(found);
        Ok(())
    }
}

/// Byte ranges of the log on the file system's device.
fn log_bytes(life: &Lifecycle, block_size: u64) -> Vec<Range<u64>> {
    let home: *const () = Arc::as_ptr(&life.media.home).cast();
    let runs = life
        .log
        .iter()
        .filter(|log| Arc::as_ptr(&log.device).cast() == home)
        .flat_map(|log| &log.runs);
    runs.map(|run| {
        let start = run.device_block * block_size;
        start..start + u64::from(run.len) * block_size
    })
    .collect()
}
