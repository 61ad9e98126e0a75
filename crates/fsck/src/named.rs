//! Check of structures that the superblock names: quota inodes, the MMP block.

use crate::state::{Check, Step};
use uext4_format::mmp::{MMP_SEQ_CLEAN, MMP_SEQ_MAX, Mmp};
use uext4_format::{BlockNr, CorruptKind, DamageLocation, Feature, InodeNr};

impl Check<'_> {
    /// Checks the MMP block; another pass claims it.
    pub(crate) fn check_mmp(&mut self) -> Step {
        let nr = BlockNr(self.superblock.mmp_block);
        if !self.geometry.features.has(Feature::MMP) {
            return Ok(());
        }
        if !self.may_map(&(nr.0..nr.0.saturating_add(1))) {
            let problem = CorruptKind::MmpOutside;
            self.add_problem(DamageLocation::Superblock, "superblock", problem);
            return Ok(());
        }
        let bytes = self.read(nr)?;
        match Mmp::parse(&bytes, nr, &self.checksums) {
            Err(corrupt) => self.add_corrupt(&corrupt),
            Ok(mmp) if mmp.sequence > MMP_SEQ_MAX && mmp.sequence != MMP_SEQ_CLEAN => {
                let problem = CorruptKind::MmpSequence;
                self.add_problem(DamageLocation::Block(nr), "mmp block", problem);
            }
            Ok(_) => {}
        }
        Ok(())
    }

    pub(crate) fn check_quota_numbers(&mut self) {
        let disk = self.superblock;
        let has_quota = self.geometry.features.has(Feature::QUOTA);
        let geometry = &self.geometry;
        let projects = disk.prj_quota_inum;
        let all = [disk.usr_quota_inum, disk.grp_quota_inum, projects];
        let is_projects_file =
            projects >= geometry.first_inode && geometry.contains_inode(InodeNr(projects));
        let is_wrong = [
            ![0, InodeNr::USER_QUOTA.0].contains(&disk.usr_quota_inum),
            ![0, InodeNr::GROUP_QUOTA.0].contains(&disk.grp_quota_inum),
            projects != 0 && !is_projects_file,
        ];
        // Without the feature they are unused, but must be valid numbers.
        let is_invalid = all.into_iter().any(|nr| {
            let is_file = nr >= geometry.first_inode && geometry.contains_inode(InodeNr(nr));
            ![0, InodeNr::USER_QUOTA.0, InodeNr::GROUP_QUOTA.0].contains(&nr) && !is_file
        });
        if is_invalid || (has_quota && is_wrong.contains(&true)) {
            let problem = CorruptKind::QuotaNumber;
            self.add_problem(DamageLocation::Superblock, "superblock", problem);
        }
    }
}
