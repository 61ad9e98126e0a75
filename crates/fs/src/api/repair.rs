//! Repair of the file system on a device. `uext4-fsck` repairs it at rest; before that a mount
//! replays the log, with its fast commits, and frees orphans.

use crate::api::check::refuse_fast_commits;
use crate::ops::filesystem::Filesystem;
use crate::types::error::{Error, Result};
use crate::types::options::{Access, MountOptions, Threads};
use uext4_device::BlockDevice;
use uext4_format::{Feature, Superblock};
use uext4_fsck::{Restoration, SharedData, Subject};
use uext4_sync::Arc;
use uext4_volume::mmp::{self, Claim, MmpGuard};
use uext4_volume::superblock::read_primary;
use uext4_volume::{Inspection, Media, Purpose, Writes, access_for, may_write};

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
    let restoration = Restoration::find(&*device, options.superblock_kib)?;
    let is_restored = restoration.is_some();
    let options = MountOptions {
        superblock_kib: None,
        ..options
    };
    if let Some(restoration) = restoration {
        if let Some(left) = restoration.refused(decisions) {
            return Ok(RepairReport {
                left: vec![left],
                ..RepairReport::default()
            });
        }
        let disk = restoration.superblock().clone();
        under_claim(
            &device,
            &disk,
            &options,
            || Ok(restoration.write(&*device)?),
        )?;
    }
    recover(&device, &options)?;
    let (mut subject, mmp) = claimed(device.clone(), &options)?;
    subject.shared_data = shared_data;
    let repaired = uext4_fsck::repair(subject, decisions, limits);
    mmp.map_or(Ok(()), |mmp| mmp.release())?;
    let mut report = repaired?;
    report.n_repaired += u64::from(is_restored);
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
    let (subject, mmp) = claimed(device, &options)?;
    let optimised = uext4_fsck::optimise(subject, limits);
    mmp.map_or(Ok(()), |mmp| mmp.release())?;
    Ok(optimised?)
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
        return recover_structures(device, &disk, &options);
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

/// Replays the log of a file system that no mount here writes.
fn recover_structures(
    device: &Arc<dyn BlockDevice>,
    disk: &Superblock,
    options: &MountOptions,
) -> Result<()> {
    refuse_fast_commits(disk)?;
    under_claim(device, disk, options, || {
        if read_primary(&**device, None)?
            .features()
            .has(Feature::RECOVER)
        {
            uext4_fsck::replay(device, options.journal_device.as_ref())?;
        }
        Ok(())
    })
}

/// Makes a change before a mount, while other hosts are kept out by the MMP block.
fn under_claim(
    device: &Arc<dyn BlockDevice>,
    disk: &Superblock,
    options: &MountOptions,
    change: impl FnOnce() -> Result<()>,
) -> Result<()> {
    if access_for(Purpose::Structures, disk, Access::ReadWrite)? == Access::ReadOnly {
        return Err(Error::ReadOnly);
    }
    let clock = options.clone().settled(disk)?.clock;
    let claim = Claim::new(device, disk, &clock)?;
    let mmp = match mmp::claim(claim.as_ref(), Access::ReadWrite) {
        // A damaged block keeps no host out.
        Err(uext4_volume::Error::Corrupt(_)) => None,
        claimed => claimed?,
    };
    let done = change();
    mmp.map_or(Ok(()), |mmp| mmp.release())?;
    done
}

/// The file system to repair, kept from other hosts.
fn claimed(
    device: Arc<dyn BlockDevice>,
    options: &MountOptions,
) -> Result<(Subject, Option<MmpGuard>)> {
    let disk = read_primary(&*device, None)?;
    let settled = options.clone().settled(&disk)?;
    let open_options = settled.options_for(Purpose::Structures);
    let mut found = Inspection::of(&*device, disk, &open_options)?;
    if found.access != Access::ReadWrite {
        return Err(Error::ReadOnly);
    }
    let claim = Claim::new(&device, &found.superblock, &settled.clock)?;
    let media = Media::new(
        device,
        settled.journal_device.clone(),
        claim,
        Writes::Device,
    );
    let mmp = match mmp::claim(media.claim(), found.access) {
        // The repair writes a new block.
        Err(uext4_volume::Error::Corrupt(_)) => None,
        claimed => claimed?,
    };
    if mmp.is_some() {
        media.home.base().forget_cache();
        found = Inspection::new(&**media.home.base(), &open_options)?;
    }
    let subject = Subject {
        journal_device: media.journal_device(),
        device: media.home.clone(),
        superblock: found.superblock,
        geometry: found.geometry,
        replayed: None,
        shared_data: SharedData::Kept,
        clock: settled.clock,
    };
    Ok((subject, mmp))
}
