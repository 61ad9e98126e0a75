//! Repair of the journal's superblock and of the MMP block.

use super::Outcome;
use super::patch::Patch;
use crate::report::Finding;
use crate::state::{Step, Stop};
use uext4_format::mmp::Mmp;
use uext4_format::{BlockNr, CorruptKind, Feature};
use uext4_journal::recovery;

impl Patch<'_, '_> {
    /// Rewrites the superblock of the log without what is wrong in it, or makes a new one. It may
    /// be on another device than the file system, so it is written at once.
    pub(super) fn repair_log(&mut self, findings: &[Finding]) -> Step<Outcome> {
        let Some(log) = self.check.found_log.clone() else {
            return Ok(Outcome::Impossible);
        };
        let block_size = self.check.geometry.block_size();
        let is_lost = findings.iter().any(|finding| {
            finding.corrupt.structure == "journal superblock"
                || finding.corrupt.problem == CorruptKind::UnreplayedRecords
        });
        let mut problems = findings.iter().map(|finding| finding.corrupt.problem);
        let repaired = if problems.any(|problem| problem == CorruptKind::SeveralUsers) {
            recovery::forget_users(&log, block_size)
        } else if is_lost {
            recovery::reset(&log, block_size, self.superblock.uuid)
        } else {
            recovery::rewrite_superblock(&log, block_size)
        };
        repaired.map_err(|error| Stop::Failed(error.into()))?;
        Ok(Outcome::Repaired)
    }

    /// Writes the block of a file system that is not in use. A block without the magic number may
    /// hold anything, so it stays, and the file system does without protection.
    pub(super) fn repair_mmp(&mut self, findings: &[Finding]) -> Step<Outcome> {
        let mut problems = findings.iter().map(|finding| finding.corrupt.problem);
        if problems.any(|problem| matches!(problem, CorruptKind::Magic { .. })) {
            let mut features = self.superblock.features();
            features.remove(Feature::MMP);
            self.superblock.set_features(features);
            self.superblock.mmp_block = 0;
            return Ok(Outcome::Repaired);
        }
        let nr = BlockNr(self.superblock.mmp_block);
        let mut bytes = self.read(nr)?;
        let mmp = Mmp::clean(self.superblock.mmp_update_interval);
        mmp.write_to(&mut bytes, &self.check.checksums);
        self.write(nr, bytes)?;
        Ok(Outcome::Repaired)
    }
}
