//! The file system of a device between two mounts: recovered by a mount if it was not unmounted,
//! and claimed for a change that no mount can follow.

use super::open;
use crate::ops::filesystem::Filesystem;
use crate::types::error::Result;
use crate::types::options::MountOptions;
use uext4_device::BlockDevice;
use uext4_sync::Arc;
use uext4_volume::{OpenOptions, Volume, check_state};

/// Recovers the file system if it was not unmounted; returns how it is opened then. One that e2fsck
/// has to repair stays as it is: [`Volume::claim`] refuses it.
///
/// # Errors
/// As [`Filesystem::mount`].
pub(crate) fn open_recovered(
    device: &Arc<dyn BlockDevice>,
    options: &MountOptions,
) -> Result<OpenOptions> {
    let mut plan = open::inspect(device, options.clone())?;
    if plan.recovering && check_state(&plan.superblock).is_ok() {
        let mounted = Filesystem::mount(Arc::clone(device), options.clone())?;
        mounted.check_writable()?;
        mounted.unmount()?;
        // The replay may have changed the options in the superblock.
        plan = open::inspect(device, options.clone())?;
    }
    Ok(OpenOptions {
        superblock_kib: options.superblock_kib,
        ..plan.options.open_options()
    })
}

/// Claims the file system, recovered as by [`open_recovered`].
///
/// # Errors
/// As [`open_recovered`] and [`Volume::claim`].
pub(crate) fn recovered_volume(
    device: &Arc<dyn BlockDevice>,
    options: &MountOptions,
) -> Result<Volume> {
    let options = open_recovered(device, options)?;
    Ok(Volume::claim(device.clone(), &options)?)
}

/// Recovers a file system that was not unmounted, and checks that a change may begin.
///
/// # Errors
/// As [`recovered_volume`].
pub(crate) fn check_sound(device: &Arc<dyn BlockDevice>, options: &MountOptions) -> Result<()> {
    Ok(recovered_volume(device, options)?.release()?)
}

/// Refuses a file system that another host has mounted, after waiting for a change of its block;
/// for writers without a mount. Without MMP, or without ext4, it accepts.
///
/// # Errors
/// [`uext4_device::Error::Busy`] names the host. Errors of the device and of damage.
pub fn refuse_other_hosts(device: &Arc<dyn BlockDevice>) -> Result<()> {
    Ok(uext4_volume::mmp::refuse_other_hosts(device)?)
}
