//! Checksums of another seed or kind, between two mounts.

use crate::mount::open_recovered;
use crate::types::error::Result;
use crate::types::options::MountOptions;
use uext4_device::BlockDevice;
use uext4_offline::Reseal;
use uext4_sync::Arc;

/// Changes the UUID or the features of checksums of the file system on `device`, and with them the
/// checksums of all its metadata. The caller is the only user of the device. One that was not
/// unmounted is recovered first.
///
/// # Errors
/// [`crate::Error::NotSupported`] with the reason, without a journal too;
/// [`crate::ResizeError::Journal`] if the log cannot hold all changed blocks;
/// [`crate::Error::NoSpace`] if a full directory block has no space for a checksum; as
/// [`crate::Filesystem::mount`]. Nothing has changed then.
pub fn reseal(device: Arc<dyn BlockDevice>, options: MountOptions, wanted: Reseal) -> Result<()> {
    let options = open_recovered(&device, &options)?;
    Ok(uext4_offline::reseal(device, &options, wanted)?)
}
