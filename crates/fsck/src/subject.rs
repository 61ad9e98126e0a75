//! A file system to check.

use crate::{Check, Step, Stop};
use uext4_device::BlockDevice;
use uext4_format::{Feature, Geometry, Superblock};
use uext4_journal::Log;
use uext4_sync::{Arc, Clock};
use uext4_volume::{Error, log};

/// A file system that no program changes during the check. Its log is empty, or was replayed.
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
    /// The clock of the time limit.
    pub clock: Arc<dyn Clock>,
}

/// Memory for each group while the log is looked for, beside its descriptor, in bytes.
const GROUP_BYTES: u64 = 64;

impl Check<'_> {
    /// The log; `None` without a journal, or with damage on the way to it, which is a finding.
    pub(crate) fn find_log(&mut self) -> Step<Option<Log>> {
        let subject = self.subject;
        if subject.replayed.is_some() || !self.geometry.features.has(Feature::HAS_JOURNAL) {
            return Ok(subject.replayed.clone());
        }
        let per_group = u64::from(self.geometry.desc_size) + GROUP_BYTES;
        let bytes = u64::from(self.geometry.group_count) * per_group;
        self.take(bytes)?;
        let external = subject.journal_device.as_ref();
        let found = log::find(&subject.device, self.superblock, &self.geometry, external);
        self.give_back(bytes);
        match found {
            Ok(log) => Ok(Some(log)),
            Err(Error::Corrupt(damage)) => {
                self.add_early(&damage);
                Ok(None)
            }
            Err(error) => Err(Stop::Failed(error)),
        }
    }
}
