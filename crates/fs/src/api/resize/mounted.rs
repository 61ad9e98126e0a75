//! Growth of a mounted file system.
//!
//! ```text
//!  plan, lengthen the file      refusals; nothing changed
//!  stop changes, come to rest   everything home, the log empty, the superblock clean
//!  grow as an unmounted one     old or new size
//!  take over                    log number, space, superblock, geometry
//!  mark in use, let changes on  new size
//! ```
//!
//! Invariants: reads go on, and see the old size until all of the new one is there. If a growth
//! fails with anything changed below the old end, the mount has failed; the next one recovers.
//! Locking: `Fs::lifecycle` throughout, with the freeze barrier `Fs::changes` closed meanwhile.

use crate::ops::filesystem::Filesystem;
use crate::state::engine::Fs;
use crate::state::lifecycle::Lifecycle;
use crate::state::space::BeforeGrowth;
use crate::types::error::{Error, ResizeError, Result};
use uext4_format::superblock::state;
use uext4_mkfs::DeviceContents;
use uext4_offline::{Plan, grow_volume, plan};
use uext4_volume::Volume;

/// Size for a mounted file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewSize {
    /// So many bytes in all.
    Bytes(u64),
    /// So many bytes more than now.
    More(u64),
    /// All of the device, or file.
    Device,
}

impl Filesystem {
    /// What [`Self::grow`] would do.
    ///
    /// # Errors
    /// [`Error::Resize`] with the reason if it cannot have this size.
    pub fn plan_growth(&self, wanted: NewSize) -> Result<Plan> {
        let _life = self.fs.lifecycle.lock();
        self.fs.plan_growth(wanted)
    }

    /// Grows while mounted; a size that it has already does nothing. The device must be as long; a
    /// file is made longer. Changes wait meanwhile, and reads go on. After a crash it has the old
    /// size or the new one.
    ///
    /// # Errors
    /// [`Error::Resize`] with the reason if it cannot have this size, which includes any smaller
    /// one. [`Error::Busy`] if it is frozen; [`Error::ReadOnly`]; [`Error::Shutdown`]. The error
    /// that lost delayed data: it has the old size. Errors of the device and of damage: if anything
    /// was changed, the mount has failed, see [`Self::failure`].
    pub fn grow(&self, wanted: NewSize) -> Result<Plan> {
        let fs = &self.fs;
        let life = fs.lifecycle.lock();
        fs.writable()?;
        if life.is_frozen {
            return Err(Error::Busy);
        }
        let plan = fs.plan_growth(wanted)?;
        if plan.before == plan.after {
            return Ok(plan);
        }
        fs.lengthen(plan.after.size_bytes())?;
        fs.space.stop_learning();
        fs.base.changes.close();
        let grown = fs.grow(&life, &plan);
        fs.base.changes.open();
        fs.space.set_learning(&life.options);
        grown.map(|()| plan)
    }
}

impl Fs {
    fn plan_growth(&self, wanted: NewSize) -> Result<Plan> {
        let (disk, was_valid) = {
            let state = self.base.superblock.read();
            (state.disk.clone(), state.was_valid)
        };
        if disk.state & state::ERROR != 0 {
            return Err(ResizeError::Errors.into());
        }
        if !was_valid {
            return Err(ResizeError::Unclean.into());
        }
        let now_bytes = self.base.geometry.size_bytes();
        let size_bytes = match wanted {
            NewSize::Bytes(bytes) => bytes,
            NewSize::More(bytes) => now_bytes.saturating_add(bytes),
            NewSize::Device => {
                self.base.device.lengthen(now_bytes)?;
                self.base.device.size_bytes()
            }
        };
        if size_bytes < now_bytes {
            return Err(ResizeError::SmallerMounted { now_bytes }.into());
        }
        let plan = plan(&disk, size_bytes)?;
        self.space.check_growth(&plan.after)?;
        Ok(plan)
    }

    /// Makes a file as long as needed.
    fn lengthen(&self, needed_bytes: u64) -> Result<()> {
        self.base.device.lengthen(needed_bytes)?;
        let there_bytes = self.base.device.size_bytes();
        if there_bytes < needed_bytes {
            Err(ResizeError::Device {
                needed_bytes,
                there_bytes,
            }
            .into())
        } else {
            Ok(())
        }
    }

    /// Grows the file system; the caller has stopped all changes.
    fn grow(&self, life: &Lifecycle, plan: &Plan) -> Result<()> {
        self.checkpoint_all()?;
        let grown = self.grow_at_rest(life, plan);
        let thawed = self.thaw_journal();
        grown.and(thawed)
    }

    fn grow_at_rest(&self, life: &Lifecycle, plan: &Plan) -> Result<()> {
        let before = self.space.before_growth()?;
        let disk = self.base.superblock.read().disk.clone();
        let device = life.media.home.clone();
        let (log, options) = (life.log().cloned(), life.options.open_options());
        let mut volume = Volume::of_mount(device, log, disk, options)?;
        let blocks = plan.after.blocks_count;
        if let Err(cause) = grow_volume(&mut volume, blocks, DeviceContents::Unknown) {
            let cause = cause.into();
            if !self.is_as_left(life) {
                self.fail(&cause);
            }
            return Err(cause);
        }
        let taken_over = self.take_over(&before, &volume);
        taken_over.inspect_err(|cause| self.fail(cause))
    }

    /// Continues with the numbers of the larger volume.
    fn take_over(&self, before: &BeforeGrowth, volume: &Volume) -> Result<()> {
        self.base.journal.skip_foreign()?;
        self.space.grow(before, volume.superblock())?;
        self.base.superblock.write_unlogged().disk = volume.superblock().clone();
        self.base.geometry.replace(*volume.geometry());
        Ok(())
    }

    /// Whether the device has the superblock of a mount at rest: a growth changes it before any
    /// other block below the old end.
    fn is_as_left(&self, life: &Lifecycle) -> bool {
        let there = life.media.superblock_below();
        there.is_ok_and(|there| there == self.base.superblock.read().disk.to_bytes())
    }
}
