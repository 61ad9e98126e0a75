//! A file system to check.

use uext4_device::BlockDevice;
use uext4_format::{Geometry, Superblock};
use uext4_journal::Log;
use uext4_sync::{Arc, Clock};

/// Data that files share by the feature `shared_blocks`, which allows only reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SharedData {
    /// They are no problem.
    #[default]
    Kept,
    /// A repair gives each file blocks of its own, and clears the feature.
    Parted,
}

/// A file system that no program changes during the check. Its log is empty, or was replayed.
#[derive(Clone)]
pub struct Subject {
    /// The device, with the changes of a replay in memory.
    pub device: Arc<dyn BlockDevice>,
    /// The superblock, as the replay left it.
    pub superblock: Superblock,
    /// The geometry and the features that the file system was opened with.
    pub geometry: Geometry,
    /// The log that was replayed; without one, the check looks for the log.
    pub replayed: Option<Log>,
    /// The device of an external journal.
    pub journal_device: Option<Arc<dyn BlockDevice>>,
    /// What becomes of shared data.
    pub shared_data: SharedData,
    /// The clock of the time limit.
    pub clock: Arc<dyn Clock>,
}

#[cfg(test)]
impl Subject {
    /// A new file system of 8 MiB in memory.
    pub(crate) fn of_new_image() -> Self {
        use uext4_mkfs::{MkfsOptions, Preset, format};

        let device = Arc::new(uext4_device::MemDevice::new(8 << 20));
        format(&*device, &MkfsOptions::new(Preset::Ext4)).expect("mkfs");
        let superblock = uext4_volume::superblock::read_primary(&*device, None);
        let superblock = superblock.expect("a superblock");
        Self {
            device,
            geometry: superblock.geometry().expect("a sound superblock"),
            superblock,
            replayed: None,
            shared_data: SharedData::Kept,
            journal_device: None,
            clock: Arc::new(uext4_sync::RealClock::new()),
        }
    }
}
