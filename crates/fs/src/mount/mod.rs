//! Mount and unmount.
//!
//! Order: superblock, features, (replay), journal, groups, inodes, orphans. A read-only mount is
//! writable while it recovers from a crash, as in the kernel. If the device is read-only, it
//! replays the journal in memory (an overlay) and leaves orphans alone.
//!
//! References: kernel documentation, `filesystems/ext4/super.rst`, `journal.rst`, `orphan.rst`.

mod assemble;
mod background;
mod close;
mod fast_commit;
mod freeze;
mod open;
mod quiesce;
mod recovered;
mod remount;
mod shutdown;

pub use recovered::refuse_other_hosts;
pub(crate) use recovered::{check_sound, open_recovered, recovered_volume};
pub use shutdown::Flush;

use crate::ops::filesystem::Filesystem;
use crate::state::engine::Fs;
use crate::types::error::Result;
use crate::types::options::{Access, MountOptions};
use open::{Plan, Purpose};
use uext4_device::BlockDevice;
use uext4_sync::{Arc, shard_index};
use uext4_volume::mmp;

impl Filesystem {
    /// Mounts the file system on `device`: replays the journal after a crash, frees orphans, and
    /// marks the file system in use. [`Filesystem::unmount`] marks it clean again. A read-only
    /// mount also recovers and marks it clean, if the device takes writes; otherwise, or with
    /// `noload`, or if the recovery fails, the device stays unchanged.
    ///
    /// # Errors
    /// [`crate::Error::Mount`] if the device holds no ext4, [`crate::Error::Unsupported`] names an
    /// unsupported feature, [`crate::Error::Corrupt`] the damaged structure.
    pub fn mount(device: Arc<dyn BlockDevice>, options: MountOptions) -> Result<Self> {
        // Shards are numbered at first use, and choose the group of a new inode. Taken before any
        // thread starts, the caller's does not depend on which of them runs first.
        shard_index();
        let mut plan = open::inspect(&device, options.clone())?;
        if open::recovers_first(&*device, &plan) {
            if let Ok(recovered) = Self::recover_and_read(device.clone(), plan) {
                return Ok(recovered);
            }
            // The failed recovery may have changed the device: its log may hold transactions now.
            plan = open::inspect(&device, options)?;
        }
        Self::assemble(device, plan)
    }

    fn assemble(device: Arc<dyn BlockDevice>, mut plan: Plan) -> Result<Self> {
        let media = plan.media(device)?;
        let mmp = mmp::claim(media.claim(), plan.options.access)?;
        if mmp.is_some() {
            // Another host may have written the device until the claim.
            media.home.base().forget_cache();
            open::inspect_again(media.home.base(), &mut plan)?;
        }
        let device: Arc<dyn BlockDevice> = media.home.clone();
        open::replay(&device, &mut plan)?;
        let threads = plan.options.threads;
        let claim = media.claim().cloned();
        let fs = Arc::new(assemble::assemble(media, plan, mmp)?);
        claim.inspect(|claim| claim.watch(&fs.base.journal));
        fs.start_flusher(threads);
        Ok(Self::new(fs, Fs::close))
    }

    /// A read-only mount that is writable until it has recovered.
    fn recover_and_read(device: Arc<dyn BlockDevice>, mut plan: Plan) -> Result<Self> {
        plan.options.access = Access::ReadWrite;
        plan.purpose = Purpose::Recovery;
        let mounted = Self::assemble(device, plan)?;
        mounted.remount("ro")?;
        Ok(mounted)
    }
}
