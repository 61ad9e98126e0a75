//! Check of inodes that the superblock names: the root, the orphan file, a journal and quota files
//! with ordinary numbers. Each has to be an inode in use of the right type, or an allocation would
//! take it for another file.

use crate::Check;
use uext4_format::{CorruptKind, DamageLocation, Feature, FileType, InodeNr};

impl Check<'_> {
    /// Behind the pass over all inodes. An inode that has a finding gets no second one.
    pub(crate) fn check_own_inodes(&mut self) {
        self.check_own(InodeNr::ROOT, FileType::Directory, "root directory");
        if self.hidden.contains(InodeNr::ROOT) {
            let problem = CorruptKind::SpecialNamed;
            self.add_problem(
                DamageLocation::Inode(InodeNr::ROOT),
                "root directory",
                problem,
            );
        }
        let disk = self.superblock;
        for (feature, nr, structure) in [
            (Feature::ORPHAN_FILE, disk.orphan_file_inum, "orphan file"),
            (Feature::HAS_JOURNAL, disk.journal_inum, "journal inode"),
            (Feature::QUOTA, disk.prj_quota_inum, "quota file"),
        ] {
            let is_there = self.geometry.features.has(feature) && nr >= self.geometry.first_inode;
            if is_there {
                self.check_own(InodeNr(nr), FileType::Regular, structure);
            }
        }
    }

    fn check_own(&mut self, nr: InodeNr, kind: FileType, structure: &'static str) {
        let problem = match self.links.kind(nr) {
            Some(found) if found != kind && kind == FileType::Directory => CorruptKind::NoDirectory,
            Some(found) if found != kind => CorruptKind::NoRegularFile,
            Some(_) if self.links.wanted(nr) > 0 => return,
            _ => CorruptKind::InodeFree,
        };
        let place = DamageLocation::Inode(nr);
        let mut findings = self.report.findings.iter();
        let is_met = findings.any(|finding| finding.corrupt.place == place);
        if !is_met && self.inode_byte(nr).is_some() {
            self.add_problem(place, structure, problem);
        }
    }
}
