//! Check of inodes that the superblock names: the root, the orphan file, a journal and quota files
//! with ordinary numbers. Each has to be an inode in use of the right type, or an allocation would
//! take it for another file. Features that files require.

use super::slots::written_inodes;
use crate::state::Check;
use uext4_format::{CorruptKind, DamageLocation, Feature, FileType, InodeNr};
use uext4_num::usize_of;

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
        self.check_unused_numbers();
        if self.has_large_files && !self.geometry.features.has(Feature::LARGE_FILE) {
            let problem = CorruptKind::LargeWithoutFeature;
            self.add_problem(DamageLocation::Superblock, "superblock", problem);
        }
    }

    /// Without the feature, the numbers of quota files must not be those of other files, nor that
    /// of an orphan file: no name may lead to them. e2fsck takes the inode of projects for used in
    /// any case.
    fn check_unused_numbers(&mut self) {
        let disk = self.superblock;
        let first = self.geometry.first_inode;
        let is_ordinary = |nr: u32| nr >= first;
        let users = [disk.usr_quota_inum, disk.grp_quota_inum];
        let mut users = users.iter().filter(|nr| is_ordinary(**nr));
        let projects = disk.prj_quota_inum;
        let is_wrong = users.any(|nr| self.links.wanted(InodeNr(*nr)) > 0)
            || (is_ordinary(projects) && self.is_in_written_table(InodeNr(projects)));
        if is_wrong && !self.geometry.features.has(Feature::QUOTA) {
            let problem = CorruptKind::QuotaNumber;
            self.add_problem(DamageLocation::Superblock, "superblock", problem);
        }
        let has_orphan_file = self.geometry.features.has(Feature::ORPHAN_FILE);
        let orphans = InodeNr(disk.orphan_file_inum);
        if !has_orphan_file && is_ordinary(orphans.0) && self.links.wanted(orphans) > 0 {
            let problem = CorruptKind::NumberRange;
            self.add_problem(DamageLocation::Superblock, "orphan file", problem);
        }
    }

    fn is_in_written_table(&self, nr: InodeNr) -> bool {
        let Some((group, index)) = self.geometry.split_inode(nr) else {
            return false;
        };
        let descriptor = self.descriptors.get(usize_of(group.0));
        let descriptor = descriptor.and_then(Option::as_ref);
        descriptor.is_some_and(|found| index < written_inodes(found, &self.geometry))
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
