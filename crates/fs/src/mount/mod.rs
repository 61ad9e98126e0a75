//! Mounting and unmounting.
//!
//! Order: superblock, features, (replay), journal, groups, inodes, orphans. A read-only mount of a
//! dirty journal replays it into memory (an overlay); nothing on the device changes.
//!
//! References: kernel documentation, `filesystems/ext4/super.rst`, `journal.rst`, `orphan.rst`.

mod assemble;
mod close;
mod fast_commit;
mod features;
mod log;
mod mmp;
mod no_barrier;

pub(crate) use mmp::MmpGuard;
mod open;

pub use open::read_superblock;

use crate::options::Access;
use crate::{Filesystem, MountOptions, Result};
use std::sync::Arc;
use uext4_device::{BlockDevice, Overlay};

impl Filesystem {
    /// Mounts the file system on `device`: replays the journal if a crash left it full, frees
    /// orphans, and marks the file system as in use. [`Filesystem::unmount`] makes it clean again.
    ///
    /// # Errors
    /// [`crate::Error::Mount`] when the device holds no ext4, [`crate::Error::Unsupported`] names
    /// a feature that is not there, [`crate::Error::Corrupt`] the damaged structure.
    pub fn mount(device: Arc<dyn BlockDevice>, options: MountOptions) -> Result<Self> {
        let mut plan = open::inspect(&device, options)?;
        let device = match plan.options.barrier {
            true => device,
            false => no_barrier::without_flushes(device, &mut plan),
        };
        let device = match plan.options.access {
            Access::ReadOnly if plan.needs_replay => {
                // The log, too, must not be marked clean by a replay that lives in memory.
                plan.options.journal_device = plan.options.journal_device.take().map(overlay);
                overlay(device)
            }
            _ => device,
        };
        let mmp = mmp::claim(&device, &plan)?;
        open::replay(&device, &mut plan)?;
        let fs = assemble::assemble(device, plan, mmp)?;
        Ok(Self { fs: Arc::new(fs) })
    }
}

fn overlay(device: Arc<dyn BlockDevice>) -> Arc<dyn BlockDevice> {
    Arc::new(Overlay::new(device))
}
