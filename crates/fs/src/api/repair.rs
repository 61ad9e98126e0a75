//! Repair of the file system on a device. `uext4-fsck` repairs it at rest ([`Repair`]); before that
//! a mount replays the log, with its fast commits, and frees orphans.

use crate::ops::filesystem::Filesystem;
use crate::types::error::{Error, Result};
use crate::types::options::{Access, MountOptions, Threads};
use uext4_device::BlockDevice;
use uext4_format::{Feature, Superblock};
use uext4_fsck::{Repair, SharedData};
use uext4_sync::Arc;
use uext4_volume::superblock::read_primary;
use uext4_volume::{Purpose, may_write};

pub use uext4_fsck::{
    Decision, Decisions, Finding, Limits, Optimised, Preen, Problem, RepairAll, RepairReport,
    RepairSafe, code, undo,
};

/// Replays the log, then checks the file system on `device` and repairs it as `decisions` say.
///
/// A damaged primary superblock is replaced by a backup first, if `decisions` accept that; with
/// [`MountOptions::superblock_kib`] it is replaced by that backup in any case. At the end the file
/// system is marked as checked, and as clean if nothing is left to repair. It must not be mounted;
/// other hosts are kept out by its MMP block, if it has one.
///
/// # Errors
/// Those of a mount; [`Error::ReadOnly`]; an error of the device.
pub fn repair(
    device: Arc<dyn BlockDevice>,
    options: MountOptions,
    decisions: &mut dyn Decisions,
    limits: &Limits,
) -> Result<RepairReport> {
    repair_with(SharedData::Kept, device, options, decisions, limits)
}

/// As [`repair`], and gives each file blocks of its own, so that the feature `shared_blocks` goes
/// and the file system can be written. Without space for all of them the feature stays.
///
/// # Errors
/// As [`repair`].
pub fn unshare_blocks(
    device: Arc<dyn BlockDevice>,
    options: MountOptions,
    decisions: &mut dyn Decisions,
    limits: &Limits,
) -> Result<RepairReport> {
    repair_with(SharedData::Parted, device, options, decisions, limits)
}

fn repair_with(
    shared_data: SharedData,
    device: Arc<dyn BlockDevice>,
    options: MountOptions,
    decisions: &mut dyn Decisions,
    limits: &Limits,
) -> Result<RepairReport> {
    let open_options = options.options_for(Purpose::Structures);
    let repair = Repair::new(Arc::clone(&device)).opened_by(open_options);
    let mut repair = repair.decisions(decisions).limits(limits.clone());
    repair = repair.shared_data(shared_data);
    if let Some(left) = repair.restore()? {
        return Ok(RepairReport::of_left(left));
    }
    let options = MountOptions {
        superblock_kib: None,
        ..options
    };
    recover(&device, &options)?;
    let report = repair.repair_replayed()?;
    if report.is_sound() {
        // Orphans that damage kept before.
        recover(&device, &options)?;
    }
    Ok(report)
}

/// Builds directories anew that become smaller by that, or get an index, as `e2fsck -D` does. The
/// file system must be sound, and not mounted.
///
/// # Errors
/// As [`repair`].
pub fn optimise(
    device: Arc<dyn BlockDevice>,
    options: MountOptions,
    limits: &Limits,
) -> Result<Optimised> {
    let options = MountOptions {
        superblock_kib: None,
        ..options
    };
    recover(&device, &options)?;
    let repair = Repair::new(device).opened_by(options.options_for(Purpose::Structures));
    Ok(repair.limits(limits.clone()).optimise()?)
}

/// Whether a mount has something to do before a check: a log to replay, or orphans to free.
pub fn needs_recovery(disk: &Superblock) -> bool {
    let features = disk.features();
    features.has(Feature::RECOVER) || features.has(Feature::ORPHAN_PRESENT) || disk.last_orphan != 0
}

/// Replays the log and frees orphans by a mount, if either is due. Where damage prevents a mount,
/// or features of names and data that a mount refuses, the log is replayed without one, so that
/// fast commits are lost, and orphans are left to the check.
///
/// # Errors
/// As [`repair`].
pub fn recover(device: &Arc<dyn BlockDevice>, options: &MountOptions) -> Result<()> {
    let disk = read_primary(&**device, None)?;
    if !needs_recovery(&disk) {
        return Ok(());
    }
    let journal = options.journal_device.clone();
    let options = MountOptions {
        access: Access::ReadWrite,
        threads: Threads::Inline,
        prefetch_bitmaps: false,
        ..options.clone()
    };
    if !may_write(&disk) {
        let repair = Repair::new(Arc::clone(device));
        let repair = repair.opened_by(options.options_for(Purpose::Structures));
        return Ok(repair.replay()?);
    }
    match Filesystem::mount(device.clone(), options) {
        Ok(mounted) => mounted.unmount(),
        Err(Error::Corrupt(_) | Error::Journal(uext4_journal::Error::Corrupt(_))) => {
            if disk.features().has(Feature::RECOVER) {
                uext4_fsck::replay(device, journal.as_ref())?;
            }
            Ok(())
        }
        Err(error) => Err(error),
    }
}
