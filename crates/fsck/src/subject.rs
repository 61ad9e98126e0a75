//! A file system to check: opened at rest, also where a mount refuses it.

use uext4_device::BlockDevice;
use uext4_format::{Corrupt, Feature, Geometry, Superblock};
use uext4_journal::Log;
use uext4_sync::{Arc, Clock};
use uext4_volume::{Error, Inspection, OpenOptions, Result, log};

/// A file system at rest: its log was replayed or is empty, and no program changes it during the
/// check.
pub struct Subject {
    /// The device, with the changes of a replay in memory.
    pub device: Arc<dyn BlockDevice>,
    /// The superblock after the replay.
    pub superblock: Superblock,
    /// The geometry and the features that the file system was opened with.
    pub geometry: Geometry,
    /// The log; `None` without a journal, or if the log is not found.
    pub log: Option<Log>,
    /// Why the log is not found.
    pub damage: Option<Corrupt>,
    /// The clock of the time limit.
    pub clock: Arc<dyn Clock>,
}

impl Subject {
    /// Opens a file system whose log needs no replay. Damage on the way to the log becomes a
    /// finding, and the rest is checked.
    ///
    /// # Errors
    /// Those of the device; [`Error::Mount`] for an external journal that the options do not have.
    pub fn open(
        device: Arc<dyn BlockDevice>,
        found: Inspection,
        options: &OpenOptions,
    ) -> Result<Self> {
        let (log, damage) = match find_log(&device, &found, options) {
            Err(Error::Corrupt(damage)) => (None, Some(damage)),
            there => (there?, None),
        };
        Ok(Self {
            device,
            superblock: found.superblock,
            geometry: found.geometry,
            log,
            damage,
            clock: options.clock.clone(),
        })
    }
}

fn find_log(
    device: &Arc<dyn BlockDevice>,
    found: &Inspection,
    options: &OpenOptions,
) -> Result<Option<Log>> {
    if !found.geometry.features.has(Feature::HAS_JOURNAL) {
        return Ok(None);
    }
    let external = options.journal_device.as_ref();
    log::find(device, &found.superblock, &found.geometry, external).map(Some)
}
