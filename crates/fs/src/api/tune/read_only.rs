//! The end of the feature `read-only`, which keeps mounts from writing.

use super::{Tuning, reserved};
use crate::ops::filesystem::Filesystem;
use crate::state::superblock::read_superblock;
use crate::types::error::{Error, Result};
use crate::types::options::{Access, MountOptions};
use uext4_device::BlockDevice;
use uext4_format::Feature;
use uext4_sync::Arc;
use uext4_volume::check_state;
use uext4_volume::mmp;

/// Takes the feature `read-only` from a file system that is not mounted, by one write of the
/// superblock; a mount then writes its backups. The caller is the only user of the device.
///
/// # Errors
/// [`Error::NotSupported`] if its log would have to be replayed first; [`Error::Resize`] if e2fsck
/// has to run first. Those of mounts.
pub fn clear_read_only(device: &Arc<dyn BlockDevice>, options: &MountOptions) -> Result<()> {
    let disk = read_superblock(&**device, None)?;
    if !disk.features().has(Feature::READONLY) {
        return Ok(());
    }
    let claim = mmp::Claim::new(device, &disk, &options.clock)?;
    let held = mmp::claim(claim.as_ref(), Access::ReadWrite)?;
    // What was read before may be another host's by now.
    device.forget_cache();
    let done = change(device);
    let released = held.map_or(Ok(()), |held| held.release());
    done.and(released.map_err(Error::from))?;
    let fs = Filesystem::mount(device.clone(), options.clone())?;
    fs.tune(&Tuning::default())?;
    fs.unmount()
}

fn change(device: &Arc<dyn BlockDevice>) -> Result<()> {
    let disk = read_superblock(&**device, None)?;
    check_state(&disk)?;
    if disk.features().has(Feature::RECOVER) {
        return Err(Error::NotSupported(
            "its journal has to be replayed first, by `uext4 fsck -f`",
        ));
    }
    reserved::write_superblock(device, |disk| {
        let mut features = disk.features();
        features.remove(Feature::READONLY);
        disk.set_features(features);
    })
}
