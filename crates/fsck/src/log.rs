//! Check of the journal's superblock.

use crate::state::{Check, Step, Stop};
use uext4_format::{CorruptKind, DamageLocation, Feature};
use uext4_journal::Log;
use uext4_journal::recovery::read_superblock;
use uext4_volume::{Error, log};

impl Check<'_> {
    /// Checks the journal's superblock. The log's content was replayed, or is empty.
    pub(crate) fn check_log(&mut self) -> Step {
        let superblock = self.superblock;
        let has_log = self.geometry.features.has(Feature::HAS_JOURNAL);
        if superblock.journal_inum != 0 && !has_log {
            self.add_problem(
                DamageLocation::Superblock,
                "superblock",
                CorruptKind::JournalWithoutFeature,
            );
        }
        let recovers = superblock.features().has(Feature::RECOVER);
        if recovers && !has_log {
            let problem = CorruptKind::ReplayWithoutJournal;
            self.add_problem(DamageLocation::Superblock, "superblock", problem);
        }
        // e2fsck looks for the external one, and cannot check without it.
        if superblock.journal_inum != 0 && has_log && superblock.journal_uuid != [0; 16] {
            self.add_problem(
                DamageLocation::Superblock,
                "superblock",
                CorruptKind::TwoJournals,
            );
        }
        let block_size = self.geometry.block_size();
        let log = self.find_log()?;
        let found = log.as_ref().map(|log| read_superblock(log, block_size));
        let is_empty = matches!(&found, Some(Ok(found)) if found.start == 0);
        self.log = log.clone().filter(|_| is_empty);
        self.found_log = log;
        match found {
            Some(Err(uext4_journal::Error::Corrupt(corrupt))) => self.add_corrupt(&corrupt),
            Some(Err(error)) => return Err(Stop::Failed(error.into())),
            Some(Ok(found)) if found.errno != 0 => {
                self.add_problem(
                    DamageLocation::JournalBlock(0),
                    "journal",
                    CorruptKind::Stopped,
                );
            }
            Some(Ok(found)) if found.has_fields_of_version_2() => {
                let problem = CorruptKind::FieldsOfVersion2;
                self.add_problem(DamageLocation::JournalBlock(0), "journal", problem);
            }
            Some(Ok(found)) if found.has_users() && superblock.journal_uuid == [0; 16] => {
                let problem = CorruptKind::SeveralUsers;
                self.add_problem(DamageLocation::JournalBlock(0), "journal", problem);
            }
            // A repair begins behind the replay, unless the log cannot be replayed.
            Some(Ok(found)) if found.start != 0 && (!recovers || self.gate.is_some()) => {
                let problem = CorruptKind::UnreplayedRecords;
                self.add_problem(DamageLocation::JournalBlock(0), "journal", problem);
            }
            _ => {}
        }
        Ok(())
    }
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
        let mut superblock = self.superblock.clone();
        if self.gate.is_some() {
            // The replay is over, so nothing is left that a way around the inode would bring.
            let mut features = superblock.features();
            features.remove(Feature::RECOVER);
            superblock.set_features(features);
        }
        let found = log::find(&subject.device, &superblock, &self.geometry, external);
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
