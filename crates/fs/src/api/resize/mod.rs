//! Changes of the size of a file system: between mounts, after a recovery if it was not unmounted,
//! and while it is mounted (`mounted`). The work is that of `uext4-offline`.

mod mounted;

pub use mounted::NewSize;
pub use uext4_offline::{DescriptorSize, Least, Plan, ResizeReport, Size};

use crate::mount::{open_recovered, recovered_volume};
use crate::types::error::Result;
use crate::types::options::MountOptions;
use uext4_device::{BlockDevice, Overlay};
use uext4_format::Superblock;
use uext4_mkfs::DeviceContents;
use uext4_sync::Arc;

/// Plans a growth to `size_bytes`, rounded down to whole blocks (clusters with `bigalloc`).
///
/// # Errors
/// [`crate::Error::Resize`] with the reason if the file system cannot have this size.
pub fn plan(superblock: &Superblock, size_bytes: u64) -> Result<Plan> {
    Ok(uext4_offline::plan(superblock, size_bytes)?)
}

/// Grows the file system on `device`, which no other program may use meanwhile, to `size_bytes`,
/// and returns what was done; nothing, if it has this size. One that was not unmounted is recovered
/// first.
/// `contents` is what the device holds behind the present end. `options` name an external journal.
///
/// # Errors
/// [`crate::Error::Resize`] with the reason if it cannot have this size; as
/// [`crate::Filesystem::mount`]. After a failed access it has the old size or the new one.
pub fn grow(
    device: Arc<dyn BlockDevice>,
    options: MountOptions,
    size_bytes: u64,
    contents: DeviceContents,
) -> Result<Plan> {
    let options = open_recovered(&device, &options)?;
    Ok(uext4_offline::grow(device, &options, size_bytes, contents)?)
}

/// Shrinks the file system on `device`, which no other program may use meanwhile, and returns what
/// was done. One that was not unmounted is recovered first. The device keeps its size.
///
/// # Errors
/// [`crate::ResizeError::TooSmall`] with the minimum, and other [`crate::Error::Resize`]; as
/// [`crate::Filesystem::mount`]. After a failed access it has the old size, the new one, or with
/// several steps one between them, and all files.
pub fn shrink(device: Arc<dyn BlockDevice>, options: MountOptions, least: Least) -> Result<Plan> {
    let options = open_recovered(&device, &options)?;
    Ok(uext4_offline::shrink(device, &options, least)?)
}

/// Plans what [`shrink`] does, without a write.
///
/// # Errors
/// As [`shrink`].
pub fn plan_shrink(
    device: Arc<dyn BlockDevice>,
    options: MountOptions,
    least: Least,
) -> Result<Plan> {
    // The recovery and the claim write, both devices.
    let overlay = |device| -> Arc<dyn BlockDevice> { Arc::new(Overlay::new(device)) };
    let device = overlay(device);
    let options = MountOptions {
        journal_device: options.journal_device.map(overlay),
        ..options
    };
    let volume = recovered_volume(&device, &options)?;
    let plan = uext4_offline::plan_shrink(&volume, least);
    volume.release()?;
    Ok(plan?)
}

/// Gives the inodes of the file system on `device` so many bytes, a power of two up to a block. The
/// caller is the only user of the device. One that was not unmounted is recovered first. What is in
/// the inodes stays; a mount uses the room for timestamps with nanoseconds and small extended
/// attributes, with the feature `extra_isize` always.
///
/// # Errors
/// [`crate::Error::Invalid`] for a size that no file system has; [`crate::Error::NotSupported`] for
/// a smaller one than now, and without a journal; [`crate::ResizeError::Tables`] or
/// [`crate::ResizeError::OwnTables`] if a larger table has no free run,
/// [`crate::ResizeError::TableSpace`] if there is not enough space for all of them;
/// [`crate::ResizeError::Journal`] if the log cannot hold descriptors and bitmaps;
/// as [`crate::Filesystem::mount`]. Nothing has changed then.
pub fn set_inode_size(
    device: Arc<dyn BlockDevice>,
    options: MountOptions,
    inode_bytes: u16,
) -> Result<()> {
    let options = open_recovered(&device, &options)?;
    Ok(uext4_offline::set_inode_size(
        device,
        &options,
        inode_bytes,
    )?)
}

/// Gives the descriptors of the file system on `device` this size. The caller is the only user of
/// the device. One that was not unmounted is recovered first.
///
/// # Errors
/// [`crate::Error::NotSupported`] with the reason, without a journal too;
/// [`crate::ResizeError::ReservedDescriptors`] if too few blocks are reserved for wide ones;
/// [`crate::ResizeError::Journal`] if the log cannot hold all changed blocks; as
/// [`crate::Filesystem::mount`]. Nothing has changed then.
pub fn set_descriptor_size(
    device: Arc<dyn BlockDevice>,
    options: MountOptions,
    wanted: DescriptorSize,
) -> Result<()> {
    let options = open_recovered(&device, &options)?;
    Ok(uext4_offline::set_descriptor_size(
        device, &options, wanted,
    )?)
}

/// Turns the feature `resize_inode` off. The caller is the only user of the device. One that was
/// not unmounted is recovered first.
///
/// # Errors
/// [`crate::ResizeError::Journal`] if the log cannot hold all changed blocks; damage of the inode;
/// as [`crate::Filesystem::mount`]. Nothing has changed then.
pub fn free_reserved_descriptors(
    device: Arc<dyn BlockDevice>,
    options: MountOptions,
) -> Result<()> {
    let options = open_recovered(&device, &options)?;
    Ok(uext4_offline::free_reserved_descriptors(device, &options)?)
}
