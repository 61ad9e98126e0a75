//! Check of superblock fields that a mount accepts and e2fsck does not.

use super::Check;
use uext4_format::{CorruptKind, Feature, Features, Place};
use uext4_volume::REVISION_MAX;

/// Features that e2fsck knows. File systems with other features cannot be checked completely.
const KNOWN: Features = Features::of(&[
    Feature::DIR_PREALLOC,
    Feature::IMAGIC_INODES,
    Feature::HAS_JOURNAL,
    Feature::EXT_ATTR,
    Feature::RESIZE_INODE,
    Feature::DIR_INDEX,
    Feature::SPARSE_SUPER2,
    Feature::FAST_COMMIT,
    Feature::STABLE_INODES,
    Feature::ORPHAN_FILE,
    Feature::SPARSE_SUPER,
    Feature::LARGE_FILE,
    Feature::HUGE_FILE,
    Feature::UNINIT_BG,
    Feature::DIR_NLINK,
    Feature::EXTRA_ISIZE,
    Feature::QUOTA,
    Feature::BIGALLOC,
    Feature::METADATA_CSUM,
    Feature::READONLY,
    Feature::PROJECT,
    Feature::SHARED_BLOCKS,
    Feature::VERITY,
    Feature::ORPHAN_PRESENT,
]);

/// Size of an inode without extra fields, and the smallest size of extra fields, in bytes.
const OLD_INODE_BYTES: u16 = 128;
const EXTRA_BYTES_MIN: u16 = 4;
/// Largest descriptor in bytes.
const DESCRIPTOR_BYTES_MAX: u16 = 1024;

impl Check<'_> {
    pub(super) fn check_superblock(&mut self) {
        let disk = self.fs.base.superblock.read().disk.clone();
        if disk.rev_level > REVISION_MAX {
            let problem = CorruptKind::Revision;
            self.add_problem(Place::Superblock, "superblock", problem);
        }
        let features = disk.features();
        if features.compat & !KNOWN.compat != 0 || features.ro_compat & !KNOWN.ro_compat != 0 {
            let problem = CorruptKind::UnknownFeatures;
            self.add_problem(Place::Superblock, "superblock", problem);
        }
        if features.has(Feature::METADATA_CSUM) && features.has(Feature::UNINIT_BG) {
            let problem = CorruptKind::TwoSeals;
            self.add_problem(Place::Superblock, "superblock", problem);
        }
        // Without the feature `64bit` the field is otherwise unused.
        let size = disk.desc_size;
        if size != 0 && (!size.is_power_of_two() || size > DESCRIPTOR_BYTES_MAX) {
            let problem = CorruptKind::DescriptorSizes;
            self.add_problem(Place::Superblock, "superblock", problem);
        }
        let extra_max = self
            .fs
            .base
            .geometry
            .inode_size
            .saturating_sub(OLD_INODE_BYTES);
        let is_odd = |size: u16| {
            let fits = (EXTRA_BYTES_MIN..=extra_max).contains(&size) && size.is_multiple_of(4);
            size != 0 && extra_max > 0 && !fits
        };
        if is_odd(disk.min_extra_isize) || is_odd(disk.want_extra_isize) {
            let problem = CorruptKind::ExtraSizes;
            self.add_problem(Place::Superblock, "superblock", problem);
        }
    }
}
