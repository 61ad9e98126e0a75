//! Repair of the orphan file: its blocks without slots, or no file.

use super::Outcome;
use super::patch::Patch;
use crate::report::Finding;
use crate::state::Step;
use uext4_format::orphan_file::{orphan_slots_per_block, seal_orphan_block, set_orphan_slot};
use uext4_format::{CorruptKind, DamageLocation, Feature, InodeNr};

impl Patch<'_, '_> {
    /// Empties the blocks. Inodes that they named are problems of later passes. A file that cannot
    /// be read, or whose blocks do not have its magic number, is forgotten: the next mount works
    /// without one.
    pub(super) fn repair_orphan_file(&mut self, findings: &[Finding]) -> Step<Outcome> {
        let mut features = self.superblock.features();
        features.remove(Feature::ORPHAN_PRESENT);
        let is_claim_only = findings
            .iter()
            .all(|finding| finding.corrupt.problem == CorruptKind::OrphansClaimed);
        let is_readable = findings.iter().all(|finding| {
            let at_block = matches!(finding.corrupt.place, DamageLocation::Block(_));
            let is_content = matches!(
                finding.corrupt.problem,
                CorruptKind::Checksum { .. } | CorruptKind::NumberRange
            );
            (at_block && is_content) || finding.corrupt.problem == CorruptKind::OrphansDenied
        });
        let is_kept = is_claim_only || (is_readable && self.empty_orphan_blocks()?);
        if !is_kept {
            features.remove(Feature::ORPHAN_FILE);
            self.superblock.orphan_file_inum = 0;
        }
        self.superblock.set_features(features);
        Ok(Outcome::Repaired)
    }

    /// False if the file cannot be read.
    fn empty_orphan_blocks(&mut self) -> Step<bool> {
        let nr = InodeNr(self.superblock.orphan_file_inum);
        let Some(inode) = self.inode(nr)? else {
            return Ok(false);
        };
        let Some(blocks) = self.check.orphan_blocks(nr, &inode)? else {
            return Ok(false);
        };
        let seed = self.check.checksums.inode_seed(nr, inode.generation);
        for block in blocks {
            let mut bytes = self.read(block)?;
            for slot in 0..orphan_slots_per_block(bytes.len()) {
                set_orphan_slot(&mut bytes, slot, None);
            }
            seal_orphan_block(&mut bytes, block, seed);
            self.write(block, bytes)?;
        }
        Ok(true)
    }
}
