//! Repair of superblock fields.

use super::Outcome;
use super::patch::Patch;
use crate::report::Finding;
use crate::state::Step;
use uext4_format::{CorruptKind, Feature, Features, InodeNr, Superblock};

/// Bytes of the extra fields that all programs know.
const EXTRA_BYTES: u16 = 32;

impl Patch<'_, '_> {
    pub(super) fn repair_superblock(&mut self, findings: &[Finding]) -> Step<Outcome> {
        let mut features = self.superblock.features();
        for finding in findings {
            self.repair_field(&finding.corrupt.problem, &mut features);
        }
        self.superblock.set_features(features);
        Ok(Outcome::Repaired)
    }

    fn repair_field(&mut self, problem: &CorruptKind, features: &mut Features) {
        let disk = &mut self.superblock;
        match problem {
            CorruptKind::TwoSeals => features.remove(Feature::UNINIT_BG),
            CorruptKind::SeedWithoutChecksums => features.remove(Feature::CSUM_SEED),
            CorruptKind::OrphanFileWithoutJournal => {
                features.remove(Feature::ORPHAN_FILE);
                features.remove(Feature::ORPHAN_PRESENT);
                disk.orphan_file_inum = 0;
            }
            CorruptKind::DescriptorSizes => disk.desc_size = self.check.geometry.desc_size,
            CorruptKind::ExtraSizes => {
                disk.min_extra_isize = EXTRA_BYTES;
                disk.want_extra_isize = EXTRA_BYTES;
            }
            CorruptKind::QuotaNumber => repair_quota_numbers(disk, features),
            CorruptKind::JournalWithoutFeature => {
                disk.journal_inum = 0;
                disk.journal_dev = 0;
                disk.journal_uuid = [0; 16];
            }
            CorruptKind::ReplayWithoutJournal => features.remove(Feature::RECOVER),
            CorruptKind::TwoJournals => disk.journal_uuid = [0; 16],
            CorruptKind::MmpOutside => {
                features.remove(Feature::MMP);
                disk.mmp_block = 0;
            }
            CorruptKind::ReservedWithoutFeature => disk.reserved_gdt_blocks = 0,
            CorruptKind::LargeWithoutFeature => features.insert(Feature::LARGE_FILE),
            CorruptKind::AttributesWithoutFeature => features.insert(Feature::EXT_ATTR),
            CorruptKind::ExtentsWithoutFeature => features.insert(Feature::EXTENTS),
            _ => {}
        }
    }
}

/// Without a usable number, a kind of quota has no file.
fn repair_quota_numbers(disk: &mut Superblock, features: &Features) {
    let has_quota = features.has(Feature::QUOTA);
    let kept = |there: u32, fixed: InodeNr| {
        if there != 0 && has_quota { fixed.0 } else { 0 }
    };
    disk.usr_quota_inum = kept(disk.usr_quota_inum, InodeNr::USER_QUOTA);
    disk.grp_quota_inum = kept(disk.grp_quota_inum, InodeNr::GROUP_QUOTA);
    disk.prj_quota_inum = 0;
}
