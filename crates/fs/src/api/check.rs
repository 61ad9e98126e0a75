//! Check of the file system on a device. `uext4-fsck` checks it at rest ([`Check`]). If the log has
//! to be replayed, a read-only mount does that in memory before, with its fast commits; features of
//! names and data that a mount refuses do not matter to a check, which replays the log itself then.

use crate::ops::filesystem::Filesystem;
use crate::types::error::{Error, Result};
use crate::types::options::{Access, MountOptions, Threads};
use uext4_device::{BlockDevice, ReadOnly};
use uext4_fsck::{Check, SharedData, Subject};
use uext4_sync::Arc;
use uext4_volume::superblock::read_primary;
use uext4_volume::{Inspection, Purpose};

pub use uext4_fsck::{CheckReport, Finding, Limits, Pass, Watch};

/// Checks the file system on `device`, which is not written; a log that needs replay is replayed in
/// memory.
///
/// # Errors
/// Those of a mount, except that damage is a [`Finding`]. An error of the device.
pub fn check(
    device: Arc<dyn BlockDevice>,
    options: MountOptions,
    limits: &Limits,
) -> Result<CheckReport> {
    let options = MountOptions {
        access: Access::ReadOnly,
        threads: Threads::Inline,
        prefetch_bitmaps: false,
        journal_device: options
            .journal_device
            .map(|journal| -> Arc<dyn BlockDevice> { Arc::new(ReadOnly::new(journal)) }),
        ..options
    };
    match checked(Arc::new(ReadOnly::new(device)), options, limits) {
        Err(Error::Corrupt(corrupt) | Error::Journal(uext4_journal::Error::Corrupt(corrupt))) => {
            Ok(CheckReport::of_damage(corrupt, limits))
        }
        checked => checked,
    }
}

fn checked(
    device: Arc<dyn BlockDevice>,
    options: MountOptions,
    limits: &Limits,
) -> Result<CheckReport> {
    let superblock = read_primary(&*device, options.superblock_kib)?;
    let settled = options.settled(&superblock)?;
    let open_options = settled.options_for(Purpose::Structures);
    let found = Inspection::of(&*device, superblock, &open_options)?;
    if found.needs_replay {
        match Filesystem::mount(Arc::clone(&device), options) {
            Ok(mounted) => {
                let check = Check::of(recovered(&mounted));
                return Ok(check.limits(limits.clone()).run()?);
            }
            Err(Error::Unsupported(_)) => {}
            Err(error) => return Err(error),
        }
    }
    let check = Check::new(device).opened_by(open_options);
    Ok(check.limits(limits.clone()).run()?)
}

/// The file system of a mount that changes nothing.
fn recovered(mounted: &Filesystem) -> Subject {
    let base = &mounted.fs.base;
    let replayed = mounted.fs.lifecycle.lock().log().cloned();
    let superblock = base.superblock.read().disk.clone();
    Subject {
        device: base.device.clone(),
        superblock,
        geometry: *base.geometry,
        replayed,
        shared_data: SharedData::Kept,
        journal_device: None,
        clock: base.clock.clone(),
    }
}
