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
mod freeze;
mod lifecycle;
mod log;
mod medium;
mod mmp;
mod open;
mod remount;
mod shutdown;

pub(crate) use lifecycle::Lifecycle;

pub use features::support;
pub use open::read_superblock;
pub use remount::RemountError;
pub use shutdown::Flush;

use crate::{Filesystem, MountOptions, Result};
use medium::Media;
use std::sync::Arc;
use uext4_device::BlockDevice;

impl Filesystem {
    /// Mounts the file system on `device`: replays the journal if a crash left it full, frees
    /// orphans, and marks the file system as in use. [`Filesystem::unmount`] makes it clean again.
    ///
    /// # Errors
    /// [`crate::Error::Mount`] when the device holds no ext4, [`crate::Error::Unsupported`] names
    /// a feature that is not there, [`crate::Error::Corrupt`] the damaged structure.
    pub fn mount(device: Arc<dyn BlockDevice>, options: MountOptions) -> Result<Self> {
        let mut plan = open::inspect(&device, options)?;
        let media = Media::new(device, &mut plan);
        let mmp = mmp::claim(&media.home, &plan)?;
        let device: Arc<dyn BlockDevice> = media.home.clone();
        open::replay(&device, &mut plan)?;
        let threads = plan.options.threads;
        let fs = Arc::new(assemble::assemble(media, plan, mmp)?);
        fs.start_flusher(threads);
        Ok(Self { fs })
    }
}
