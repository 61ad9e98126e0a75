//! Check of the file system on a device. `uext4-fsck` checks it at rest. If the log has to be
//! replayed, a read-only mount does that in memory before; features of names and data that a mount
//! refuses do not matter to a check, which replays the log without fast commits then.

use crate::ops::filesystem::Filesystem;
use crate::types::error::{Error, Result};
use crate::types::options::{Access, MountOptions, Threads};
use uext4_device::{BlockDevice, Overlay, ReadOnly};
use uext4_format::{Feature, Superblock};
use uext4_fsck::{SharedData, Subject};
use uext4_sync::Arc;
use uext4_volume::superblock::{read_primary, write_superblock};
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
        journal_device: options.journal_device.map(read_only),
        ..options
    };
    match opened(read_only(device), options) {
        Err(Error::Corrupt(corrupt) | Error::Journal(uext4_journal::Error::Corrupt(corrupt))) => {
            Ok(CheckReport::of_damage(corrupt, limits))
        }
        opened => Ok(uext4_fsck::check(&opened?.subject, limits)?),
    }
}

fn read_only(device: Arc<dyn BlockDevice>) -> Arc<dyn BlockDevice> {
    Arc::new(ReadOnly::new(device))
}

/// The device, with changes in memory.
fn in_memory(device: Arc<dyn BlockDevice>) -> Arc<dyn BlockDevice> {
    Arc::new(Overlay::new(device))
}

/// Refuses a log with fast commits, as far as the superblock tells, where no mount replays them.
pub(super) fn refuse_fast_commits(disk: &Superblock) -> Result<()> {
    let features = disk.features();
    if features.has(Feature::RECOVER) && features.has(Feature::FAST_COMMIT) {
        return Err(Error::Unsupported(
            "fast_commit beside encrypt, casefold or verity, with a log to replay",
        ));
    }
    Ok(())
}

/// A file system to check, and the mount that recovered it.
struct Opened {
    subject: Subject,
    _recovered: Option<Filesystem>,
}

fn opened(device: Arc<dyn BlockDevice>, options: MountOptions) -> Result<Opened> {
    let superblock = read_primary(&*device, options.superblock_kib)?;
    let mut settled = options.clone().settled(&superblock)?;
    let mut open_options = settled.options_for(Purpose::Structures);
    let mut found = Inspection::of(&*device, superblock, &open_options)?;
    let mut device = device;
    if found.needs_replay {
        match Filesystem::mount(Arc::clone(&device), options) {
            Ok(mounted) => {
                return Ok(Opened {
                    subject: recovered(&mounted),
                    _recovered: Some(mounted),
                });
            }
            Err(Error::Unsupported(_)) => {}
            Err(error) => return Err(error),
        }
        refuse_fast_commits(&found.superblock)?;
        device = in_memory(device);
        if settled.superblock_kib.is_some() {
            write_superblock(&*device, &found.superblock)?;
        }
        settled.journal_device = settled.journal_device.map(in_memory);
        uext4_fsck::replay(&device, settled.journal_device.as_ref())?;
        open_options.superblock_kib = None;
        found = Inspection::new(&*device, &open_options)?;
    }
    let subject = Subject {
        device,
        superblock: found.superblock,
        geometry: found.geometry,
        replayed: None,
        shared_data: SharedData::Kept,
        journal_device: settled.journal_device,
        clock: settled.clock,
    };
    Ok(Opened {
        subject,
        _recovered: None,
    })
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
