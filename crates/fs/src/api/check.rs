//! Check of the file system on a device. `uext4-check` checks it at rest; a read-only mount comes
//! before, which recovers a file system that was not unmounted.

use crate::ops::filesystem::Filesystem;
use crate::types::error::{Error, Result};
use crate::types::options::{Access, MountOptions, Threads};
use uext4_check::Subject;
use uext4_device::BlockDevice;
use uext4_sync::Arc;

pub use uext4_check::{Finding, Limits, Report};

/// Checks the file system on `device`; a journal that needs replay is replayed in memory.
///
/// # Errors
/// Those of a mount, except that damage is a [`Finding`]. An error of the device.
pub fn check(
    device: Arc<dyn BlockDevice>,
    options: MountOptions,
    limits: &Limits,
) -> Result<Report> {
    let options = MountOptions {
        access: Access::ReadOnly,
        threads: Threads::Inline,
        prefetch_bitmaps: false,
        ..options
    };
    match Filesystem::mount(device, options) {
        Err(Error::Corrupt(corrupt) | Error::Journal(uext4_journal::Error::Corrupt(corrupt))) => {
            Ok(Report::of_damage(corrupt, limits))
        }
        mounted => Ok(uext4_check::check(&subject(&mounted?), limits)?),
    }
}

/// The file system of a mount that changes nothing.
fn subject(mounted: &Filesystem) -> Subject {
    let base = &mounted.fs.base;
    let log = mounted.fs.lifecycle.lock().log().cloned();
    let superblock = base.superblock.read().disk.clone();
    Subject {
        device: base.device.clone(),
        superblock,
        geometry: *base.geometry,
        log,
        orphan_file: mounted.fs.orphans.in_file().collect(),
        clock: base.clock.clone(),
    }
}
