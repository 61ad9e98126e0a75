//! Check of superblock fields that a mount accepts and e2fsck does not.

use crate::state::Check;
use uext4_format::superblock::DESC_SIZE_MAX;
use uext4_format::{CorruptKind, DamageLocation, Feature, Features};
use uext4_volume::REVISION_MAX;

/// Features with a name that e2fsck does not know. File systems with one of them, or with a feature
/// without a name, cannot be checked completely.
const UNKNOWN: [Feature; 5] = [
    Feature::LAZY_BG,
    Feature::EXCLUDE_BITMAP,
    Feature::BTREE_DIR,
    Feature::HAS_SNAPSHOT,
    Feature::REPLICA,
];

/// Size of an inode without extra fields, and the smallest size of extra fields, in bytes.
const OLD_INODE_BYTES: u16 = 128;
const EXTRA_BYTES_MIN: u16 = 4;

impl Check<'_> {
    pub(crate) fn check_superblock(&mut self) {
        let disk = self.superblock;
        if disk.rev_level > REVISION_MAX {
            let problem = CorruptKind::Revision;
            self.add_problem(DamageLocation::Superblock, "superblock", problem);
        }
        let features = disk.features();
        // A mount refuses unknown incompatible features.
        let others = Features {
            incompat: 0,
            ..features
        };
        let mut others = others.iter();
        if others.any(|one| UNKNOWN.contains(&one) || one.name().is_none()) {
            let problem = CorruptKind::UnknownFeatures;
            self.add_problem(DamageLocation::Superblock, "superblock", problem);
        }
        if features.has(Feature::METADATA_CSUM) && features.has(Feature::UNINIT_BG) {
            let problem = CorruptKind::TwoSeals;
            self.add_problem(DamageLocation::Superblock, "superblock", problem);
        }
        if features.has(Feature::CSUM_SEED) && !features.has(Feature::METADATA_CSUM) {
            let problem = CorruptKind::SeedWithoutChecksums;
            self.add_problem(DamageLocation::Superblock, "superblock", problem);
        }
        if features.has(Feature::ORPHAN_FILE) && !features.has(Feature::HAS_JOURNAL) {
            let problem = CorruptKind::OrphanFileWithoutJournal;
            self.add_problem(DamageLocation::Superblock, "superblock", problem);
        }
        if !features.has(Feature::RESIZE_INODE) && disk.reserved_gdt_blocks != 0 {
            let problem = CorruptKind::ReservedWithoutFeature;
            self.add_problem(DamageLocation::Superblock, "superblock", problem);
        }
        // Without the feature `64bit` the field is otherwise unused.
        let size = disk.desc_size;
        if size != 0 && (!size.is_power_of_two() || u32::from(size) > DESC_SIZE_MAX) {
            let problem = CorruptKind::DescriptorSizes;
            self.add_problem(DamageLocation::Superblock, "superblock", problem);
        }
        let extra_max = self.geometry.inode_size.saturating_sub(OLD_INODE_BYTES);
        let is_odd = |size: u16| {
            let fits = (EXTRA_BYTES_MIN..=extra_max).contains(&size) && size.is_multiple_of(4);
            size != 0 && extra_max > 0 && !fits
        };
        if is_odd(disk.min_extra_isize) || is_odd(disk.want_extra_isize) {
            let problem = CorruptKind::ExtraSizes;
            self.add_problem(DamageLocation::Superblock, "superblock", problem);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A feature that `format` learns is one that e2fsck does not know until this says otherwise.
    #[test]
    fn features_that_e2fsck_knows_are_counted() {
        let all = |compat, ro_compat| Features {
            compat,
            ro_compat,
            ..Features::default()
        };
        let known = |features: Features| {
            let named = features.iter().filter(|one| one.name().is_some());
            named.filter(|one| !UNKNOWN.contains(one)).count()
        };
        assert_eq!(known(all(u32::MAX, 0)), 10);
        assert_eq!(known(all(0, u32::MAX)), 14);
    }
}
