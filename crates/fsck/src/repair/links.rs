//! Repair of link counts, and of empty files without a name.

use super::Outcome;
use super::patch::Patch;
use crate::report::Finding;
use crate::state::Step;
use uext4_format::{CorruptKind, Feature, InodeNr};
use uext4_num::{low_u32, nonnegative};

/// Most links of a directory; with more it says 1, which the feature `dir_nlink` allows.
const DIRECTORY_LINKS_MAX: u16 = 65_000;
const MANY_LINKS: u16 = 1;

impl Patch<'_, '_> {
    pub(super) fn repair_links(&mut self, nr: InodeNr, findings: &[Finding]) -> Step<Outcome> {
        let Some(mut inode) = self.inode(nr)? else {
            return Ok(Outcome::Impossible);
        };
        let mut problems = findings.iter().map(|finding| finding.corrupt.problem);
        if problems.any(|problem| problem == CorruptKind::UnnamedEmpty) {
            inode.links = 0;
            inode.dtime = low_u32(nonnegative(self.check.clock.wall().seconds));
        } else {
            inode.links = self.links_of(nr);
        }
        self.write_inode(nr, &inode)?;
        Ok(Outcome::Repaired)
    }

    /// The count of the names that were found.
    fn links_of(&mut self, nr: InodeNr) -> u16 {
        let found = self.check.links.n_names(nr);
        let is_dir = self.check.links.is_directory(nr);
        if !is_dir || found <= DIRECTORY_LINKS_MAX {
            return found;
        }
        let mut features = self.superblock.features();
        features.insert(Feature::DIR_NLINK);
        self.superblock.set_features(features);
        MANY_LINKS
    }
}
