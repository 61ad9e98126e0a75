//! Replay of the log without a mount, for a file system that a mount refuses.
//!
//! Not here: fast commits, which only a mount can replay; they are given up.

use uext4_device::BlockDevice;
use uext4_format::{Feature, Superblock};
use uext4_journal::recovery::{self, RecoveryMode};
use uext4_sync::Arc;
use uext4_volume::superblock::{read_primary, write_superblock};
use uext4_volume::{Error, Result, keep_errors, log};

/// Replays the log of the file system on `device`, and says in the superblock that it is done.
/// Images that do not match their checksum are left out. Where the log itself is damaged, nothing
/// is replayed, and a check says what is wrong.
///
/// # Errors
/// Those of the device; [`Error::Mount`] for an external journal that `external` is not.
pub fn replay(
    device: &Arc<dyn BlockDevice>,
    external: Option<&Arc<dyn BlockDevice>>,
) -> Result<()> {
    match replay_sound(device, external) {
        Err(Error::Corrupt(_) | Error::Journal(uext4_journal::Error::Corrupt(_))) => Ok(()),
        replayed => replayed,
    }
}

/// Refuses a log with fast commits, as far as the superblock tells, where no mount replays them.
///
/// # Errors
/// [`Error::Unsupported`].
pub(crate) fn refuse_fast_commits(disk: &Superblock) -> Result<()> {
    let features = disk.features();
    if features.has(Feature::RECOVER) && features.has(Feature::FAST_COMMIT) {
        return Err(Error::Unsupported(
            "fast commits to replay, which a mount does, and uext4::check",
        ));
    }
    Ok(())
}

fn replay_sound(
    device: &Arc<dyn BlockDevice>,
    external: Option<&Arc<dyn BlockDevice>>,
) -> Result<()> {
    let before = read_primary(&**device, None)?;
    let geometry = before.geometry()?;
    let log = log::find(device, &before, &geometry, external)?;
    let block_size = geometry.block_size();
    let report = recovery::recover(&log, device, block_size, RecoveryMode::Salvage)?;
    if !report.was_clean && report.fast_commit.is_some() {
        recovery::mark_clean(&log, block_size, &report)?;
    }
    let mut disk = read_primary(&**device, None)?;
    keep_errors(&mut disk, &before);
    let mut features = disk.features();
    features.remove(Feature::RECOVER);
    disk.set_features(features);
    write_superblock(&**device, &disk)
}
